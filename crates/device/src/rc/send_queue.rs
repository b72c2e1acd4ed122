//! The send queue: the pending requests, and how many of their packets are sent and acknowledged.
//!
//! ```text
//!   queue:   [ request 0 ][ request 1 ][ request 2 ][ request 3 ] ...
//!              ^ oldest unacknowledged PSN    ^ cursor: the next packet to send
//! ```
//!
//! A retry sets the cursor back to the oldest unacknowledged PSN. Acknowledged requests leave the queue at the front.

use core::time::Duration;
use std::collections::VecDeque;

use verbatim_wire::Psn;

use super::verbs::SendRequest;

/// A send request and its progress.
#[derive(Clone, Debug)]
pub(crate) struct Wqe {
    pub(crate) request: SendRequest,
    /// First PSN of the request; `None` before the requester begins the request.
    pub(crate) first: Option<Psn>,
    /// Number of PSNs: packets of a SEND or WRITE, responses to a READ, 1 for an atomic.
    pub(crate) psns: u32,
    /// Number of PSNs acknowledged, from the first on. For a READ, number of responses received.
    pub(crate) acked: u32,
    /// For each READ request sent for this work request: the index of its first response. Only a response with such
    /// an index may be a First or Only.
    pub(crate) starts: Vec<u32>,
    /// Message number from 1 on, modulo 2^24, assigned when the requester begins the request.
    pub(crate) ssn: u32,
    /// Whether the completion was reported. Only a defective adapter reports it before the request leaves the queue.
    pub(crate) told: bool,
}

impl Wqe {
    /// Returns the number of packets of the request.
    pub(crate) fn packets(&self) -> u32 {
        if self.request.operation.is_read_or_atomic() {
            1
        } else {
            self.psns
        }
    }

    /// Returns the index of the first unacknowledged packet.
    pub(crate) fn first_packet(&self) -> u32 {
        if self.request.operation.is_read_or_atomic() {
            0
        } else {
            self.acked
        }
    }
}

/// The cause of a retry: an RNR NAK or a timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Retry {
    Rnr,
    Timeout,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct SendQueue {
    pub(crate) queue: VecDeque<Wqe>,
    /// PSN of the next request to begin.
    pub(crate) next_psn: Psn,
    /// The first PSN that was never sent.
    pub(crate) sent_until: Psn,
    /// Number of messages begun, modulo 2^24.
    pub(crate) messages: u32,
    /// Number of the last message for which the responder's ACKs report a credit; `None` if the ACKs set no limit.
    pub(crate) credit_limit: Option<u32>,
    /// Whether the message at the cursor has lacked a credit since its first packet. The requester then sends one
    /// packet at a time.
    pub(crate) limited: bool,
    /// The cursor: the index of a request in the queue, and the index of a packet in this request.
    pub(crate) at: usize,
    pub(crate) packet: u32,
    /// Time at which the retry timer fires.
    pub(crate) timer: Option<Duration>,
    /// Time until which the requester sends nothing after an RNR NAK.
    pub(crate) rnr_until: Option<Duration>,
    /// Number of expiries of the retry timer since the last progress.
    pub(crate) fired: u32,
    /// Numbers of retries since the last progress.
    pub(crate) retries: u32,
    pub(crate) rnr_retries: u32,
    /// Whether the requester acted on an implied NAK since the last progress or timeout. The requester ignores
    /// further implied NAKs.
    pub(crate) implied_nak: bool,
    pub(crate) retry: Option<Retry>,
    /// A completion that a defective adapter delays.
    pub(crate) held: Option<SendRequest>,
    /// Whether the drained event was reported.
    pub(crate) drained: bool,
    /// Whether the requester sends one packet at a time until the next progress.
    pub(crate) slow: bool,
}

impl SendQueue {
    pub(crate) fn start(&mut self, psn: Psn) {
        self.next_psn = psn;
        self.sent_until = psn;
        self.messages = 0;
        self.credit_limit = None;
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn post(&mut self, request: SendRequest) {
        self.queue.push_back(Wqe {
            request,
            first: None,
            psns: 0,
            acked: 0,
            starts: Vec::new(),
            ssn: 0,
            told: false,
        });
    }

    /// Returns the oldest unacknowledged PSN, or the next PSN to use if all are acknowledged.
    pub(crate) fn oldest(&self) -> Psn {
        match self.queue.front() {
            Some(&Wqe {
                first: Some(first),
                acked,
                ..
            }) => first.plus(acked),
            _ => self.next_psn,
        }
    }

    /// Returns the number of PSNs sent and not acknowledged.
    pub(crate) fn outstanding(&self) -> u32 {
        let count = self.sent_until.since(self.oldest());
        // A defective adapter can lose count. A conforming one never has half of all PSNs outstanding.
        if count < Psn::COUNT / 2 { count } else { 0 }
    }

    /// Returns whether a response is expected: a packet sent since the last retry is unacknowledged.
    pub(crate) fn awaits_answer(&self) -> bool {
        self.at > 0
            || self
                .queue
                .front()
                .is_some_and(|front| self.packet > front.first_packet())
    }

    /// Returns whether a request is begun and not finished.
    pub(crate) fn is_busy(&self) -> bool {
        self.queue.front().is_some_and(|front| front.first.is_some())
    }

    /// Sets the cursor back to the oldest unacknowledged PSN.
    pub(crate) fn rewind(&mut self, read_resumes: bool) {
        self.at = 0;
        self.packet = 0;
        for wqe in self.queue.iter_mut().take_while(|wqe| wqe.first.is_some()) {
            if wqe.request.operation.is_read_or_atomic() && !read_resumes {
                wqe.acked = 0;
            }
        }
        if let Some(front) = self.queue.front() {
            self.packet = front.first_packet();
        }
    }

    /// Removes the oldest request.
    pub(crate) fn pop(&mut self) -> Option<Wqe> {
        let front = self.queue.pop_front()?;
        if self.at == 0 {
            self.packet = 0;
        } else {
            self.at -= 1;
        }
        Some(front)
    }

    /// Resets the retry counters after progress.
    pub(crate) fn reload(&mut self) {
        self.fired = 0;
        self.retries = 0;
        self.rnr_retries = 0;
        self.slow = false;
        self.implied_nak = false;
        self.retry = None;
    }

    /// Stops all transmission. Returns the requests without a completion, in order.
    pub(crate) fn stop(&mut self) -> Vec<SendRequest> {
        self.timer = None;
        self.rnr_until = None;
        self.at = 0;
        self.packet = 0;
        self.reload();
        let held = self.held.take();
        let queue = self.queue.drain(..).filter(|wqe| !wqe.told).map(|wqe| wqe.request);
        held.into_iter().chain(queue).collect()
    }
}
