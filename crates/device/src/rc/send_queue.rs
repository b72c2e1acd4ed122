//! The send queue: which requests wait, which packets of them were sent, and what of them was acknowledged.
//!
//! ```text
//!   queue:   [ request 0 ][ request 1 ][ request 2 ][ request 3 ] ...
//!              ^ oldest unacknowledged PSN    ^ cursor: the next packet to send
//! ```
//!
//! A retry sets the cursor back to the oldest unacknowledged PSN. What is acknowledged leaves at the front.

use core::time::Duration;
use std::collections::VecDeque;

use verbatim_wire::Psn;

use super::verbs::SendRequest;

/// A send request and how far it is.
#[derive(Clone, Debug)]
pub(crate) struct Wqe {
    pub(crate) request: SendRequest,
    /// Its first PSN, once it was begun.
    pub(crate) first: Option<Psn>,
    /// PSNs that it takes: packets of a SEND or WRITE, responses to a READ, 1 of an atomic.
    pub(crate) psns: u32,
    /// PSNs acknowledged, from the first on; for a READ, responses received.
    pub(crate) acked: u32,
    /// The responses at which a READ request began, so that a First or Only may come there.
    pub(crate) starts: Vec<u32>,
    /// Its number among all messages, from 1 on, modulo 2^24, once it was begun.
    pub(crate) ssn: u32,
    /// It was told that it is done; only a defective adapter does so before it leaves the queue.
    pub(crate) told: bool,
}

impl Wqe {
    /// Packets that it is sent as.
    pub(crate) fn packets(&self) -> u32 {
        if self.request.operation.is_read_or_atomic() {
            1
        } else {
            self.psns
        }
    }

    /// The first packet that is not acknowledged.
    pub(crate) fn first_packet(&self) -> u32 {
        if self.request.operation.is_read_or_atomic() {
            0
        } else {
            self.acked
        }
    }
}

/// What a retry is for; only a defective adapter sends other packets then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Retry {
    Rnr,
    Timeout,
}

/// A send queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct SendQueue {
    pub(crate) queue: VecDeque<Wqe>,
    /// PSN of the next request that is begun.
    pub(crate) next_psn: Psn,
    /// The first PSN that was never sent.
    pub(crate) sent_until: Psn,
    /// Messages that were begun, modulo 2^24.
    pub(crate) messages: u32,
    /// The last message that the responder has receives for, as its ACKs tell; `None` when they set no limit.
    pub(crate) credit_limit: Option<u32>,
    /// The message at the cursor was begun beyond that limit: one packet at a time.
    pub(crate) limited: bool,
    /// The cursor: a request and a packet of it.
    pub(crate) at: usize,
    pub(crate) packet: u32,
    /// When the retry timer fires.
    pub(crate) timer: Option<Duration>,
    /// Nothing is sent before, for an RNR NAK said so.
    pub(crate) rnr_until: Option<Duration>,
    /// How often the retry timer has fired since the last progress.
    pub(crate) fired: u32,
    /// Retries since the last progress.
    pub(crate) retries: u32,
    pub(crate) rnr_retries: u32,
    /// An implied NAK was acted on since the last progress; more of them say nothing new.
    pub(crate) implied_nak: bool,
    pub(crate) retry: Option<Retry>,
    /// A completion that a defective adapter keeps back.
    pub(crate) held: Option<SendRequest>,
    /// The drained state was reported.
    pub(crate) drained: bool,
    /// One packet at a time, until there is progress.
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

    /// The oldest PSN that is not acknowledged; the next one to be used when nothing is.
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

    /// PSNs that were sent and not acknowledged.
    pub(crate) fn outstanding(&self) -> u32 {
        let count = self.sent_until.since(self.oldest());
        // A defective adapter can lose count; a sound one never has half of all PSNs in flight.
        if count < Psn::COUNT / 2 { count } else { 0 }
    }

    /// Whether an answer is awaited: something was sent and not taken back by a retry.
    pub(crate) fn awaits_answer(&self) -> bool {
        self.at > 0
            || self
                .queue
                .front()
                .is_some_and(|front| self.packet > front.first_packet())
    }

    /// Whether anything was begun and is not finished.
    pub(crate) fn is_busy(&self) -> bool {
        self.queue.front().is_some_and(|front| front.first.is_some())
    }

    /// Sets the cursor back to the oldest PSN that is not acknowledged.
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

    /// Takes the oldest request out.
    pub(crate) fn pop(&mut self) -> Option<Wqe> {
        let front = self.queue.pop_front()?;
        if self.at == 0 {
            self.packet = 0;
        } else {
            self.at -= 1;
        }
        Some(front)
    }

    /// Progress: both counters are loaded again.
    pub(crate) fn reload(&mut self) {
        self.fired = 0;
        self.retries = 0;
        self.rnr_retries = 0;
        self.slow = false;
        self.implied_nak = false;
        self.retry = None;
    }

    /// Stops everything; the requests that had no completion yet, in order.
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
