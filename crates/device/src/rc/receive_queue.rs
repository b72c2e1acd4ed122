//! The receive queue: posted receives, the message in progress, and the requests stored for duplicates.

use core::time::Duration;
use std::collections::VecDeque;

use verbatim_wire::{Opcode, Psn, RKey};

use super::memory::Place;
use super::verbs::ReceiveRequest;

/// The message in progress: its first packet has arrived, and its last packet has not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Message {
    #[default]
    None,
    /// A SEND, with its receive and the number of bytes received.
    Send { request: ReceiveRequest, at: u32 },
    /// A WRITE, with its place (`None` for a WRITE of length 0), and the numbers of bytes received and missing.
    Write { place: Option<Place>, at: u32, left: u32 },
}

/// A READ or atomic, stored to respond to its duplicates.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) first: Psn,
    pub(crate) psns: u32,
    pub(crate) what: KeptRequest,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KeptRequest {
    Read {
        va: u64,
        r_key: RKey,
        length: u32,
    },
    Atomic {
        opcode: Opcode,
        va: u64,
        r_key: RKey,
        original: u64,
    },
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ReceiveQueue {
    pub(crate) posted: VecDeque<ReceiveRequest>,
    /// PSN of the next new request.
    pub(crate) expected: Psn,
    /// First PSN of the most recent message.
    pub(crate) first: Psn,
    /// Number of messages completed, modulo 2^24.
    pub(crate) msn: u32,
    pub(crate) message: Message,
    /// Whether a sequence NAK or RNR NAK was sent. The responder sends no further sequence NAK until `expected`
    /// arrives.
    pub(crate) nak_sent: bool,
    /// READs and atomics stored for duplicates, the latest last.
    pub(crate) kept: VecDeque<Kept>,
    /// Times at which the responses to accepted READs and atomics have left.
    pub(crate) answering: VecDeque<Duration>,
    /// The PSN of the latest READ or atomic, and the time of its first arrival. For a moment after this time, the
    /// responder may send RNR NAKs for the request.
    pub(crate) put_off: Option<(Psn, Duration)>,
    /// Time of the delayed ACK for all requests before `expected`.
    pub(crate) ack_due: Option<Duration>,
    /// The PSN of the latest RNR NAK, and whether the request with this PSN is still missing. Only defective adapters
    /// use these two fields.
    pub(crate) rnr_psn: Option<Psn>,
    pub(crate) rnr_open: bool,
    /// Whether the peer has sent a request.
    pub(crate) heard: bool,
    /// The earliest time of the next response, so that responses stay in order.
    pub(crate) busy_until: Duration,
    /// A WRITE packet that a defective adapter stores later.
    pub(crate) held_write: Option<(Place, Vec<u8>)>,
}

impl ReceiveQueue {
    /// Removes and returns the receive of the message in progress, or the first posted receive.
    pub(crate) fn take(&mut self) -> Option<ReceiveRequest> {
        if let Message::Send { request, .. } = core::mem::take(&mut self.message) {
            return Some(request);
        }
        self.posted.pop_front()
    }

    /// Cancels the delayed ACK and a WRITE in progress.
    pub(crate) fn stop(&mut self) {
        self.ack_due = None;
        if matches!(self.message, Message::Write { .. }) {
            self.message = Message::None;
        }
    }

    pub(crate) fn count_message(&mut self, by: u32) {
        self.msn = (self.msn + by) % Psn::COUNT;
    }
}
