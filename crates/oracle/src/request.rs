//! A request packet of one direction, and what is known of it.

use verbatim_record::Time;
use verbatim_wire::packet::{Opcode, Psn};

use super::parsed::{Parsed, RequestKind};

/// A request packet.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) psn: Psn,
    /// PSNs that it takes; more than one only for READs. 0: a READ, and the path MTU is not known.
    pub(super) psns: u32,
    pub(super) opcode: Opcode,
    /// Numbers for its extended headers and its payload.
    pub(super) digests: (u32, u32),
    /// VA and R_Key of a READ or atomic.
    pub(super) target: (u64, u32),
    /// Bytes of its payload; of a READ, those that it asks for.
    pub(super) bytes: u32,
    /// Bytes of a WRITE that are still to come after it.
    pub(super) left: Option<u32>,
    /// The packet that its message began with.
    pub(super) began: u64,
    /// The packet that carried it first.
    pub(super) number: u64,
    /// The packet by which it came last.
    pub(super) last: u64,
    /// When it was seen last.
    pub(super) at: Option<Time>,
    /// Messages that are complete with it, counted from where `epoch` began.
    pub(super) messages: u32,
    /// Which count that is: a gap among the requests begins another.
    pub(super) epoch: u32,
    /// Whether a port that conforms has taken one of its packets; until then nothing is known of it but its PSN.
    pub(super) is_taken: bool,
    /// Responses that have come: the offset of the next one.
    pub(super) next_response: u32,
    /// The offset of the response that comes next if the responder goes on where it is.
    pub(super) response_cursor: u32,
    /// Whether responses to it were missing when what follows it was answered.
    pub(super) is_given_up: bool,
    /// That the request came again, and not all of that was answered.
    pub(super) again: Option<Repeated>,
    /// How many PSNs it takes was told by what came next alone: fewer, if that was lost and something behind it came.
    pub(super) is_inferred: bool,
    /// READs and atomics before it that were owed responses when it came.
    pub(super) behind: u32,
    /// What an atomic was answered with, and where.
    pub(super) original: Option<(u64, u64)>,
    /// Why a responder may refuse it, or must.
    pub(super) invalid: Option<Invalid>,
    /// Why the responder's memory does not allow it, where that is known.
    pub(super) denied: Option<&'static str>,
    /// Its memory and its queue pair allow it for certain.
    pub(super) is_allowed: bool,
    /// It breaks a rule of what makes a message.
    pub(super) is_odd: bool,
}

/// Why a request is refused as invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Invalid {
    /// It breaks that rule of the requester.
    Breaks(&'static str),
    /// An atomic whose address is no multiple of 8. A host may ask for it: the requester breaks nothing.
    Unaligned,
    /// There is nothing left of its message for what follows it: it may be taken, and what follows refused.
    Ends,
    /// The responder's queue pair does not take it, and why.
    NotAllowed(&'static str),
}

impl Request {
    pub(super) fn asks(&self) -> RequestKind {
        RequestKind::of(self.opcode)
    }

    /// Whether that packet says the same.
    pub(super) fn is_as(&self, parsed: &Parsed<'_>) -> bool {
        (self.opcode, self.digests) == (parsed.opcode, parsed.digests())
    }

    /// The last PSN that it surely takes.
    pub(super) fn last(&self) -> Psn {
        self.psn.plus(self.psns.max(1) - 1)
    }

    /// Whether the request came again, so that responses may begin anew with that offset.
    pub(super) fn is_asked_from(&self, into: u32) -> bool {
        self.again.is_some_and(|again| into >= again.least)
    }

    /// Whether it is a READ or atomic whose responses have not all been seen.
    pub(super) fn is_owed(&self) -> bool {
        self.asks().has_response() && !self.is_given_up && (self.psns == 0 || self.next_response < self.psns)
    }

    /// Whether nobody knows how many PSNs it takes: what seems to be of it may be of one behind it, which was not seen.
    pub(super) fn is_open(&self) -> bool {
        self.asks() == RequestKind::Read && (self.psns == 0 || self.is_inferred)
    }
}

/// How a READ or atomic came again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repeated {
    /// How often, without an answer since.
    pub(super) times: u32,
    /// The least offset from which on.
    pub(super) least: u32,
    /// The last packet that did.
    pub(super) number: u64,
}
