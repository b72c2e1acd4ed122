//! The connections in a stream of packets.
//!
//! A packet names the queue pair that it goes to, not the one that it comes from. So what goes to one queue pair is
//! half a connection, and the other half is what goes the other way and answers its requests: found by the PSNs.

mod manager;
mod unclaimed;

use core::fmt;
use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use verbatim_wire::packet::{Opcode, Packet, Psn, Qpn, Service};

use super::connection::{Connection, Doubt, Loss};
use super::parsed::Event;
use super::rule::Excuse;
use crate::freedom::holds;
use manager::Asked;
use unclaimed::Damaged;
pub use unclaimed::Unclaimed;

/// Halves that are looked at for the one that a response belongs to: of more, the newest.
const CANDIDATES: usize = 64;
/// Connections that are kept at once: when there are more, the oldest is taken to be over.
const MOST: usize = 1 << 16;
/// Responses with PSNs of their own that must fit, and fit no other connection, before two directions are surely one connection.
const FITTING: u32 = 2;
/// The same where it may have been another one: more than those that one packet which is missing lets fit by chance.
const FITTING_OF_SEVERAL: u32 = 4;
/// Connections whose PSNs are no further apart than that may be taken for each other, where one packet was lost.
const NEAR: u32 = 1 << 16;

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
    // First, for it tells most halves apart when they are compared.
    qpn: Qpn,
    from: Address,
    to: Address,
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
    /// Responses that have fitted since the halves were paired, and the PSN of the last one.
    fitting: (u32, Option<Psn>),
    /// Other connections, and which of their ends asks, that its responses may have been of when the halves were paired.
    rivals: Vec<(u64, usize)>,
    /// That another connection may have begun.
    another: Option<Box<Another>>,
}

/// Another connection of the same queue pair that may have begun, until what follows shows which one goes on.
#[derive(Clone, Debug)]
struct Another {
    /// Who has sent the request that it began with: its end 0.
    by: usize,
    doubt: Doubt,
    /// The one before as it is to be reported if it ended there.
    over: Connection,
    /// The other one, if it has begun.
    begun: Connection,
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
    alone: BTreeMap<(Address, Address), BTreeSet<u64>>,
    /// All connections, by the addresses of each half that is known.
    between: BTreeMap<(Address, Address), BTreeSet<u64>>,
    /// Responses whose connection is not known.
    pub strays: u64,
    /// Packets with a wrong ICRC, of halves of which nothing else was seen.
    damaged: BTreeMap<Half, Damaged>,
    unclaimed: Unclaimed,
    /// Requests of the communication manager, by who asked whom and their number.
    asked: BTreeMap<(Address, Address, u32), Asked>,
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

    /// Takes a packet of a reliable connection; others are left alone. `ended` gets a connection in whose place another
    /// has come.
    pub fn take(&mut self, event: &Event<'_>, mut ended: impl FnMut(Ended)) {
        let Some(half) = half(&event.packet) else { return };
        let bth = event.packet.bth();
        if bth.opcode().service() != Service::Rc {
            return;
        }
        let (psn, is_response) = (bth.psn(), bth.opcode().is_response());
        let mut place = self.halves.get(&half).copied();
        let mut is_sound_and_new = false;
        if place.is_none() {
            is_sound_and_new = event.packet.icrc_is_right();
            // Where a damaged packet belongs its own bytes do not tell.
            if !is_sound_and_new {
                if !self.claims_damaged(half, event, &mut ended) {
                    return;
                }
                place = self.halves.get(&half).copied();
            } else if is_response && self.other_half(half, psn).is_none() {
                self.claim_answered(half, psn, &mut ended);
            }
        }
        if let Some((number, by)) = place {
            let known = &self.known[&number];
            let is_of_another = |another: &Another| another.by != by && another.begun.covers(0, psn);
            let is_over = is_response
                && known.halves[1 - by].is_some()
                && !known.connection.covers(1 - by, psn)
                // Near what was sent the request may have been lost.
                && !known.connection.is_near(1 - by, psn, NEAR)
                && !known.another.as_deref().is_some_and(is_of_another)
                && self.other_half(half, psn).is_some();
            if is_over {
                ended(self.end(number));
                place = None;
            }
        }
        let (number, by) = match place {
            Some((number, by)) if !is_response || self.known[&number].halves[1 - by].is_some() => (number, by),
            Some((number, by)) => match self.other_half(half, psn) {
                Some(other) if other != number => self.join((number, by), other, (half, psn)),
                _ => (number, by),
            },
            None => self.open(half, is_response.then_some(psn), &mut ended),
        };
        let speaks = is_response && self.speaks(number, &event.packet);
        let Some(known) = self.known.get_mut(&number) else {
            return;
        };
        self.strays += u64::from(is_response && known.halves[1 - by].is_none());
        if known.take(by, event, (is_response, speaks)) {
            let last = self.another(number);
            ended(last);
        } else if known.connection.is_contradicted() {
            self.unpair(number);
        }
        if is_sound_and_new {
            self.claim_same(half, &mut ended);
        }
    }

    /// Where a half belongs of which this is the first packet: a response, with its PSN, to the connection that it
    /// answers.
    fn open(&mut self, half: Half, answers: Option<Psn>, ended: &mut impl FnMut(Ended)) -> (u64, usize) {
        if let Some(psn) = answers
            && let Some(other) = self.other_half(half, psn)
        {
            return self.pair(half, other, Some(psn));
        }
        if self.known.len() >= MOST
            && let Some(oldest) = self.known.keys().next().copied()
        {
            ended(self.end(oldest));
        }
        self.begin(half)
    }

    /// Whether a response that fits a connection says that its halves belong together: it is of no rival's. The parts of one response
    /// say no more than its first.
    fn speaks(&self, number: u64, packet: &Packet<'_>) -> bool {
        let rivals = self.known.get(&number).map_or(&[][..], |known| &known.rivals);
        let is_part = matches!(
            packet.opcode(),
            Opcode::RC_READ_RESPONSE_MIDDLE | Opcode::RC_READ_RESPONSE_LAST
        );
        let awaits = |(rival, end): &(u64, usize)| {
            let rival = self.known.get(rival);
            rival.is_some_and(|rival| rival.connection.awaits(*end, packet.bth().psn()))
        };
        rivals.is_empty() || !is_part && !rivals.iter().any(awaits)
    }

    /// Another connection has come in the place of that one, of the same halves as far as they took part.
    fn another(&mut self, number: u64) -> Ended {
        let known = self.known.get_mut(&number);
        let another = known.and_then(|known| {
            let another = known.another.take()?;
            known.connection = another.over;
            Some((another.by, another.begun, known.halves))
        });
        let last = self.end(number);
        if let Some((by, begun, halves)) = another
            && let Some(first) = halves[by]
        {
            let (number, _) = self.begin(first);
            let second = halves[1 - by].filter(|_| begun.packets[1] > 0);
            if let Some(known) = self.known.get_mut(&number) {
                known.connection = begun;
            }
            if let Some(second) = second {
                self.pair(second, number, None);
            }
        }
        last
    }

    /// When a response that was taken for this connection's cannot be, the directions are none of each other's.
    fn unpair(&mut self, number: u64) {
        let Some(known) = self.known.get_mut(&number) else {
            return;
        };
        known.connection.unpair();
        let (first, second) = (known.halves[0], known.halves[1].take());
        if let (Some(first), Some(second)) = (first, second) {
            self.halves.remove(&second);
            self.forget_between(number, second);
            self.alone.entry((first.from, first.to)).or_default().insert(number);
        }
    }

    /// All connections that are left, in the order in which they were first seen; and the packets of none.
    pub fn finish(mut self, mut ended: impl FnMut(Ended)) -> Unclaimed {
        let unclaimed = self.claim_last(&mut ended);
        while let Some(number) = self.known.keys().next().copied() {
            let is_another = self.known[&number].another.as_deref().is_some_and(Another::is_likely);
            ended(if is_another {
                self.another(number)
            } else {
                self.end(number)
            });
        }
        unclaimed
    }

    fn begin(&mut self, half: Half) -> (u64, usize) {
        self.seen += 1;
        let known = Known {
            halves: [Some(half), None],
            connection: Connection::new(self.loss),
            fitting: (0, None),
            rivals: Vec::new(),
            another: None,
        };
        self.known.insert(self.seen, known);
        self.halves.insert(half, (self.seen, 0));
        self.between.entry((half.from, half.to)).or_default().insert(self.seen);
        self.alone.entry((half.from, half.to)).or_default().insert(self.seen);
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

    /// Which other connections, and which of their ends, a response of that half with this PSN may have answered, if a packet were
    /// missing.
    fn rivals(&self, half: Half, psn: Psn, but: [u64; 2]) -> Vec<(u64, usize)> {
        let all = self.between.get(&(half.to, half.from)).into_iter().flatten();
        let others = all.rev().filter(|number| !but.contains(number)).take(CANDIDATES);
        let asks = |(number, known): (u64, &Known)| {
            let is_near = |end: &usize| {
                let of = known.halves[*end];
                let is_its = of.is_some_and(|of| (of.from, of.to) == (half.to, half.from));
                is_its && known.connection.is_near(*end, psn, NEAR)
            };
            [0, 1].into_iter().find(is_near).map(|end| (number, end))
        };
        others
            .filter_map(|number| asks((*number, self.known.get(number)?)))
            .collect()
    }

    /// A half that is new answers that connection's requests, by that PSN as far as it had to be looked for.
    fn pair(&mut self, half: Half, other: u64, psn: Option<Psn>) -> (u64, usize) {
        let rivals = psn.map_or_else(Vec::new, |psn| self.rivals(half, psn, [other; 2]));
        if let Some(known) = self.known.get_mut(&other) {
            known.halves[1] = Some(half);
            known.fitting = (0, None);
            known.rivals = rivals;
            known.connection.set_provisional(true);
        }
        self.halves.insert(half, (other, 1));
        self.between.entry((half.from, half.to)).or_default().insert(other);
        self.forget_alone(other, (half.to, half.from));
        (other, 1)
    }

    /// A connection of which one half was known is the other half of another one; the one that was first seen stays.
    fn join(&mut self, (number, by): (u64, usize), other: u64, (of, psn): (Half, Psn)) -> (u64, usize) {
        let rivals = self.rivals(of, psn, [number, other]);
        let (kept, gone) = (number.min(other), number.max(other));
        let (Some(half), Some(gone_half)) = (self.known[&kept].halves[0], self.known[&gone].halves[0]) else {
            return (number, by);
        };
        self.forget_alone(kept, (half.from, half.to));
        self.forget_alone(gone, (gone_half.from, gone_half.to));
        self.forget_between(gone, gone_half);
        let Some(gone) = self.known.remove(&gone) else {
            return (number, by);
        };
        self.between
            .entry((gone_half.from, gone_half.to))
            .or_default()
            .insert(kept);
        if let Some(known) = self.known.get_mut(&kept) {
            known.halves[1] = Some(gone_half);
            known.connection.join(gone.connection);
            known.another = None;
            known.fitting = (0, None);
            known.rivals = rivals;
            known.connection.set_provisional(true);
        }
        self.halves.insert(gone_half, (kept, 1));
        (kept, usize::from(kept != number))
    }

    fn forget_alone(&mut self, number: u64, between: (Address, Address)) {
        if let Some(alone) = self.alone.get_mut(&between) {
            alone.remove(&number);
        }
    }

    fn forget_between(&mut self, number: u64, half: Half) {
        if let Some(between) = self.between.get_mut(&(half.from, half.to)) {
            between.remove(&number);
        }
    }

    fn end(&mut self, number: u64) -> Ended {
        // Numbers come from the map's own keys.
        let mut known = self.known.remove(&number).unwrap_or_else(|| Known {
            halves: [None; 2],
            connection: Connection::new(self.loss),
            fitting: (0, None),
            rivals: Vec::new(),
            another: None,
        });
        for half in known.halves.into_iter().flatten() {
            self.halves.remove(&half);
            self.forget_between(number, half);
            self.forget_alone(number, (half.from, half.to));
        }
        known.connection.blame_damaged();
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

impl Another {
    /// Whether a request cannot be of the one that may have begun.
    fn differs(&self, by: usize, event: &Event<'_>) -> bool {
        let doubt = self.begun.doubts(usize::from(by != self.by), event);
        doubt.is_some_and(|doubt| doubt.differs)
    }

    /// Whether it has rather begun than not, when nothing more comes.
    fn is_likely(&self) -> bool {
        self.doubt.differs && self.doubt.was_acknowledged && self.begun.packets[0] + self.begun.packets[1] > 1
    }
}

impl Known {
    /// Takes a packet. Whether it shows that another connection has begun.
    fn take(&mut self, by: usize, event: &Event<'_>, (is_response, speaks): (bool, bool)) -> bool {
        let psn = event.packet.bth().psn();
        let doubt = self.connection.doubts(by, event).filter(|_| !is_response);
        let begins = |doubt: &Doubt| {
            let another = self.another.as_deref();
            another.is_none_or(|another| doubt.differs && another.differs(by, event))
        };
        let over = doubt.filter(begins).map(|doubt| {
            let mut over = self.connection.clone();
            over.take_as(Excuse::AnotherConnection, by, event);
            (doubt, over)
        });
        let goes_on = !is_response && self.connection.goes_on(by, psn);
        let before = self.connection.totals().0;
        let knows = is_response && self.connection.knows_count(1 - by, psn);
        let wrong_msns = self.another.as_ref().map_or(0, |_| self.connection.wrong_msns());
        self.connection.take(by, event);
        let is_broken = self.connection.totals().0 > before;
        let is_new = speaks && is_response && self.connection.is_provisional() && self.fitting.1 != Some(psn);
        if is_new && event.packet.icrc_is_right() {
            self.fitting = (self.fitting.0 + 1, Some(psn));
            let enough = match self.rivals.is_empty() {
                true => FITTING,
                false => FITTING_OF_SEVERAL,
            };
            if self.fitting.0 >= enough && !self.connection.is_contradicted() {
                self.connection.set_provisional(false);
                self.rivals.clear();
            }
        }
        let begin = |connection: &Connection, (doubt, over)| {
            let mut begun = connection.anew();
            begun.take(0, event);
            holds(2);
            Box::new(Another { by, doubt, over, begun })
        };
        let Some(another) = &mut self.another else {
            self.another = over.map(|over| begin(&self.connection, over));
            return false;
        };
        // What the responder has counted in all, and cannot have counted since: nothing has begun anew.
        let counted = event.packet.aeth().map_or(0, |aeth| u64::from(aeth.msn()));
        let is_of_first = by != another.by;
        let goes_on_counting =
            knows && is_of_first && self.connection.wrong_msns() == wrong_msns && counted > another.begun.packets[0];
        let (before, of_it) = (another.begun.totals().0, usize::from(is_of_first));
        let begun_has = !is_response || another.begun.covers(1 - of_it, psn);
        let begun_goes_on = !is_response && another.begun.is_next(of_it, psn);
        let begun_differs = !is_response && another.differs(by, event);
        another.begun.take(of_it, event);
        let fits_begun = begun_has && !begun_differs && another.begun.totals().0 == before;
        // The same bytes again, and more counted than can have been since: a duplicate whose MSN is wrong.
        let counted_before = is_of_first && !another.doubt.differs && counted > another.begun.packets[0];
        let contradicts = is_broken
            || doubt.is_some_and(|doubt| doubt.differs)
            || is_response && !self.connection.covers(1 - by, psn);
        if contradicts && fits_begun && !goes_on_counting && !counted_before {
            return true;
        }
        let speaks =
            goes_on && !is_of_first && !begun_goes_on || knows && !is_broken && !another.doubt.was_acknowledged;
        if speaks || contradicts || goes_on_counting {
            // What contradicts both may begin one more.
            self.another = over.map(|over| begin(&self.connection, over));
        }
        false
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
