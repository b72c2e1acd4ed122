//! What the steps of a walk are.

use verbatim_record::verbs::pb;
use verbatim_tester::peer::{ChannelOptions, Marks};
use verbatim_wire::packet::{NakCode, RnrTimer};

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
    /// The receives are missing when all comes for the second time, too.
    UnreadyTwice,
    /// The receives are missing at first, and what was answered before comes again meanwhile.
    UnreadyAmid,
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
    /// So many times in a row it is not answered.
    Silent(u32),
    /// An answer that is not the connection's comes a moment before the sound one.
    Altered(Alteration),
}

/// What makes a packet another connection's, or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Alteration {
    /// Another TVer.
    TVer(u8),
    /// A P_Key that differs in this bit of its low 15.
    PKey(u32),
    /// The opcode of another service.
    OtherService,
    /// A queue pair that the DUT does not have.
    OtherQp,
    /// Another source address.
    OtherSource,
}

/// A packet that has no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stray {
    /// A WRITE with this bit of its payload flipped and the ICRC of before.
    BadIcrc(u32),
    /// A WRITE that is another connection's, or none's.
    Altered(Alteration),
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
    /// A SEND that is longer than its receive by so many bytes.
    Overlong(u32),
    /// What the region or the queue pair gives no right to.
    Right(O),
}

impl Illegal {
    /// What it is a request for, where that takes a right of the region or the queue pair.
    pub(super) fn operation(self) -> Option<O> {
        match self {
            Self::RKey(operation, _)
            | Self::Beyond(operation)
            | Self::Before(operation)
            | Self::Around(operation)
            | Self::Address(operation, _)
            | Self::TooLong(operation, _)
            | Self::Right(operation) => Some(operation),
            Self::Unaligned(_) => Some(O::FetchAdd),
            Self::NoFirst | Self::ShortFirst(_) | Self::DmaLen => Some(O::Write),
            Self::Overlong(_) => None,
        }
    }
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
    /// From now on the peer's packets have these.
    Marks(Marks),
    /// The DUT posts requests while its send queue is drained.
    Drain(Vec<Want>),
    /// The DUT's queue pair goes to RESET, and is connected anew.
    Reset,
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
    /// What the peer reads and writes no bytes of has any R_Key.
    pub(super) any_key: bool,
    /// The steps that are taken.
    pub(super) steps: Vec<(u64, Step)>,
}
