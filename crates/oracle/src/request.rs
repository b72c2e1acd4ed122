//! Request packets of one direction.

use verbatim_record::Time;
use verbatim_wire::packet::{Opcode, Psn};

use super::parsed::{Parsed, RequestKind};

#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) psn: Psn,
    /// Number of PSNs that the request takes; only a READ takes more than one PSN. 0: a READ whose number of PSNs is
    /// unknown, since the path MTU is unknown.
    pub(super) psns: u32,
    pub(super) opcode: Opcode,
    /// Digests of the extended headers and of the payload.
    pub(super) digests: (u32, u32),
    /// VA and R_Key of the RETH or AtomicETH; zeros if the packet has neither.
    pub(super) target: (u64, u32),
    /// Payload bytes; for a READ, the bytes requested.
    pub(super) bytes: u32,
    /// Bytes of a WRITE message that later packets carry.
    pub(super) left: Option<u32>,
    /// Number of the first packet of the message.
    pub(super) began: u64,
    /// Number of the first packet that carried the request.
    pub(super) number: u64,
    /// Number of the last packet that carried the request.
    pub(super) last: u64,
    /// Time at which the request was last seen.
    pub(super) at: Option<Time>,
    /// Number of messages completed up to this request, counted from the start of `epoch`.
    pub(super) messages: u32,
    /// Index of the message count to which `messages` belongs. A gap among the requests starts a new count, with the
    /// next index.
    pub(super) epoch: u32,
    /// Whether the capture has a packet of the request that a conforming port accepts. If not, only the request's
    /// PSN is known.
    pub(super) is_taken: bool,
    /// Offset in PSNs directly after the furthest response seen.
    pub(super) next_response: u32,
    /// Offset in PSNs of the next response, if the responder continues in sequence.
    pub(super) response_cursor: u32,
    /// Whether the checks no longer expect the request's missing responses, because a later request was answered or
    /// a response was wrong.
    pub(super) is_given_up: bool,
    /// Retransmissions that the responder has not answered yet.
    pub(super) again: Option<Repeated>,
    /// Whether `psns` was derived from the PSN of the next request alone. The READ takes fewer PSNs if a request in
    /// between was lost.
    pub(super) is_inferred: bool,
    /// Largest possible number of READs and atomics that awaited responses when this request was sent.
    pub(super) behind: u32,
    /// Original value that the first response to an atomic returned, and the number of that packet.
    pub(super) original: Option<(u64, u64)>,
    /// Reason for which the responder must, or may, refuse the request as invalid.
    pub(super) invalid: Option<Invalid>,
    /// Reason for which the responder's memory denies the request, if known.
    pub(super) denied: Option<&'static str>,
    /// Whether the responder's memory and queue pair certainly allow the request.
    pub(super) is_allowed: bool,
    /// Whether the packet breaks a rule of message structure.
    pub(super) is_odd: bool,
}

/// Reason for which a responder refuses a request as invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Invalid {
    /// The packet breaks this rule of the requester.
    Breaks(&'static str),
    /// The address of an atomic is no multiple of 8. The requester breaks no rule: a host may post such an atomic.
    Unaligned,
    /// The packet carries all DMALen bytes though more packets follow. The responder may accept this packet and refuse
    /// the next packet.
    Ends,
    /// The responder's queue pair does not accept the request, for this reason.
    NotAllowed(&'static str),
}

impl Request {
    pub(super) fn asks(&self) -> RequestKind {
        RequestKind::of(self.opcode)
    }

    /// Returns whether a packet has the same opcode, headers and payload.
    pub(super) fn is_as(&self, parsed: &Parsed<'_>) -> bool {
        (self.opcode, self.digests) == (parsed.opcode, parsed.digests())
    }

    /// Returns the last PSN of the request; its first PSN if the number of PSNs is unknown.
    pub(super) fn last(&self) -> Psn {
        self.psn.plus(self.psns.max(1) - 1)
    }

    /// Returns whether a retransmission allows the responses to restart at the offset `into`.
    pub(super) fn is_asked_from(&self, into: u32) -> bool {
        self.again.is_some_and(|again| into >= again.least)
    }

    /// Returns whether this is a READ or atomic with responses still expected.
    pub(super) fn is_owed(&self) -> bool {
        self.asks().returns_data() && !self.is_given_up && (self.psns == 0 || self.next_response < self.psns)
    }

    /// Returns whether the READ's size in PSNs is uncertain. A response to one of its PSNs may then answer a later
    /// request that was not seen.
    pub(super) fn is_open(&self) -> bool {
        self.asks() == RequestKind::Read && (self.psns == 0 || self.is_inferred)
    }
}

/// Retransmissions of a READ or atomic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repeated {
    /// Number of retransmissions without an answer.
    pub(super) times: u32,
    /// Lowest offset, in PSNs, at which a retransmission began.
    pub(super) least: u32,
    /// Number of the last packet that retransmitted the request.
    pub(super) number: u64,
}
