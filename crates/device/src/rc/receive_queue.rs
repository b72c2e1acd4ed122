//! The receive queue: what was posted, which message is arriving, and what is kept for duplicates.

use core::time::Duration;
use std::collections::VecDeque;

use verbatim_wire::{Opcode, Psn, RKey};

use super::memory::Place;
use super::verbs::ReceiveRequest;

/// The message that is arriving, between its first and its last packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Message {
    #[default]
    None,
    /// A SEND: the receive that it fills, and how far.
    Send { request: ReceiveRequest, at: u32 },
    /// A WRITE: where the rest goes (`None` when it has no bytes at all), and how much that is.
    Write { place: Option<Place>, at: u32, left: u32 },
}

/// What is kept of a READ or atomic, so that a duplicate can be answered.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) first: Psn,
    pub(crate) psns: u32,
    pub(crate) what: KeptRequest,
}

/// The request itself.
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

/// A receive queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReceiveQueue {
    pub(crate) posted: VecDeque<ReceiveRequest>,
    /// PSN of the next new request.
    pub(crate) expected: Psn,
    /// First PSN of the message that arrived last.
    pub(crate) first: Psn,
    /// Messages completed, modulo 2^24.
    pub(crate) msn: u32,
    pub(crate) message: Message,
    /// A sequence NAK or RNR NAK was sent: nothing more is said of what is out of sequence until `expected` comes.
    pub(crate) nak_sent: bool,
    /// READs and atomics for duplicates, the latest last.
    pub(crate) kept: VecDeque<Kept>,
    /// When the READs and atomics that are being answered have left.
    pub(crate) answering: VecDeque<Duration>,
    /// The READ or atomic that came last, and when it came first: an RNR NAK may put it off then.
    pub(crate) put_off: Option<(Psn, Duration)>,
    /// An ACK is due then, for everything before `expected`.
    pub(crate) ack_due: Option<Duration>,
    /// Of defective adapters: the PSN that got the latest RNR NAK, and whether it is still awaited.
    pub(crate) rnr_psn: Option<Psn>,
    pub(crate) rnr_open: bool,
    /// The other side was heard.
    pub(crate) heard: bool,
    /// Responses before this time would overtake one that is on its way.
    pub(crate) busy_until: Duration,
    /// A WRITE that a defective adapter keeps back.
    pub(crate) held_write: Option<(Place, Vec<u8>)>,
}

impl ReceiveQueue {
    /// The next receive: of the message that is arriving, or posted.
    pub(crate) fn take(&mut self) -> Option<ReceiveRequest> {
        if let Message::Send { request, .. } = core::mem::take(&mut self.message) {
            return Some(request);
        }
        self.posted.pop_front()
    }

    /// Nothing more is answered.
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
