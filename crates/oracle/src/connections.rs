//! Finds the connections in a stream of packets.
//!
//! A packet names its destination queue pair, not its source. The packets to one queue pair are therefore half a
//! connection. The PSNs of responses show which packets in the other direction are the other half.

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

/// Maximum number of connections that a response is compared with. The newest connections are tried first.
const CANDIDATES: usize = 64;
/// Maximum number of open connections. Beyond it, the oldest connection ends.
const MOST: usize = 1 << 16;
/// Number of responses with distinct PSNs that must fit a connection before the pairing of its two directions is
/// certain.
const FITTING: u32 = 2;
/// Like [`FITTING`], if the response that paired the directions may also belong to another connection. More
/// responses are needed, because after one lost packet some may fit by chance.
const FITTING_OF_SEVERAL: u32 = 4;
/// Largest PSN distance at which one lost packet can make two connections look alike.
const NEAR: u32 = 1 << 16;

/// Address of a port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Address {
    /// IP address of RoCE, or GID of InfiniBand.
    Ip(IpAddr),
    /// LID of native InfiniBand, within a subnet.
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
    /// Port of the end.
    pub address: Address,
    /// Queue pair of the end; `None` if no packet to the queue pair is known.
    pub qpn: Option<Qpn>,
}

/// Direction of packets: from one port to a queue pair of another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Half {
    // The first field, because the derived order compares it first and it differs most often.
    qpn: Qpn,
    from: Address,
    to: Address,
}

/// Connection that has ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Number from 1, in the order in which connections were first seen.
    pub number: u64,
    /// End 0, whose packets were seen first, and end 1.
    pub ends: [End; 2],
    /// Packet counts and findings.
    pub connection: Connection,
}

#[derive(Clone, Debug)]
struct Known {
    /// Halves of end 0 and end 1; `None` until the half is known.
    halves: [Option<Half>; 2],
    connection: Connection,
    /// Number of responses that fit this connection since its halves were paired, and the PSN of the last one.
    fitting: (u32, Option<Psn>),
    /// Numbers and requesting ends of other connections to which the response that paired the halves may belong.
    rivals: Vec<(u64, usize)>,
    /// New connection that may have taken the place of this connection.
    another: Option<Box<Another>>,
}

/// Connection that may have begun on the same queue pair. Later packets show which of the two connections continues.
#[derive(Clone, Debug)]
struct Another {
    /// End of the old connection that sent the first request of the new connection. It is end 0 of the new
    /// connection.
    by: usize,
    doubt: Doubt,
    /// State of the old connection, including the request that may begin the new connection. The violations of that
    /// request are excused. This state is reported if the new connection has begun.
    over: Connection,
    /// State of the new connection.
    begun: Connection,
}

/// Assigns packets, taken in order, to their connections.
#[derive(Clone, Debug, Default)]
pub struct Connections {
    loss: Loss,
    seen: u64,
    known: BTreeMap<u64, Known>,
    /// Connection number and sending end of each half.
    halves: BTreeMap<Half, (u64, usize)>,
    /// Numbers of the connections with one known half, by the addresses of that half.
    alone: BTreeMap<(Address, Address), BTreeSet<u64>>,
    /// Numbers of all connections, by the addresses of each known half.
    between: BTreeMap<(Address, Address), BTreeSet<u64>>,
    /// Number of responses without a known connection.
    pub strays: u64,
    /// For each half without a connection: its first packet, which has a wrong ICRC.
    damaged: BTreeMap<Half, Damaged>,
    unclaimed: Unclaimed,
    /// REQs of the communication manager, by sender, receiver and communication ID.
    asked: BTreeMap<(Address, Address, u32), Asked>,
}

impl Connections {
    /// Returns a set without connections.
    #[must_use]
    pub fn new(loss: Loss) -> Self {
        Self {
            loss,
            ..Self::default()
        }
    }

    /// Takes a packet of a reliable connection and ignores other packets. Calls `ended` for each connection that ends.
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
            // A damaged packet may carry a wrong queue pair number.
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
                // If the PSN is near, the connection goes on: the capture may lack the request.
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

    /// Returns connection number and end for a new half. If the half's first packet is a response, `answers` is its
    /// PSN, and the half joins the connection with the matching request.
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

    /// Returns whether a fitting response is evidence that the two halves belong together. If there are rival
    /// connections, the response must fit none of them, and must not be a Middle or Last of a READ.
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

    /// Ends a connection and begins the connection that replaced it. The new connection takes over the halves from
    /// which it has packets. Returns the ended connection.
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

    /// Separates the two directions of a connection after a response contradicted their pairing.
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

    /// Calls `ended` for all remaining connections, in the order in which they were first seen. Returns the packets
    /// that belong to no connection.
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

    /// Returns the connection that `half` may complete: it lacks its other half, and has a request with this PSN.
    /// `None` if no connection or several connections fit.
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

    /// Returns the connections, except `but`, whose next PSN is near this response's PSN: numbers and requesting
    /// ends. If the capture lacks a packet, the response may belong to one of them.
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

    /// Pairs a new half with the connection whose requests it answers. `psn`: the PSN of the response, if a response is
    /// the evidence.
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

    /// Joins two connections that are halves of one connection. The lower number remains.
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
        // Callers pass keys of the map, so that this default is never used.
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
    /// Returns whether a request does not fit the new connection.
    fn differs(&self, by: usize, event: &Event<'_>) -> bool {
        let doubt = self.begun.doubts(usize::from(by != self.by), event);
        doubt.is_some_and(|doubt| doubt.differs)
    }

    /// Returns, at the end of the stream, whether the new connection has probably begun.
    fn is_likely(&self) -> bool {
        self.doubt.differs && self.doubt.was_acknowledged && self.begun.packets[0] + self.begun.packets[1] > 1
    }
}

impl Known {
    /// Takes a packet. Returns whether the packet shows that another connection has begun.
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
        // If the MSN exceeds the number of requests of the new connection, the responder still counts for the old
        // connection.
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
        // The request that may begin the new connection may equal an earlier request. If the MSN then exceeds the
        // number of requests of the new connection, the request is a duplicate, and the old connection goes on.
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
            // A packet that fits neither connection may begin a third connection.
            self.another = over.map(|over| begin(&self.connection, over));
        }
        false
    }
}

/// Returns source port, destination port and destination queue pair of a packet.
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
