//! State of a responder: the responses seen so far.

use verbatim_record::Time;
use verbatim_wire::packet::{Psn, RnrTimer, Syndrome, SyndromeKind};

/// A NAK or RNR NAK.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) psn: Psn,
    pub(super) syndrome: Syndrome,
    pub(super) number: u64,
    pub(super) at: Option<Time>,
    /// End of an RNR NAK's interval. If a second RNR NAK came before the request was repeated, the earlier of the
    /// two ends, because a requester may ignore the second RNR NAK.
    pub(super) ends: Option<Time>,
    /// Whether the request was sent again after the refusal.
    pub(super) is_asked_again: bool,
    /// Whether the request was the newest request when the refusal came.
    pub(super) was_newest: bool,
}

/// Number of messages that the responder had completed when the checks began to count, modulo 2^24. The MSN is this
/// offset plus the checks' own count. While the exact value is unknown, the offset is an interval.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Offset {
    /// Message count that the offset belongs to.
    pub(super) epoch: u32,
    /// Smallest possible value.
    pub(super) least: u32,
    /// Largest possible value minus the smallest.
    pub(super) room: u32,
    /// Number of the last packet that narrowed the offset.
    pub(super) number: u64,
    /// The checks' own count at that packet.
    pub(super) of: u32,
    /// Whether the value is certain: it is given, or responses to two requests agree on it. A single response is not
    /// enough, because it may answer a request from before the capture.
    pub(super) is_sure: bool,
    /// Whether one response alone determines the value.
    pub(super) is_exact: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Responses {
    /// Newest acknowledged PSN, and the number of the packet that acknowledged it.
    pub(super) acknowledged: Option<(Psn, u64)>,
    pub(super) sequence: Option<Refusal>,
    /// PSN and packet number of the last sequence NAK or RNR NAK. The responder had dropped the requests after that
    /// PSN.
    pub(super) dropped_behind: Option<(Psn, u64)>,
    /// Last RNR NAK, until its request is acknowledged.
    pub(super) rnr: Option<Refusal>,
    /// NAK that ended the connection.
    pub(super) fatal: Option<Refusal>,
    pub(super) offset: Option<Offset>,
    /// Previous offset, which two responses in a row contradicted. Those two responses may be wrong instead of the
    /// offset.
    pub(super) offset_before: Option<Offset>,
    /// Newest PSN that was answered before its request was seen. Removed when a later request is seen.
    pub(super) answered_unseen: Option<Psn>,
    /// PSN and packet number of a malformed request. The responder's MSN shows later whether the responder counted the
    /// request.
    pub(super) odd: Option<(Psn, u64)>,
}

impl Responses {
    pub(super) fn has_acknowledged(&self, psn: Psn) -> bool {
        self.acknowledged.is_some_and(|(newest, _)| is_up_to(psn, newest))
    }

    /// Returns whether a response to this PSN, or to a later one, was seen before its request. Forgets all such
    /// responses if the PSN is later than theirs: the request is then certainly new.
    pub(super) fn was_answered_unseen(&mut self, psn: Psn) -> bool {
        self.answered_unseen.take_if(|answered| !is_up_to(psn, *answered));
        self.answered_unseen.is_some()
    }

    /// Returns the number of the packet that acknowledged the newest PSN; 0 if there is none.
    pub(super) fn acknowledged_by(&self) -> u64 {
        self.acknowledged.map_or(0, |(_, number)| number)
    }

    /// Stores an RNR NAK with the end of its interval.
    pub(super) fn put_off(&mut self, mut rnr: Refusal) {
        let timer = match rnr.syndrome.kind() {
            SyndromeKind::RnrNak(timer) => timer,
            _ => RnrTimer::SHORTEST,
        };
        let ends = rnr.at.map(|at| at.after(timer.duration()));
        let lasts = self
            .rnr
            .as_ref()
            .filter(|before| before.psn == rnr.psn && !before.is_asked_again);
        rnr.ends = lasts.and_then(|before| before.ends).into_iter().chain(ends).min();
        self.rnr = Some(rnr);
    }

    /// Notes a request that a conforming port accepts.
    pub(super) fn asked(&mut self, psn: Psn) {
        for refusal in [&mut self.sequence, &mut self.rnr].into_iter().flatten() {
            refusal.is_asked_again |= refusal.psn == psn;
        }
    }

    /// Notes that packet `number` acknowledges all requests up to `psn`.
    pub(super) fn acknowledge(&mut self, psn: Psn, number: u64) {
        if !self.has_acknowledged(psn) {
            self.acknowledged = Some((psn, number));
            let is_over = |refusal: &Refusal| is_up_to(refusal.psn, psn);
            self.rnr.take_if(|rnr| is_over(rnr));
            self.sequence.take_if(|nak| is_over(nak));
        }
    }
}

/// Returns whether `psn` is at or before `limit`.
pub(super) fn is_up_to(psn: Psn, limit: Psn) -> bool {
    limit.since(psn) < Psn::COUNT / 2
}
