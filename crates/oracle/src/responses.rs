//! What a responder has said so far.

use verbatim_record::Time;
use verbatim_wire::packet::{Psn, RnrTimer, Syndrome, SyndromeKind};

/// A NAK, or an RNR NAK.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) psn: Psn,
    pub(super) syndrome: Syndrome,
    pub(super) number: u64,
    pub(super) at: Option<Time>,
    /// When the interval of an RNR NAK is over: that of the first, when another one came while it lasted, which a requester need not
    /// obey.
    pub(super) ends: Option<Time>,
    /// Whether the request has come since.
    pub(super) is_asked_again: bool,
    /// Nothing had been sent behind the request by then.
    pub(super) was_newest: bool,
}

/// What MSNs stand at so many messages more than our own count: what the responder had completed before it began. An
/// interval while it is not exactly known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Offset {
    /// The count that it belongs to.
    pub(super) epoch: u32,
    /// The least that it may be.
    pub(super) least: u32,
    /// How many more than that it may be.
    pub(super) room: u32,
    /// The packet that was last used to know it.
    pub(super) number: u64,
    /// The messages in our count, of the response that was last used.
    pub(super) of: u32,
    /// Whether responses to two requests agree on it, so that they were new; else they may have come before all that was seen.
    pub(super) is_sure: bool,
    /// Whether one response alone says exactly what it is.
    pub(super) is_exact: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Responses {
    /// The newest PSN that was acknowledged, and by which packet.
    pub(super) acknowledged: Option<(Psn, u64)>,
    /// The last sequence NAK.
    pub(super) sequence: Option<Refusal>,
    /// The last NAK of something that is missing, or put off, and its packet: what had come behind it was dropped.
    pub(super) dropped_behind: Option<(Psn, u64)>,
    /// The last RNR NAK, while its request was not acknowledged.
    pub(super) rnr: Option<Refusal>,
    /// The NAK that ended the connection.
    pub(super) fatal: Option<Refusal>,
    pub(super) offset: Option<Offset>,
    /// What it was taken for until two responses in a row contradicted it: they may have been wrong, and the rest is
    /// right.
    pub(super) offset_before: Option<Offset>,
    /// The newest PSN that was answered when no request with it had been seen, until one behind it is.
    pub(super) answered_unseen: Option<Psn>,
    /// A request that is no part of a message as it should be, and its packet: what the responder made of it, its count
    /// will show.
    pub(super) odd: Option<(Psn, u64)>,
}

impl Responses {
    /// Whether a PSN was acknowledged.
    pub(super) fn has_acknowledged(&self, psn: Psn) -> bool {
        self.acknowledged.is_some_and(|(newest, _)| is_up_to(psn, newest))
    }

    /// Whether a new request's PSN was answered before the request was seen. What lies behind all that was is new for certain.
    pub(super) fn was_answered_unseen(&mut self, psn: Psn) -> bool {
        self.answered_unseen.take_if(|answered| !is_up_to(psn, *answered));
        self.answered_unseen.is_some()
    }

    /// The packet that acknowledged the newest one; 0 when none did.
    pub(super) fn acknowledged_by(&self) -> u64 {
        self.acknowledged.map_or(0, |(_, number)| number)
    }

    /// A request is put off.
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

    /// A request has come that a port takes.
    pub(super) fn asked(&mut self, psn: Psn) {
        for refusal in [&mut self.sequence, &mut self.rnr].into_iter().flatten() {
            refusal.is_asked_again |= refusal.psn == psn;
        }
    }

    /// A packet acknowledges all up to a PSN.
    pub(super) fn acknowledge(&mut self, psn: Psn, number: u64) {
        if !self.has_acknowledged(psn) {
            self.acknowledged = Some((psn, number));
            let is_over = |refusal: &Refusal| is_up_to(refusal.psn, psn);
            self.rnr.take_if(|rnr| is_over(rnr));
            self.sequence.take_if(|nak| is_over(nak));
        }
    }
}

/// Whether `psn` is at or before `limit`.
pub(super) fn is_up_to(psn: Psn, limit: Psn) -> bool {
    limit.since(psn) < Psn::COUNT / 2
}
