//! Causes of a retry.

use super::next::fits;
use super::qp_trace::{QpTrace, WorkRequest};
use crate::rules::responder::ResponseKind;

/// Possible causes of a retry, up to a place in the record.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Causes {
    /// RNR NAKs.
    pub(super) rnr: u32,
    /// Sequence NAKs, and answers that skip a READ or atomic.
    pub(super) errors: u32,
    /// Answers that may have loaded the counters again.
    pub(super) progress: u32,
}

impl Causes {
    /// All that may have made it come again, but time-outs.
    pub(super) fn all(self) -> u32 {
        self.rnr.saturating_add(self.errors)
    }
}

/// Possible causes of its retry, up to a place in the record.
pub(super) fn causes(qp: &QpTrace<'_>, post: &WorkRequest<'_>, until: usize) -> Causes {
    let mut causes = Causes::default();
    let (mut acknowledged, mut responses) = (0, Vec::new());
    // On a link that delays them, answers to what came before may load the counters late.
    let since = if qp.is_lossless() { post.place() } else { 0 };
    // A request that completed before this one was posted causes no retry.
    let done = qp.done_before(post.place());
    for answer in qp.answers.iter().filter(|answer| answer.place() < until) {
        let Some(of) = answer.offset else { continue };
        // Completion to go back, a requester may go back further than it was told; what is old says nothing.
        let is_old = of < done.max(qp.done_before(answer.place()));
        match answer.says {
            ResponseKind::Rnr if !is_old => causes.rnr += 1,
            ResponseKind::Sequence if !is_old => causes.errors += 1,
            // A port may take a code that it does not know for an error of its own, or ask again.
            ResponseKind::Nothing => causes.errors += 1,
            _ => {}
        }
        // An ACK within a READ or atomic skips its responses up to that PSN and with it; anything else those before.
        let skips = |read: &WorkRequest<'_>| {
            let skipped_to = match answer.says {
                ResponseKind::Ack if read.has(of) => of + 1,
                _ => of,
            };
            let is_open_read = read.end > done && read.posted.has_response_data();
            is_open_read && read.first < skipped_to && !qp.has_had(read, skipped_to, answer)
        };
        if !answer.is_odd() && qp.posts.iter().any(skips) {
            causes.errors += 1;
        }
        let end = answer.end().unwrap_or(0);
        let is_response = fits(qp, answer) && !responses.contains(&of);
        let is_progress = end > acknowledged || is_response;
        acknowledged = acknowledged.max(end);
        responses.extend(is_response.then_some(of));
        causes.progress += u32::from(is_progress && answer.place() > since);
    }
    causes
}
