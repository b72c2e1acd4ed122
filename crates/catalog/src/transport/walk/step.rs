//! The steps of a walk, drawn from the seed: each from a stream of its own, so that a walk without one of them has the others
//! unchanged.

use core::fmt;

use verbatim_record::Begin;
use verbatim_record::verbs::pb;
use verbatim_tester::Stream;
use verbatim_tester::peer::ChannelOptions;
use verbatim_wire::Mtu;
use verbatim_wire::packet::{AckTimeout, NakCode, Psn, RnrTimer};

use pb::Operation as O;

/// Steps on one connection, at most: as many as a mask of steps has bits, or fewer.
pub(super) const ON_ONE: u64 = 16;

/// A request: of the DUT, or of the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Want {
    /// What it does.
    pub(super) operation: O,
    /// Bytes.
    pub(super) length: u32,
    /// Where: bytes from the beginning of an area.
    pub(super) place: u32,
    /// Whether it waits for READs and atomics before it; of the DUT alone.
    pub(super) fence: bool,
    /// Whether it raises an event at the other side.
    pub(super) solicited: bool,
}

/// What happens to the peer's messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// Nothing.
    Sound,
    /// One of the packets is lost.
    Lost(u32),
    /// One of the packets comes with a wrong ICRC.
    Damaged(u32),
    /// One of the packets overtakes the one before it.
    Overtakes(u32),
    /// The answers are lost: all comes again.
    AnswersLost,
    /// The receives are missing at first.
    Unready,
}

/// What the peer does instead of answering a request of the DUT at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// It answers.
    None,
    /// A packet of the request does not arrive.
    RequestLost(u32),
    /// The answer does not arrive.
    AnswerLost,
    /// One response to a READ does not arrive.
    ResponseLost(u32),
    /// The receive is missing, so many times in a row.
    Rnr(RnrTimer, u32),
    /// A packet is said to be missing.
    SequenceNak(u32),
    /// A packet without effect comes before the answer.
    Stray(Stray),
    /// A packet without effect comes, and the answer when its effect would have shown.
    Behind(Stray),
    /// The same behind the first response to a READ: the others wait.
    Within(Stray),
    /// An RNR NAK, be it of something that takes no receive: it may lack another resource.
    Unready(RnrTimer),
    /// The answer comes twice.
    AnswerTwice,
    /// An answer with a wrong ICRC comes before the sound one.
    AnswerDamaged,
    /// One answer speaks for all.
    Coalesced,
    /// Each of its packets is acknowledged, whether it asks for that or not.
    Each,
}

/// A packet that has no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stray {
    /// A WRITE with this bit of its payload flipped and the ICRC of before.
    BadIcrc(u32),
    /// A WRITE with another TVer.
    TVer(u8),
    /// A WRITE with a P_Key that differs in this bit of its low 15.
    PKey(u32),
    /// A WRITE of the unreliable connection.
    OtherService,
    /// A WRITE to a queue pair that the DUT does not have.
    OtherQp,
    /// A WRITE from another address.
    OtherSource,
    /// A WRITE whose PSN is so far ahead.
    Ahead(u32),
    /// A SEND whose PSN is so far back.
    Behind(u32),
    /// An ACK of a PSN so far behind the newest request.
    GhostAck(u32),
    /// An ACK of a PSN so far before the oldest request.
    StaleAck(u32),
    /// A sequence NAK of a PSN so far behind the newest request.
    GhostNak(u32),
    /// A sequence NAK of a PSN so far before the oldest request.
    StaleNak(u32),
    /// An RNR NAK of a PSN so far before the oldest request.
    StaleRnr(u32),
    /// A NAK of that code, of a PSN so far before the oldest request.
    StaleFatal(NakCode, u32),
    /// The last response to a READ, of a PSN so far before the oldest request.
    StaleRead(u32),
    /// An RNR NAK of a PSN so far behind the newest request.
    GhostRnr(u32),
    /// A READ response with a PSN so far behind the newest request.
    GhostRead(u32),
    /// A congestion notification.
    Cnp,
}

/// A request of the peer that the DUT refuses for good.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Illegal {
    /// The R_Key differs in a bit.
    RKey(O, u32),
    /// It reaches beyond the region by a byte.
    Beyond(O),
    /// It begins a byte before the region.
    Before(O),
    /// It begins so far behind the region that its end wraps to the beginning of all addresses.
    Around(O),
    /// Its address differs in a bit that no address of the region has otherwise.
    Address(O, u32),
    /// An Only that is longer than the path MTU by so many bytes.
    TooLong(O, u32),
    /// A FetchAdd so many bytes behind a multiple of 8.
    Unaligned(u32),
    /// A Middle without a First.
    NoFirst,
    /// A First that is shorter than the path MTU by so many bytes.
    ShortFirst(u32),
    /// A WRITE Only that carries a byte less than DMALen says.
    DmaLen,
}

/// A step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// The peer sends messages, one behind the other.
    Ask(Vec<Want>, Way),
    /// The peer sends one again that was answered: so many back.
    Again(u32),
    /// The peer sends a packet that has no effect.
    Stray(Stray),
    /// The DUT posts requests, and this happens to one of them.
    Post(Vec<Want>, usize, Fault),
    /// The DUT posts requests, and one of them is refused for good; the last step of a connection.
    Refuse(Vec<Want>, usize, NakCode),
    /// The peer sends what the DUT must refuse; the last step of a connection.
    Illegal(Illegal),
}

/// A connection of a walk: what it is like, and its steps by number.
#[derive(Clone, Debug)]
pub(super) struct Leg {
    /// Its number, from 1 on.
    pub(super) number: u64,
    /// What it is like.
    pub(super) options: ChannelOptions,
    /// Its messages must have as many packets as this path MTU makes of them.
    pub(super) counts_packets: bool,
    /// The steps that are taken.
    pub(super) steps: Vec<(u64, Step)>,
}

/// What `--set` gave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Extent {
    /// Steps in all.
    pub(super) steps: u64,
    /// Only this connection; 0: all.
    pub(super) connection: u64,
    /// A bit for each step of a connection that is taken.
    pub(super) keep: u64,
}

impl Extent {
    /// What a record says of it.
    pub(super) fn of(begin: &Begin) -> Self {
        let given = |name: &str| begin.parameters.iter().find(|(known, _)| known == name);
        let value = |name: &str| given(name).map_or(0, |(_, value)| *value);
        Self {
            steps: value("steps"),
            connection: value("connection"),
            keep: value("keep"),
        }
    }

    /// The walk.
    pub(super) fn legs(self, stream: &dyn Fn(&str) -> Stream) -> Vec<Leg> {
        let all = self.steps.div_ceil(ON_ONE).max(1);
        (1..=all)
            .filter(|number| self.connection == 0 || self.connection == *number)
            .map(|number| self.leg(number, stream))
            .collect()
    }

    fn leg(self, number: u64, stream: &dyn Fn(&str) -> Stream) -> Leg {
        let mut options = Draw(stream(&format!("connection {number}")));
        let (mtu, options) = options.options();
        let count = self.steps.saturating_sub((number - 1) * ON_ONE).min(ON_ONE);
        let is_kept = |at: &u64| self.keep >> at & 1 == 1;
        let steps = (0..count).filter(is_kept).map(|at| {
            let mut draw = Draw(stream(&format!("connection {number}, step {at}")));
            (at, draw.step(mtu, at + 1 == count))
        });
        Leg {
            number,
            options,
            counts_packets: false,
            steps: steps.collect(),
        }
    }
}

/// PSNs near which something wraps or ends.
const EDGES: [u32; 4] = [0x00FF_FFF8, 0x007F_FFF8, 0x0000_FFF8, 0];

struct Draw(Stream);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0.between(0, bound - 1)
    }

    fn small(&mut self, low: u32, high: u32) -> u32 {
        self.0.between(low.into(), high.into()) as u32
    }

    fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    fn psn(&mut self) -> Psn {
        let edge = self.one(&EDGES);
        Psn::new(edge + self.small(0, 7))
    }

    fn options(&mut self) -> (u32, ChannelOptions) {
        let mtu = Mtu(self.small(1, 3) as u8);
        let options = ChannelOptions {
            mtu,
            // The shortest that leaves a slow host time to answer.
            timeout: AckTimeout(14),
            max_rd_atomic: self.small(1, 4) as u8,
            min_rnr_timer: RnrTimer(self.one(&[1, 6, 12, 16])),
            psn: Some(self.psn()),
            own_psn: Some(self.psn()),
            ..ChannelOptions::default()
        };
        (mtu.bytes().unwrap_or(256), options)
    }

    fn length(&mut self, mtu: u32) -> u32 {
        let odd = self.small(1, mtu - 1);
        self.one(&[0, 1, 8, 63, odd, mtu - 1, mtu, mtu + 1, 2 * mtu, 3 * mtu + odd])
    }

    fn want(&mut self, mtu: u32, operations: &[O]) -> Want {
        let operation = self.one(operations);
        let is_atomic = matches!(operation, O::CompareSwap | O::FetchAdd);
        let places = [0, 8, 16, 64, mtu, 2 * mtu];
        Want {
            operation,
            length: if is_atomic { 8 } else { self.length(mtu) },
            place: self.one(&places),
            fence: self.one_in(4),
            solicited: self.one_in(4),
        }
    }

    fn wants(&mut self, mtu: u32, operations: &[O]) -> Vec<Want> {
        (0..self.small(1, 3)).map(|_| self.want(mtu, operations)).collect()
    }

    fn distance(&mut self) -> u32 {
        let near = self.small(1, 8);
        self.one(&[near, near, 1 << 16, (1 << 23) - 16])
    }

    fn stray(&mut self) -> Stray {
        let distance = self.distance();
        match self.below(16) {
            0 => Stray::BadIcrc(self.small(0, 63)),
            1 => Stray::TVer(self.small(1, 15) as u8),
            2 => Stray::PKey(self.small(0, 14)),
            3 => Stray::OtherService,
            4 => Stray::OtherQp,
            5 => Stray::OtherSource,
            // Beyond what the connection will come to.
            6 => Stray::Ahead(distance.max(1 << 12)),
            7 => Stray::Behind(distance),
            8 => Stray::GhostAck(distance),
            9 => Stray::StaleAck(distance),
            10 => Stray::GhostNak(distance),
            11 => Stray::StaleNak(distance),
            12 => Stray::StaleRnr(distance),
            13 => Stray::GhostRead(distance),
            14 => Stray::GhostRnr(distance),
            _ => Stray::Cnp,
        }
    }

    fn fault(&mut self) -> Fault {
        match self.below(12) {
            0 => Fault::RequestLost(self.small(0, 3)),
            1 => Fault::AnswerLost,
            2 => Fault::ResponseLost(self.small(0, 3)),
            3 | 4 => {
                let timer = RnrTimer(self.one(&[1, 2, 8, 12, 15, 20, 28, 31, 0]));
                Fault::Rnr(timer, self.one(&[1, 1, 2, 3]))
            }
            5 => Fault::SequenceNak(self.small(0, 3)),
            6 | 7 => Fault::Stray(self.stray()),
            8 => Fault::AnswerTwice,
            9 => Fault::AnswerDamaged,
            10 => Fault::Coalesced,
            _ => Fault::Each,
        }
    }

    fn illegal(&mut self) -> Illegal {
        let moving = self.one(&[O::Write, O::Read]);
        match self.below(8) {
            0 => Illegal::RKey(self.one(&[O::Write, O::Read, O::FetchAdd]), self.small(0, 31)),
            1 => Illegal::Beyond(moving),
            2 => Illegal::Before(moving),
            3 => Illegal::TooLong(self.one(&[O::Write, O::Send]), self.small(1, 8)),
            4 => Illegal::Unaligned(self.small(1, 7)),
            5 => Illegal::NoFirst,
            6 => Illegal::ShortFirst(self.small(1, 8)),
            _ => Illegal::DmaLen,
        }
    }

    /// A step; the last one of a connection may end it.
    fn step(&mut self, mtu: u32, is_last: bool) -> Step {
        const ASKED: &[O] = &[
            O::Send,
            O::SendImm,
            O::Write,
            O::WriteImm,
            O::Read,
            O::CompareSwap,
            O::FetchAdd,
        ];
        const POSTED: &[O] = &[
            O::Send,
            O::SendImm,
            O::SendInvalidate,
            O::Write,
            O::WriteImm,
            O::Read,
            O::CompareSwap,
            O::FetchAdd,
        ];
        if is_last && self.one_in(3) {
            return Step::Illegal(self.illegal());
        }
        if is_last && self.one_in(3) {
            let wants = self.wants(mtu, POSTED);
            let at = self.below(wants.len() as u64) as usize;
            return Step::Refuse(wants, at, NakCode(self.small(1, 3) as u8));
        }
        match self.below(10) {
            0..4 => {
                let way = match self.below(8) {
                    0 => Way::Lost(self.small(0, 7)),
                    1 => Way::Damaged(self.small(0, 7)),
                    2 => Way::Overtakes(self.small(1, 7)),
                    3 => Way::AnswersLost,
                    4 | 5 => Way::Unready,
                    _ => Way::Sound,
                };
                Step::Ask(self.wants(mtu, ASKED), way)
            }
            4 => Step::Again(self.small(0, 3)),
            5 => Step::Stray(self.stray()),
            _ => {
                let wants = self.wants(mtu, POSTED);
                let at = self.below(wants.len() as u64) as usize;
                Step::Post(wants, at, self.fault())
            }
        }
    }
}

fn operation(of: O) -> &'static str {
    match of {
        O::Send => "SEND",
        O::SendImm => "SEND with Immediate",
        O::SendInvalidate => "SEND with Invalidate",
        O::Write => "WRITE",
        O::WriteImm => "WRITE with Immediate",
        O::Read => "READ",
        O::CompareSwap => "CmpSwap",
        O::FetchAdd => "FetchAdd",
        O::Unspecified => "nothing",
    }
}

impl fmt::Display for Want {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of {} bytes at {}",
            operation(self.operation),
            self.length,
            self.place
        )?;
        f.write_str(if self.fence { ", fenced" } else { "" })
    }
}

fn list(wants: &[Want]) -> String {
    wants.iter().map(ToString::to_string).collect::<Vec<_>>().join(" + ")
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sound => Ok(()),
            Self::Lost(at) => write!(f, "; packet {at} is lost"),
            Self::Damaged(at) => write!(f, "; packet {at} has a wrong ICRC"),
            Self::Overtakes(at) => write!(f, "; packet {at} overtakes the one before it"),
            Self::AnswersLost => f.write_str("; all comes again"),
            Self::Unready => f.write_str("; the receives are missing at first"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("is answered"),
            Self::RequestLost(at) => write!(f, "loses its packet {at}"),
            Self::AnswerLost => f.write_str("loses its answer"),
            Self::ResponseLost(at) => write!(f, "loses response {at}"),
            Self::Rnr(timer, 1) => write!(f, "gets an RNR NAK with code {}", timer.0),
            Self::Rnr(timer, times) => write!(f, "gets {times} RNR NAKs with code {}", timer.0),
            Self::SequenceNak(at) => write!(f, "gets a sequence NAK for its packet {at}"),
            Self::Stray(stray) => write!(f, "is answered behind {stray}"),
            Self::Behind(stray) => write!(f, "is answered a moment behind {stray}"),
            Self::Within(stray) => write!(f, "is answered but for its first response a moment behind {stray}"),
            Self::Unready(timer) => write!(f, "gets an RNR NAK with code {}, whatever it is", timer.0),
            Self::AnswerTwice => f.write_str("is answered twice"),
            Self::AnswerDamaged => f.write_str("is answered behind an answer with a wrong ICRC"),
            Self::Coalesced => f.write_str("is the first of those that one ACK speaks for"),
            Self::Each => f.write_str("has each of its packets acknowledged"),
        }
    }
}

impl fmt::Display for Stray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadIcrc(bit) => write!(f, "a WRITE with bit {bit} of its payload flipped"),
            Self::TVer(tver) => write!(f, "a WRITE with TVer {tver}"),
            Self::PKey(bit) => write!(f, "a WRITE with bit {bit} of its P_Key flipped"),
            Self::OtherService => f.write_str("a WRITE of UC"),
            Self::OtherQp => f.write_str("a WRITE to a queue pair that does not exist"),
            Self::OtherSource => f.write_str("a WRITE from another address"),
            Self::Ahead(by) => write!(f, "a WRITE {by} PSNs ahead"),
            Self::Behind(by) => write!(f, "a SEND {by} PSNs back"),
            Self::GhostAck(by) => write!(f, "an ACK {by} PSNs ahead"),
            Self::StaleAck(by) => write!(f, "an ACK {by} PSNs back"),
            Self::GhostNak(by) => write!(f, "a sequence NAK {by} PSNs ahead"),
            Self::StaleNak(by) => write!(f, "a sequence NAK {by} PSNs back"),
            Self::StaleRnr(by) => write!(f, "an RNR NAK {by} PSNs back"),
            Self::StaleFatal(code, by) => write!(f, "a NAK {by} PSNs back: {code}"),
            Self::StaleRead(by) => write!(f, "a READ response {by} PSNs back"),
            Self::GhostRnr(by) => write!(f, "an RNR NAK {by} PSNs ahead"),
            Self::GhostRead(by) => write!(f, "a READ response {by} PSNs ahead"),
            Self::Cnp => f.write_str("a CNP"),
        }
    }
}

impl fmt::Display for Illegal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RKey(of, bit) => write!(f, "a {} with bit {bit} of its R_Key flipped", operation(*of)),
            Self::Beyond(of) => write!(f, "a {} that reaches a byte beyond the region", operation(*of)),
            Self::Before(of) => write!(f, "a {} that begins a byte before the region", operation(*of)),
            Self::Around(of) => write!(f, "a {} that ends behind the last address", operation(*of)),
            Self::Address(of, bit) => write!(f, "a {} with bit {bit} of its address flipped", operation(*of)),
            Self::TooLong(of, by) => write!(f, "a {} Only {by} bytes longer than the path MTU", operation(*of)),
            Self::Unaligned(by) => write!(f, "a FetchAdd {by} bytes behind a multiple of 8"),
            Self::NoFirst => f.write_str("a WRITE Middle without a First"),
            Self::ShortFirst(by) => write!(f, "a WRITE First {by} bytes shorter than the path MTU"),
            Self::DmaLen => f.write_str("a WRITE Only with a byte less than DMALen says"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ask(wants, way) => write!(f, "peer: {}{way}", list(wants)),
            Self::Again(back) => write!(f, "peer: the answered message {back} back, again"),
            Self::Stray(stray) => write!(f, "peer: {stray}"),
            Self::Post(wants, at, fault) => write!(f, "DUT: {}; request {at} {fault}", list(wants)),
            Self::Refuse(wants, at, code) => write!(f, "DUT: {}; request {at} gets a NAK: {code}", list(wants)),
            Self::Illegal(illegal) => write!(f, "peer: {illegal}"),
        }
    }
}
