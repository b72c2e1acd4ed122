//! The connections in a stream of packets.
//!
//! A packet names the queue pair that it goes to, not the one that it comes from. So what goes to one queue pair is
//! half a connection, and the other half is what goes the other way and answers its requests: found by the PSNs.

use core::fmt;
use core::net::IpAddr;
use std::collections::BTreeMap;

use verbatim_wire::packet::{Packet, Psn, Qpn};

use super::connection::{Connection, Loss};
use super::heard::Event;

/// Halves that are looked at for the one that a response belongs to: of more, the newest.
const CANDIDATES: usize = 64;

/// The address of a port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Address {
    /// Of RoCE, or a GID of InfiniBand.
    Ip(IpAddr),
    /// Of native InfiniBand, within a subnet.
    Lid(u16),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(ip) => ip.fmt(f),
            Self::Lid(lid) => write!(f, "LID {lid:#06x}"),
        }
    }
}

/// One end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End {
    /// Its port.
    pub address: Address,
    /// Its queue pair; `None` when nothing was seen that went there, or not to which end it belongs.
    pub qpn: Option<Qpn>,
}

/// What goes from one port to a queue pair of another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Half {
    from: Address,
    to: Address,
    qpn: Qpn,
}

/// A connection of which no more packets come.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its number, from 1, in the order in which connections were first seen.
    pub number: u64,
    /// End 0, which was first seen to send, and end 1.
    pub ends: [End; 2],
    /// What was seen and found.
    pub connection: Connection,
}

#[derive(Clone, Debug)]
struct Known {
    /// What end 0 sends; and end 1, once it is known.
    halves: [Option<Half>; 2],
    connection: Connection,
}

/// Takes packets in order, and gives each to its connection.
#[derive(Clone, Debug, Default)]
pub struct Connections {
    loss: Loss,
    seen: u64,
    known: BTreeMap<u64, Known>,
    /// Which connection a half belongs to, and which end sends it.
    halves: BTreeMap<Half, (u64, usize)>,
    /// Connections of which only one half is known, by the addresses of that half.
    alone: BTreeMap<(Address, Address), Vec<u64>>,
    /// Responses whose connection is not known.
    pub strays: u64,
}

impl Connections {
    /// None yet.
    #[must_use]
    pub fn new(loss: Loss) -> Self {
        Self {
            loss,
            ..Self::default()
        }
    }

    /// Takes a packet of a reliable connection. `ended` gets a connection in whose place another has come.
    pub fn take(&mut self, event: &Event<'_>, mut ended: impl FnMut(Ended)) {
        let Some(half) = half(&event.packet) else { return };
        let bth = event.packet.bth();
        let (psn, is_response) = (bth.psn(), bth.opcode().is_response());
        let mut place = self.halves.get(&half).copied();
        if let Some((number, by)) = place {
            let connection = &self.known[&number].connection;
            let is_over = if is_response {
                !connection.covers(1 - by, psn) && self.other_half(half, psn).is_some()
            } else {
                event.packet.icrc_is_right() && connection.is_far(by, psn)
            };
            if is_over {
                ended(self.end(number));
                place = None;
            }
        }
        let (number, by) = match place {
            Some((number, by)) if !is_response || self.known[&number].halves[1 - by].is_some() => (number, by),
            Some((number, by)) => match self.other_half(half, psn) {
                Some(other) if other != number => self.join(number, by, other),
                _ => (number, by),
            },
            None => match self.other_half(half, psn).filter(|_| is_response) {
                Some(other) => self.pair(half, other),
                None => self.begin(half),
            },
        };
        if let Some(known) = self.known.get_mut(&number) {
            known.connection.take(by, event);
            self.strays += u64::from(is_response && known.halves[1 - by].is_none());
        }
    }

    /// All connections that are left, in the order in which they were first seen.
    pub fn finish(mut self, mut ended: impl FnMut(Ended)) {
        while let Some(number) = self.known.keys().next().copied() {
            ended(self.end(number));
        }
    }

    fn begin(&mut self, half: Half) -> (u64, usize) {
        self.seen += 1;
        let known = Known {
            halves: [Some(half), None],
            connection: Connection::new(self.loss),
        };
        self.known.insert(self.seen, known);
        self.halves.insert(half, (self.seen, 0));
        self.alone.entry((half.from, half.to)).or_default().push(self.seen);
        (self.seen, 0)
    }

    /// The one connection whose other half is not known and whose requests a response with this PSN may answer.
    fn other_half(&self, half: Half, psn: Psn) -> Option<u64> {
        let alone = self.alone.get(&(half.to, half.from))?;
        let mut fitting = alone
            .iter()
            .rev()
            .take(CANDIDATES)
            .filter(|number| self.known[number].connection.covers(0, psn));
        let first = fitting.next().copied()?;
        fitting.next().is_none().then_some(first)
    }

    /// A half that is new answers that connection's requests.
    fn pair(&mut self, half: Half, other: u64) -> (u64, usize) {
        if let Some(known) = self.known.get_mut(&other) {
            known.halves[1] = Some(half);
        }
        self.halves.insert(half, (other, 1));
        self.forget_alone(other, (half.to, half.from));
        (other, 1)
    }

    /// A connection of which one half was known is the other half of another one; the one that was first seen stays.
    fn join(&mut self, number: u64, by: usize, other: u64) -> (u64, usize) {
        let (kept, gone) = (number.min(other), number.max(other));
        let (Some(half), Some(gone_half)) = (self.known[&kept].halves[0], self.known[&gone].halves[0]) else {
            return (number, by);
        };
        self.forget_alone(kept, (half.from, half.to));
        self.forget_alone(gone, (gone_half.from, gone_half.to));
        let Some(gone) = self.known.remove(&gone) else {
            return (number, by);
        };
        if let Some(known) = self.known.get_mut(&kept) {
            known.halves[1] = Some(gone_half);
            known.connection.join(gone.connection);
        }
        self.halves.insert(gone_half, (kept, 1));
        (kept, usize::from(kept != number))
    }

    fn forget_alone(&mut self, number: u64, between: (Address, Address)) {
        if let Some(alone) = self.alone.get_mut(&between) {
            alone.retain(|kept| *kept != number);
        }
    }

    fn end(&mut self, number: u64) -> Ended {
        // Numbers come from the map's own keys.
        let known = self.known.remove(&number).unwrap_or_else(|| Known {
            halves: [None; 2],
            connection: Connection::new(self.loss),
        });
        for half in known.halves.into_iter().flatten() {
            self.halves.remove(&half);
            self.forget_alone(number, (half.from, half.to));
        }
        let [first, second] = known.halves;
        let (from, to) = first.map_or((Address::Lid(0), Address::Lid(0)), |half| (half.from, half.to));
        let end = |address, half: Option<Half>| End {
            address,
            qpn: half.map(|half| half.qpn),
        };
        Ended {
            number,
            ends: [end(from, second), end(to, first)],
            connection: known.connection,
        }
    }
}

/// From where to which queue pair a packet goes.
fn half(packet: &Packet<'_>) -> Option<Half> {
    let ips = match (packet.ipv4(), packet.ipv6(), packet.grh()) {
        (Some(ip), ..) => Some((ip.src().into(), ip.dst().into())),
        (_, Some(ip), _) => Some((ip.src().into(), ip.dst().into())),
        (.., Some(grh)) => Some((grh.src().into(), grh.dst().into())),
        _ => None,
    };
    let (from, to) = match (ips, packet.lrh()) {
        (Some((from, to)), _) => (Address::Ip(from), Address::Ip(to)),
        (None, Some(lrh)) => (Address::Lid(lrh.slid().0), Address::Lid(lrh.dlid().0)),
        (None, None) => return None,
    };
    Some(Half {
        from,
        to,
        qpn: packet.bth().dest_qp(),
    })
}
