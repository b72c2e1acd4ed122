//! The steps of a walk.

use verbatim_record::verbs::pb;
use verbatim_tester::peer::{ChannelOptions, Marks};
use verbatim_wire::packet::{NakCode, Psn, RnrTimer};

use pb::Operation as O;

/// Greatest number of steps on one connection; a mask of steps must hold this many bits.
pub(super) const ON_ONE: u64 = 16;

/// A request of the DUT, or of the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Want {
    pub(super) operation: O,
    /// Length in bytes.
    pub(super) length: u32,
    /// Offset in bytes from the beginning of an area.
    pub(super) place: u32,
    /// Whether the request waits for earlier READs and atomics (fence). Only for requests of the DUT.
    pub(super) fence: bool,
    /// Whether the request asks for a solicited event.
    pub(super) solicited: bool,
    /// Immediate data, and the value that an atomic adds or swaps in, all bits alike; random if `None`.
    pub(super) value: Option<u64>,
}

/// A disturbance of the peer's messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// No disturbance.
    Sound,
    /// One packet is lost.
    Lost(u32),
    /// One packet has a wrong ICRC.
    Damaged(u32),
    /// One packet overtakes the packet before it.
    Overtakes(u32),
    /// The responses are lost, so the peer repeats all messages.
    AnswersLost,
    /// The receives are missing at first.
    Unready,
    /// The receives are missing for the first two transmissions.
    UnreadyTwice,
    /// The receives are missing at first, and the peer repeats an answered message meanwhile.
    UnreadyAmid,
}

/// The peer's treatment of a request of the DUT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// The peer answers at once.
    None,
    /// One packet of the request is lost.
    RequestLost(u32),
    /// The response is lost.
    AnswerLost,
    /// One response to a READ is lost.
    ResponseLost(u32),
    /// The receive is missing: the peer sends this many RNR NAKs in a row.
    Rnr(RnrTimer, u32),
    /// The peer sends a sequence NAK for one packet.
    SequenceNak(u32),
    /// The peer sends a packet without an effect, then the response.
    Stray(Stray),
    /// The peer sends a packet without an effect, and sends the response only after an effect would have shown.
    Behind(Stray),
    /// The peer sends a packet without an effect after the first response to a READ, and the other responses later.
    Within(Stray),
    /// The peer sends an RNR NAK to any request: a responder may lack a resource other than a receive.
    Unready(RnrTimer),
    /// The peer sends the response twice.
    AnswerTwice,
    /// The peer sends a response with a wrong ICRC, then the valid response.
    AnswerDamaged,
    /// One response acknowledges this request and the requests posted with it.
    Coalesced,
    /// The peer acknowledges each packet, whether or not the packet requests an ACK.
    Each,
    /// The peer leaves the request unanswered this many times in a row.
    Silent(u32),
    /// The peer sends an RNR NAK, and then leaves the request unanswered this many times in a row.
    RnrThenSilent(RnrTimer, u32),
    /// The peer sends a sequence NAK, and then leaves the request unanswered this many times in a row.
    NakThenSilent(u32),
    /// The peer sends a response that does not belong to the connection, and the valid response a moment later.
    Altered(Alteration),
}

/// A change after which a packet belongs to another connection, or to no connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Alteration {
    /// This transport version instead of 0.
    TVer(u8),
    /// A P_Key with this bit of its low 15 bits flipped.
    PKey(u32),
    /// An opcode of another service.
    OtherService,
    /// A destination queue pair that the DUT does not have.
    OtherQp,
    /// Another source address.
    OtherSource,
}

/// A packet without an effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stray {
    /// A WRITE with this bit of its payload flipped, and the ICRC of the original.
    BadIcrc(u32),
    /// A WRITE that belongs to another connection, or to no connection.
    Altered(Alteration),
    /// A WRITE with a PSN this far ahead.
    Ahead(u32),
    /// A SEND with a PSN this far back.
    Behind(u32),
    /// An ACK of a PSN this far after the last PSN of the newest request.
    GhostAck(u32),
    /// An ACK of a PSN this far before the oldest request of the step.
    StaleAck(u32),
    /// A sequence NAK of a PSN this far after the next unused PSN.
    GhostNak(u32),
    /// A sequence NAK of a PSN this far before the oldest request of the step.
    StaleNak(u32),
    /// An RNR NAK of a PSN this far before the oldest request of the step.
    StaleRnr(u32),
    /// A NAK with this code, of a PSN this far before the oldest request of the step.
    StaleFatal(NakCode, u32),
    /// The last response to a READ, with a PSN this far before the oldest request of the step.
    StaleRead(u32),
    /// An RNR NAK of a PSN this far after the next unused PSN.
    GhostRnr(u32),
    /// A READ response with a PSN this far after the last PSN of the newest request.
    GhostRead(u32),
    /// A congestion notification packet.
    Cnp,
}

/// A request of the peer that the DUT must refuse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Illegal {
    /// The R_Key has this bit flipped.
    RKey(O, u32),
    /// The request reaches a byte beyond the region; an atomic reaches 8 bytes beyond.
    Beyond(O),
    /// The request begins a byte before the region; an atomic begins 8 bytes before.
    Before(O),
    /// The request begins shortly before the last address, so that its end wraps to address 0.
    Around(O),
    /// The address has this bit flipped, so that the request lies outside the region.
    Address(O, u32),
    /// The request is an Only packet this many bytes longer than the path MTU.
    TooLong(O, u32),
    /// The request is a FetchAdd to an address this many bytes behind a multiple of 8.
    Unaligned(u32),
    /// The request is a Middle without a First.
    NoFirst,
    /// The request is a First this many bytes shorter than the path MTU.
    ShortFirst(u32),
    /// The request is a WRITE Only with a byte less than its DMALen.
    DmaLen,
    /// The request is a SEND this many bytes longer than its receive.
    Overlong(u32),
    /// The region or the queue pair does not grant the right to the request.
    Right(O),
}

impl Illegal {
    /// Returns the request's operation, if the operation requires a right of the region or the queue pair.
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

/// A step of a walk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// The peer sends messages, one behind the other.
    Ask(Vec<Want>, Way),
    /// The peer repeats the answered message that lies this many messages back.
    Again(u32),
    /// The peer repeats the answered message that lies this many messages back, without its first packet. A READ is
    /// repeated from its second response on.
    Tail(u32),
    /// The peer sends a packet without an effect.
    Stray(Stray),
    /// The DUT posts requests, and the fault affects the request with this index.
    Post(Vec<Want>, usize, Fault),
    /// The DUT posts requests, and the fault affects the first. The step ends when the peer has reacted to the first
    /// packet. The requests stay outstanding.
    Begin(Vec<Want>, Fault),
    /// The DUT posts requests, and the peer refuses the request with this index. No step of the connection follows.
    Refuse(Vec<Want>, usize, NakCode),
    /// The peer sends a request that the DUT must refuse. No step of the connection follows.
    Illegal(Illegal),
    /// The peer's packets carry these marks from now on.
    Marks(Marks),
    /// The DUT posts requests while its send queue is drained.
    Drain(Vec<Want>),
    /// The DUT's queue pair goes to RESET, and gets a new connection, with this first PSN of both sides or random ones.
    Reset(Option<Psn>),
}

/// A connection of a walk: its options and its steps.
#[derive(Clone, Debug)]
pub(super) struct WalkConnection {
    /// Number of the connection, from 1.
    pub(super) number: u64,
    pub(super) options: ChannelOptions,
    /// Whether the steps count packets, and so require the path MTU of the options.
    pub(super) counts_packets: bool,
    /// Whether zero-length READs and WRITEs of the peer use an arbitrary R_Key, which the DUT does not check.
    pub(super) any_key: bool,
    /// The connection of another queue pair. It begins after this connection, runs its steps before the first step of
    /// this connection, and then ends. If it has outstanding requests, it ends after this connection.
    pub(super) beside: Option<Box<WalkConnection>>,
    /// Index and step, for the steps to run.
    pub(super) steps: Vec<(u64, Step)>,
}
