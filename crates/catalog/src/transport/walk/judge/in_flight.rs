//! How many of the DUT's requests are in flight, and what a fence holds back.

use verbatim_record::{Findings, Passed};
use verbatim_wire::packet::Psn;

use super::requests::answered_at;
use crate::transport::rc::ask::HALF;
use crate::transport::rc::{Case, GENERATION, Posted, Seen};

/// No more READs and atomics are in flight than the queue pair was told, and none before a fenced request.
pub(super) fn judge(f: &mut Findings<'_>, case: &Case<'_>, sent: &[Seen<'_>]) {
    let most = case.dialogue.attributes.max_rd_atomic.unwrap_or(u32::MAX);
    let with_response: Vec<&Posted<'_>> = case.posted.iter().filter(|posted| posted.has_response_data()).collect();
    let answered: Vec<Option<usize>> = with_response
        .iter()
        .map(|posted| answered_at(case, posted).map(|(frame, _)| frame.place))
        .collect();
    for seen in sent {
        let Some(of) = case
            .posted
            .iter()
            .find(|posted| seen.psn().since(posted.first) < posted.psns)
        else {
            continue;
        };
        let open = |before: Psn| {
            let all = with_response.iter().zip(&answered);
            all.filter(|(posted, answered)| {
                let is_before = before.since(posted.first) < HALF && posted.first != before;
                is_before && answered.is_none_or(|answered| answered > seen.frame.place)
            })
            .count()
        };
        let waiting = open(of.first);
        let breaks = if of.has_response_data() {
            waiting as u32 >= most
        } else {
            false
        };
        if breaks || of.post.fence && waiting > 0 {
            let words = match breaks {
                true => (
                    format!("at most {most} READs and atomics in flight"),
                    format!("{}", waiting + 1),
                ),
                false => (
                    "a fenced request after the answers before it".into(),
                    format!("{waiting} without an answer"),
                ),
            };
            f.prove(GENERATION, &[seen.frame.into()], &of.in_words(), words, Passed::Fail);
            return;
        }
    }
}
