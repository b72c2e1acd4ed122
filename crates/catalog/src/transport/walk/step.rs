//! The steps of a walk.

use verbatim_record::verbs::pb;
use verbatim_tester::peer::{ChannelOptions, Marks};
use verbatim_wire::packet::{NakCode, Psn, RnrTimer};

use pb::Operation as O;

use super::malformed::Malformed;

/// Greatest number of steps on one connection. A mask of steps has one bit for each of these steps.
pub(super) const ON_ONE: u64 = 16;

/// A request of the DUT, or of the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Want {
    pub(super) operation: O,
    /// Length in bytes.
    pub(super) length: u32,
    /// Offset in bytes, from `TARGET` for the peer and from the start of the memory for the DUT.
    pub(super) place: u32,
    /// Whether the request waits for earlier READs and atomics (fence). Only for requests of the DUT.
    pub(super) fence: bool,
    /// Whether the request asks for a solicited event.
    pub(super) solicited: bool,
    /// Immediate data, or the value that an atomic adds or swaps in. If `None`, the value is random for the peer,
    /// and derived from the request's number for the DUT.
    pub(super) value: Option<u64>,
}

/// Makes a request of `length` bytes.
pub(super) fn want(operation: O, length: u32) -> Want {
    Want {
        operation,
        length,
        place: 8,
        fence: false,
        solicited: false,
        value: None,
    }
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
    /// The peer treats all responses as lost, and repeats all messages.
    AnswersLost,
    /// No receive is posted for the first transmission.
    Unready,
    /// No receive is posted for the first two transmissions.
    UnreadyTwice,
    /// No receive is posted for the first transmission. After the RNR NAK, the peer first repeats an answered
    /// message.
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
    /// The peer sends a packet without an effect, and the response 20 ms later.
    Behind(Stray),
    /// The peer sends a packet without an effect after the first response to a READ, and the other responses 20 ms
    /// later.
    Within(Stray),
    /// The peer sends an RNR NAK even if the request needs no receive: a responder may lack another resource.
    Unready(RnrTimer),
    /// The peer sends the response twice.
    AnswerTwice,
    /// The peer sends a response with a wrong ICRC, then the valid response.
    AnswerDamaged,
    /// One response acknowledges this request and all later requests of the step.
    Coalesced,
    /// The peer acknowledges each packet, whether or not the packet requests an ACK.
    Each,
    /// The peer leaves the request unanswered this many times in a row.
    Silent(u32),
    /// The peer sends an RNR NAK, and then leaves the request unanswered this many times in a row.
    RnrThenSilent(RnrTimer, u32),
    /// The peer sends a sequence NAK, and then leaves the request unanswered this many times in a row.
    NakThenSilent(u32),
    /// The peer sends a response that does not belong to the connection, and the valid response 20 ms later.
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

/// A packet that must not have an effect on the DUT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stray {
    /// A WRITE with this bit of its payload flipped, and the ICRC of the original.
    BadIcrc(u32),
    /// A WRITE that belongs to another connection, or to no connection.
    Altered(Alteration),
    /// A WRITE with a PSN this far after the peer's next PSN.
    Ahead(u32),
    /// A SEND with a PSN this far before the peer's next PSN.
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
    /// A READ response Last with a PSN this far before the oldest request of the step.
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
    /// The request ends one byte beyond the region; an atomic ends 8 bytes beyond.
    Beyond(O),
    /// The request begins one byte before the region; an atomic begins 8 bytes before.
    Before(O),
    /// The request begins shortly before the last address, so that its end wraps to address 0.
    Around(O),
    /// The address has this bit flipped, so that the request lies outside the region.
    Address(O, u32),
    /// The request is an Only packet this many bytes longer than the path MTU.
    TooLong(O, u32),
    /// The request is a FetchAdd to an address this many bytes after a multiple of 8.
    Unaligned(u32),
    /// The request is a WRITE Middle without a First.
    NoFirst,
    /// The request is a WRITE First this many bytes shorter than the path MTU.
    ShortFirst(u32),
    /// The request is a WRITE Only one byte shorter than its DMALen.
    DmaLen,
    /// The request is a SEND this many bytes longer than its receive.
    Overlong(u32),
    /// The region or the queue pair does not grant the right to the request.
    Right(O),
}

impl Illegal {
    /// Returns the request's operation, or `None` for a SEND that is longer than its receive.
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
    /// The peer sends messages back to back, with a disturbance.
    Ask(Vec<Want>, Way),
    /// The peer repeats the answered message that lies this many messages before the newest.
    Again(u32),
    /// The peer repeats the answered message this many messages before the newest, without its first packet. For a
    /// READ, the peer requests the responses after the first.
    Tail(u32),
    /// The peer sends a packet without an effect.
    Stray(Stray),
    /// The DUT posts requests, and the fault affects the request with this index.
    Post(Vec<Want>, usize, Fault),
    /// The DUT posts requests, and the fault affects the first. The step ends when the peer has reacted to the first
    /// packet. The requests stay outstanding.
    Begin(Vec<Want>, Fault),
    /// The DUT posts requests, and the peer refuses the request with this index. This step is the last of its
    /// connection.
    Refuse(Vec<Want>, usize, NakCode),
    /// The peer sends a request that the DUT must refuse. This step is the last of its connection.
    Illegal(Illegal),
    /// The peer sends a malformed packet. This step is the last of its connection.
    Malformed(Malformed),
    /// The peer's packets carry these header values from now on.
    Marks(Marks),
    /// The DUT posts requests in SQD, and returns to RTS.
    Drain(Vec<Want>),
    /// The DUT's queue pair goes to RESET and gets a new connection. Both sides start with this PSN, or with
    /// random PSNs.
    Reset(Option<Psn>),
}

/// A connection of a walk: its options and its steps.
#[derive(Clone, Debug)]
pub(super) struct WalkConnection {
    /// Number of the connection, from 1.
    pub(super) number: u64,
    pub(super) options: ChannelOptions,
    /// Whether the steps name packets by index, and so work only with the path MTU of the options.
    pub(super) counts_packets: bool,
    /// Whether zero-length READs and WRITEs of the peer use an arbitrary R_Key, which the DUT does not check.
    pub(super) any_key: bool,
    /// A connection of another queue pair, opened after this one. It runs its steps, and ends, before the first
    /// step of this connection. If its last step is `Begin`, it ends after this connection.
    pub(super) beside: Option<Box<WalkConnection>>,
    /// Steps to run, each with its index on the connection.
    pub(super) steps: Vec<(u64, Step)>,
}
