//! Causes of retransmissions.

use super::next::fits;
use super::qp_trace::{QpTrace, WorkRequest};
use crate::rules::responder::ResponseKind;

/// Numbers of possible causes of a request's retransmissions, up to a place in the record.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Causes {
    pub(super) rnr: u32,
    /// Sequence NAKs, and responses that skip a READ or atomic.
    pub(super) errors: u32,
    /// Responses that may have reset the retry counters.
    pub(super) progress: u32,
}

impl Causes {
    /// Returns the number of causes other than timeouts.
    pub(super) fn all(self) -> u32 {
        self.rnr.saturating_add(self.errors)
    }
}

/// Returns the possible causes of a request's retransmissions before the place `until`.
pub(super) fn causes(qp: &QpTrace<'_>, post: &WorkRequest<'_>, until: usize) -> Causes {
    let mut causes = Causes::default();
    let (mut acknowledged, mut responses) = (0, Vec::new());
    // On hardware, a response that was sent before the post may arrive after it, and reset the counters.
    let since = if qp.is_lossless() { post.place() } else { 0 };
    // Responses to requests that completed before this request was posted cause no retry.
    let done = qp.done_before(post.place());
    for answer in qp.answers.iter().filter(|answer| answer.place() < until) {
        let Some(of) = answer.offset else { continue };
        // NAKs of all PSNs count, because the requester may resume at an earlier PSN than that of the NAK. A
        // response to a completed request has no effect.
        let is_old = of < done.max(qp.done_before(answer.place()));
        match answer.says {
            ResponseKind::Rnr if !is_old => causes.rnr += 1,
            ResponseKind::Sequence if !is_old => causes.errors += 1,
            // A device may treat a response without a defined meaning as a local error, or retransmit.
            ResponseKind::Nothing => causes.errors += 1,
            _ => {}
        }
        // An ACK within a READ or atomic skips the responses up to and including the ACK's PSN. Any other response
        // skips the responses before its PSN.
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
