//! Rules for retransmissions: cause, number and time.
//!
//! Source: architecture 9.7.5.1.1 (NAKs), 9.7.5.2.8 (RNR NAKs), 9.7.6.1.3 (the transport timer), 9.7.5.1.3 (retry
//! counters); Linux rxe and rdmavt.

use core::time::Duration;

use verbatim_record::{Evidence, FrameSeen, Passed, duration_words};

use super::asking::{Asking, VerbsRule};
pub(super) use super::causes::{Causes, causes};
use super::pace::{QUEUED, of_excess, spread};
use super::qp_trace::{EVENT_WAIT, PeerResponse, QpTrace, Request, WorkRequest, shown};
use super::requester_deadlines::answered_by;
use crate::rule::Rule;
use crate::rules::responder::ResponseKind;

pub(super) static RULES: &[(Rule, VerbsRule)] = &[
    (Rule::UnaskedRetry, unasked_retry),
    (Rule::TimeoutOff, timeout_off),
    (Rule::RetryCount, retry_count),
    (Rule::NakCount, nak_count),
    (Rule::RnrCount, rnr_count),
    (Rule::AckTimeout, ack_timeout),
    (Rule::TimerRestarts, timer_restarts),
];

/// Value of rnr_retry for no limit.
const ENDLESS: u32 = 7;

/// Returns the PSN and the request of each retransmission, with all transmissions of that PSN so far.
fn repeats<'a, 't>(qp: &'a QpTrace<'t>) -> impl Iterator<Item = (u32, &'a WorkRequest<'t>, Vec<&'a Request<'t>>)> {
    qp.requests.iter().filter_map(|request| {
        let offset = request.offset?;
        let post = &qp.posts[qp.post_of(offset)?];
        let times = qp.transmissions(offset, request.seen.place + 1);
        (times.len() > 1).then_some((offset, post, times))
    })
}

fn timeout_off<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    if qp.timeout().is_some() || !qp.answers.is_empty() {
        return;
    }
    let Some(first) = qp.requests.first() else { return };
    let again = repeats(qp).next().and_then(|(_, _, sent)| sent.last().copied());
    let long_enough = qp
        .ends_at()
        .zip(qp.posts.first())
        .is_some_and(|(end, post)| end.since(post.posted.command.asked.latest) >= EVENT_WAIT);
    if again.is_none() && !long_enough {
        return;
    }
    let evidence = [first]
        .into_iter()
        .chain(again)
        .map(|sent| Evidence::from(sent.seen.frame));
    asking.must(again.is_none(), evidence, || {
        let seen = again.map(|sent| sent.seen.packet.to_string()).unwrap_or_default();
        (
            "a request that nobody answers".into(),
            "no second transmission: the timeout is off".into(),
            seen,
        )
    });
}

fn times(of: &[&Request<'_>]) -> u32 {
    u32::try_from(of.len()).unwrap_or(u32::MAX)
}

fn unasked_retry<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    for (of, post, sent) in repeats(qp) {
        let last = sent[sent.len() - 1];
        let found = causes(qp, post, last.seen.place);
        let Causes { rnr, errors, .. } = found;
        let begun = oldest_open(qp, post).posted.command.asked;
        let until = last.seen.frame.at.since(begun).1;
        // An answered request has no time-out after its response.
        let at = qp.post_of(of).filter(|_| qp.is_lossless());
        let answered = at.and_then(|at| answered_by(qp, at));
        let answered = answered.map_or(until, |answer| answer.frame.at.since(begun).1);
        let lasted = qp.trace.begin.at_most(until.min(answered));
        let time_outs = qp.timeout().map_or(0, |once| {
            u32::try_from(lasted.as_nanos() / once.as_nanos().max(1)).unwrap_or(u32::MAX)
        });
        let allowed = 1u32.saturating_add(found.all()).saturating_add(time_outs);
        let habit = of_excess(qp, &sent);
        asking.due_to(habit).must(times(&sent) <= allowed, shown(&sent), || {
            let about = format!("{}, sent again", post.in_words());
            let expected = match qp.timeout() {
                None => {
                    format!("{allowed} transmissions at most: {rnr} RNR NAKs, {errors} other reasons, no ACK timeout")
                }
                Some(once) => format!(
                    "{allowed} transmissions at most in {}: {rnr} RNR NAKs, {errors} other reasons, ACK timeout {}",
                    duration_words(lasted),
                    duration_words(once)
                ),
            };
            (about, expected, format!("{}: {}", sent.len(), last.seen.packet))
        });
    }
}

/// Returns the oldest request that may have been unanswered when `post` was posted. The timer may belong to that
/// request, and may have run since that request was posted.
pub(super) fn oldest_open<'k, 't>(qp: &'k QpTrace<'t>, post: &'k WorkRequest<'t>) -> &'k WorkRequest<'t> {
    let completion = qp
        .completions
        .iter()
        .filter(|completion| completion.place() < post.place());
    let open = completion
        .filter_map(|completion| completion.post)
        .max()
        .map_or(0, |done| done + 1);
    qp.posts
        .get(open)
        .filter(|oldest| oldest.first <= post.first)
        .unwrap_or(post)
}

fn retry_count<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    if qp.timeout().is_some() {
        at_most_retry_cnt(qp, asking);
    }
}

fn nak_count<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    if qp.timeout().is_none() {
        at_most_retry_cnt(qp, asking);
    }
}

fn at_most_retry_cnt<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let retry_cnt = qp.retry_cnt();
    for (_, post, sent) in repeats(qp) {
        let Causes { rnr, errors, progress } = causes(qp, post, sent[sent.len() - 1].seen.place);
        // The rule `unasked-retry` covers a retransmission without a cause.
        if errors == 0 && qp.timeout().is_none() {
            continue;
        }
        // RNR NAKs have their own counter. Each response that makes progress may reset the retry counter, which
        // allows `retry_cnt` more transmissions.
        let allowed = 1 + rnr + retry_cnt * (1 + progress);
        asking
            .due_to(of_excess(qp, &sent))
            .must(times(&sent) <= allowed, shown(&sent), || {
                let about = format!("{}, retry_cnt {retry_cnt}: transmissions", post.in_words());
                (about, format!("{allowed} at most"), sent.len().to_string())
            });
    }
}

fn rnr_count<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let rnr_retry = qp.rnr_retry();
    for (_, post, sent) in repeats(qp) {
        let Causes { rnr, errors, progress } = causes(qp, post, sent[sent.len() - 1].seen.place);
        if rnr == 0 || rnr_retry == ENDLESS || errors > 0 || qp.timeout().is_some() {
            continue;
        }
        let allowed = 1 + rnr_retry * (1 + progress);
        asking.must(times(&sent) <= allowed, shown(&sent), || {
            let about = format!("{}, rnr_retry {rnr_retry}: transmissions", post.in_words());
            (about, format!("{allowed} at most"), sent.len().to_string())
        });
    }
}

fn ack_timeout<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let Some(once) = qp.timeout() else { return };
    // Responses to completed requests do not count, with one exception. To grant credits, the peer may repeat an
    // ACK of the last completed request at any time, and that ACK may restart the timer.
    let answered = |offset: u32, since: usize, until: usize| {
        let is_before = |end: u32, place: usize| end < offset || end == offset && place < since;
        let is_stale = |answer: &PeerResponse<'_>| {
            answer.says == ResponseKind::Ack && answer.end().is_some_and(|end| is_before(end, answer.place()))
        };
        qp.answers
            .iter()
            .any(|answer: &PeerResponse<'_>| answer.place() < until && !is_stale(answer))
    };
    let is_done_before = |offset: u32, place: usize| {
        let is_told = |at: usize| {
            qp.completions_of(at)
                .any(|completion| completion.is_success() && completion.place() < place)
        };
        let mut before = (0..qp.posts.len()).filter(|at| qp.posts[*at].end <= offset);
        before.all(is_told)
    };
    let spread = spread(qp);
    // The first of two packets may have waited in its port, while the second packet did not.
    let queued = if qp.is_lossless() { Duration::ZERO } else { QUEUED };
    for (offset, post, sent) in repeats(qp) {
        let [.., earlier, later] = sent.as_slice() else {
            continue;
        };
        // Check only the oldest request, and only if no response came: a response restarts the timer, or causes an
        // earlier retransmission.
        let is_oldest = offset == post.first && is_done_before(offset, earlier.seen.place);
        let is_answered = answered(offset, earlier.seen.place, later.seen.place);
        if !is_oldest || is_answered || qp.trace.timeline.round_trips.is_empty() {
            continue;
        }
        let (least, most) = later.seen.frame.at.since(earlier.seen.frame.at);
        let shift = spread.unwrap_or_default();
        let (least, most) = (least.saturating_sub(shift), qp.trace.begin.at_most(most + shift));
        let all = qp.transmissions(offset, usize::MAX).len();
        let none_lost = qp.is_lossless() || all > qp.retry_cnt() as usize;
        let result = if spread.is_none() {
            Passed::Inconclusive
        } else if most + queued < once || (least > 4 * once && none_lost) {
            Passed::Fail
        } else if least >= once && most <= 4 * once {
            Passed::Pass
        } else {
            Passed::Inconclusive
        };
        let evidence = [Evidence::from(earlier.seen.frame), later.seen.frame.into()];
        if result == Passed::Pass {
            asking.at_least((least, once), evidence);
            continue;
        }
        let is_late = least > 4 * once;
        let habit = qp.habits.of_retry(is_late);
        asking.due_to(habit).say(result, evidence, || {
            let words = |(least, most)| format!("{}..{}", duration_words(least), duration_words(most));
            let expected = format!("{} after the transmission before", words((once, 4 * once)));
            let what = if is_late { "late retry" } else { "retry" };
            let signature = habit.map_or_else(String::new, |habit| qp.habits.signature(habit));
            let seen = words((least, most)) + &signature;
            (format!("{}: {what}", post.in_words()), expected, seen)
        });
    }
}

/// Checks, on a lossless link, that each response that makes progress restarts the timer.
fn timer_restarts<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let (Some(once), Some(path), true) = (qp.timeout(), qp.path(), qp.is_lossless()) else {
        return;
    };
    // Check only connections with a single request. With several requests, a retransmission of an earlier one would
    // also repeat the later ones.
    for post in qp.posts.iter().filter(|_| qp.posts.len() == 1) {
        let is_read = post.posted.has_response_data();
        // Check each packet of a message separately, but all requests for parts of a READ together.
        let parts = if is_read { 1 } else { post.end - post.first };
        for part in (post.first..).take(parts as usize) {
            let is_of_it = |offset| offset == part || is_read && post.has(offset);
            let of_it = qp.requests.iter().filter(|sent| sent.offset.is_some_and(is_of_it));
            let sent: Vec<&Request<'t>> = of_it.collect();
            for pair in sent.windows(2) {
                let (earlier, later) = (pair[0].seen.frame, pair[1].seen.frame);
                // If an earlier packet of the message was retransmitted, this packet need not wait for a timeout.
                let follows = |sent: &Request<'_>| {
                    let is_before = sent.offset.is_some_and(|offset| post.has(offset) && offset < part);
                    is_before && (earlier.place..later.place).contains(&sent.seen.place)
                };
                if !is_read && qp.requests.iter().any(follows) {
                    continue;
                }
                let Some(began) = timer_started_by(qp, (post, part), (earlier, later)) else {
                    continue;
                };
                let most = later.at.since(began.at).1 + path;
                let is_early = later.at.since(earlier.at).0 < once;
                asking.due_to(qp.habits.of_retry(false).filter(|_| is_early)).must(
                    most >= once,
                    [began, later].map(Evidence::from),
                    || {
                        let about = format!("{}: retry", post.in_words());
                        let expected = format!("{} after that, or later", duration_words(once));
                        (about, expected, format!("{} after it at most", duration_words(most)))
                    },
                );
            }
        }
    }
}

/// Returns the frame that last started the timer before `later`: `earlier` itself, or a later response that makes
/// progress. `None` if `later` may have another cause. Also `None` if the peer never responded, which the rule
/// `ack-timeout` covers.
fn timer_started_by<'t>(
    qp: &QpTrace<'t>,
    (post, part): (&WorkRequest<'_>, u32),
    (earlier, later): (&'t FrameSeen, &'t FrameSeen),
) -> Option<&'t FrameSeen> {
    let before: Vec<&PeerResponse<'t>> = qp
        .answers
        .iter()
        .filter(|answer| answer.place() < later.place)
        .collect();
    if before.is_empty() {
        return None;
    }
    // If several responses asked for a retry, any of them may have caused `later`.
    let asks = |answer: &&&PeerResponse<'_>| {
        let skips = matches!(answer.says, ResponseKind::Read(_)) && !qp.is_next_response(answer);
        answer.says == ResponseKind::Sequence || skips
    };
    if before.iter().filter(asks).count() > 1 {
        return None;
    }
    let mut acknowledged = 0;
    let mut began = earlier;
    for answer in before {
        let end = answer.end().unwrap_or(0);
        let is_new = end > acknowledged;
        acknowledged = acknowledged.max(end);
        // Give up unless the response is one of these: after any other response, `later` may have more than one cause.
        let is_plain = match answer.says {
            ResponseKind::Ack => answer.offset.is_some(),
            ResponseKind::Read(_) => answer.offset.is_some_and(|of| post.has(of)),
            ResponseKind::Sequence => answer.offset == Some(post.first),
            _ => false,
        };
        if !is_plain {
            return None;
        }
        if answer.place() < earlier.place {
            continue;
        }
        match answer.says {
            ResponseKind::Ack if end > 0 && end <= part => {
                if is_new {
                    began = answer.frame;
                }
            }
            ResponseKind::Read(_) if answer.offset.is_some_and(|of| post.has(of)) && qp.is_next_response(answer) => {
                began = answer.frame;
            }
            _ => return None,
        }
    }
    Some(began)
}
