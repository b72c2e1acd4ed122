//! Packets with a wrong ICRC that belong to no known connection. Damage may have changed the queue pair number of
//! such a packet. A second packet to the same queue pair, or a response with the same PSN, shows its connection.

use verbatim_record::Time;
use verbatim_wire::Medium;
use verbatim_wire::packet::{Packet, Psn};

use super::{Connections, Ended, Event, Half, NEAR};

/// Maximum number of stored packets, each from a different half.
const MOST: usize = 4096;
/// Maximum number of stored packet numbers. Further packets are only counted.
const KEPT: usize = 16;

/// Packets with a wrong ICRC that belong to no connection.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Unclaimed {
    /// Number of packets.
    pub packets: u64,
    /// Numbers of up to 16 of these packets, as in [`Event::number`], in rising order.
    pub numbers: Vec<u64>,
}

/// A stored packet with a wrong ICRC.
#[derive(Clone, Debug)]
pub(super) struct Damaged {
    number: u64,
    at: Option<Time>,
    medium: Medium,
    bytes: Vec<u8>,
    is_response: bool,
    psn: Psn,
}

impl Damaged {
    fn of(event: &Event<'_>) -> Self {
        let bth = event.packet.bth();
        Self {
            number: event.number,
            at: event.at,
            medium: event.packet.medium(),
            bytes: event.packet.bytes().to_vec(),
            is_response: bth.opcode().is_response(),
            psn: bth.psn(),
        }
    }
}

impl Unclaimed {
    fn add(&mut self, number: u64) {
        self.packets += 1;
        if self.numbers.len() < KEPT {
            self.numbers.push(number);
        }
    }
}

impl Connections {
    /// Takes a packet with a wrong ICRC whose half has no connection. The second such packet gives the half a
    /// connection. Returns whether the half now has a connection.
    pub(super) fn claims_damaged(&mut self, half: Half, event: &Event<'_>, ended: &mut impl FnMut(Ended)) -> bool {
        let damaged = Damaged::of(event);
        match self.damaged.remove(&half) {
            Some(first) => {
                // If two PSNs are near each other, damage changed neither.
                let expects = damaged.psn.since(first.psn) < NEAR;
                self.claim(half, &first, expects, ended);
                self.halves.contains_key(&half)
            }
            None => {
                if self.damaged.len() >= MOST
                    && let Some((_, lost)) = self.damaged.pop_first()
                {
                    self.unclaimed.add(lost.number);
                }
                self.damaged.insert(half, damaged);
                false
            }
        }
    }

    /// Assigns a damaged request to a connection when a response with the PSN of the request arrives, if no other
    /// damaged request has that PSN.
    pub(super) fn claim_answered(&mut self, response: Half, psn: Psn, ended: &mut impl FnMut(Ended)) {
        let is_it = |(half, damaged): &(&Half, &Damaged)| {
            (half.from, half.to) == (response.to, response.from) && !damaged.is_response && damaged.psn == psn
        };
        let mut answered = self.damaged.iter().filter(is_it).map(|(half, _)| *half);
        let (Some(half), None) = (answered.next(), answered.next()) else {
            return;
        };
        if let Some(damaged) = self.damaged.remove(&half) {
            self.claim(half, &damaged, true, ended);
        }
    }

    /// Assigns the damaged packet of a half to the connection of a later, undamaged packet of the same half.
    pub(super) fn claim_same(&mut self, half: Half, ended: &mut impl FnMut(Ended)) {
        if let Some(damaged) = self.damaged.remove(&half) {
            self.claim(half, &damaged, false, ended);
        }
    }

    /// Assigns, at the end of the stream, each damaged response that fits only one connection. All other damaged
    /// packets are unclaimed.
    pub(super) fn claim_last(&mut self, ended: &mut impl FnMut(Ended)) -> Unclaimed {
        for (half, damaged) in core::mem::take(&mut self.damaged) {
            if damaged.is_response && self.other_half(half, damaged.psn).is_some() {
                self.claim(half, &damaged, false, ended);
            } else {
                self.unclaimed.add(damaged.number);
            }
        }
        self.unclaimed.numbers.sort_unstable();
        core::mem::take(&mut self.unclaimed)
    }

    /// Takes a damaged packet of a half. `expects`: whether the PSN of a request is trusted, and becomes the
    /// expected PSN.
    fn claim(&mut self, half: Half, damaged: &Damaged, expects: bool, ended: &mut impl FnMut(Ended)) {
        let Ok(packet) = Packet::parse(damaged.medium, &damaged.bytes) else {
            return;
        };
        let event = Event {
            number: damaged.number,
            at: damaged.at,
            packet,
            is_cut: false,
        };
        let (number, by) = match self.halves.get(&half) {
            Some(place) => *place,
            None => self.open(half, damaged.is_response.then_some(damaged.psn), ended),
        };
        let Some(known) = self.known.get_mut(&number) else {
            return;
        };
        if expects && !damaged.is_response {
            known.connection.expect(by, damaged.psn);
        }
        if known.take(by, &event, (damaged.is_response, false)) {
            let last = self.another(number);
            ended(last);
        }
    }
}
