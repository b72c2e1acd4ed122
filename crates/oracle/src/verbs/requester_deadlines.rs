//! Rules with a deadline for the requester: a posted request is sent, and an answered request completes.
//!
//! A deadline starts at an event, such as the post of a request or the arrival of a response. It allows two
//! seconds, or more if the connection's own timers may take longer. A missed deadline breaks the rule if two
//! conditions hold: the event has certainly reached the device, and the device's host is still alive after the
//! deadline. If the event may not have reached the device, the record cannot decide the rule.
//!
//! Source: architecture 9.7.6 (completions), 9.7.5.1.1 (a NAK acknowledges all requests before it).

use core::time::Duration;

use verbatim_record::{Evidence, Passed, TRIES, Time, duration_words, duration_words_beside};
use verbatim_wire::packet::AckTimeout;
use verbatim_wire::verbs::WcStatus;

use super::asking::{Asking, VerbsRule};
use super::completion::may_acknowledge;
use super::local::has_reason;
use super::next::{expected, fits, is_read};
use super::qp_trace::{Completion, Deadline, EVENT_WAIT, PeerResponse, QpTrace, Request, WorkRequest};
use crate::rule::Rule;
use crate::rules::responder::ResponseKind;

pub(super) static RULES: &[(Rule, VerbsRule)] = &[
    (Rule::SentWhenPosted, sent_when_posted),
    (Rule::GoesOn, goes_on),
    (Rule::AnsweredCompletes, answered_completes),
    (Rule::NakAcknowledges, nak_acknowledges),
];

/// Returns the longest time for an event that the connection's own timers may delay.
pub(super) fn patience(qp: &QpTrace<'_>, rnr_interval: Duration) -> Duration {
    let code = qp.dialogue.attributes.timeout.and_then(|code| u8::try_from(code).ok());
    let retry_cnt = u8::try_from(qp.retry_cnt()).unwrap_or(7);
    let lasts = verbatim_record::silence::rc_lasts(rnr_interval, AckTimeout(code.unwrap_or(0)), retry_cnt);
    // If the record shows intervals beyond the timer's legal maximum, each transmission may wait for the longest of
    // them. One more interval allows for early retransmissions.
    let longest = qp.habits.longest.filter(|_| qp.timeout().is_some());
    longest.map_or(lasts, |longest| lasts.max(longest * (u32::from(retry_cnt) + 2)))
}

impl<'t> Asking<'_, 't> {
    /// Notes the outcome of a requirement with a deadline. `proven`: no lost packet explains a missed deadline.
    pub(super) fn owes(
        &mut self,
        owed: Deadline<'t>,
        proven: bool,
        evidence: impl IntoIterator<Item = Evidence<'t>>,
        words: impl FnOnce() -> (String, String, String),
    ) {
        let (result, after) = match owed {
            Deadline::Met => (Passed::Pass, None),
            Deadline::NotDue => return,
            Deadline::Unmet(after) if proven => (Passed::Fail, Some(after)),
            Deadline::Unmet(after) => (Passed::Inconclusive, Some(after)),
        };
        self.say(result, evidence.into_iter().chain(after.map(Evidence::from)), words);
    }
}

pub(super) fn in_words(completion: &[&Completion<'_>]) -> String {
    match completion {
        [] => "none".into(),
        all => all
            .iter()
            .map(|completion| completion.done.in_words())
            .collect::<Vec<_>>()
            .join(", "),
    }
}

/// Returns the time from a cause to its effect, in words to append; empty if there was no effect. `within`: the longest
/// time that the rule allows.
pub(super) fn after(since: Time, came: Option<Time>, within: Duration) -> String {
    came.map_or_else(String::new, |came| {
        format!(", {} after it", duration_words_beside(came.since(since), within))
    })
}

fn sent_when_posted<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    for (at, post) in qp.posts.iter().enumerate() {
        let first = qp
            .requests
            .iter()
            .find(|sent| sent.offset.is_some_and(|offset| post.has(offset)));
        // Earlier requests may delay this request. Check it only if all earlier requests had completed when it was
        // posted.
        let before = &qp.posts[..at];
        let is_alone = (0..before.len()).all(|at| {
            qp.completions_of(at)
                .any(|completion| completion.is_success() && completion.place() < post.place())
        });
        if !is_alone || qp.failed().is_some_and(|completion| completion.post == Some(at)) && first.is_none() {
            continue;
        }
        let asked = post.posted.command.asked.latest;
        let came = first.map(|sent| sent.seen.frame.at.earliest);
        if came.is_none() && is_answered_unseen(qp, post.first) {
            continue;
        }
        let within = until_all_tries(qp);
        let owed = qp.owed(asked, within, came);
        let proven = qp.is_lossless() || comes_again(qp);
        asking.owes(owed, proven, [post.posted.command.into()], || {
            let seen = first.map_or_else(|| "no packet".into(), |sent| sent.seen.packet.to_string());
            (
                post.in_words(),
                format!("its first packet within {} after it was posted", duration_words(within)),
                seen + &after(asked, came, within),
            )
        });
    }
}

/// Returns whether the timer repeats a request so often that loss does not explain why no packet of the request was
/// seen.
fn comes_again(qp: &QpTrace<'_>) -> bool {
    qp.timeout().is_some() && qp.retry_cnt() >= TRIES
}

/// For a request at `offset` that was not seen: returns whether the peer answered that PSN or a later one. If so,
/// the device sent the request, and the tester did not receive it.
fn is_answered_unseen(qp: &QpTrace<'_>, offset: u32) -> bool {
    let reaches = |answer: &PeerResponse<'_>| answer.end().is_some_and(|end| end > offset);
    !qp.is_lossless() && qp.answers.iter().any(reaches)
}

/// Returns the longest time after which at least one transmission of a request must have arrived.
fn until_all_tries(qp: &QpTrace<'_>) -> Duration {
    if qp.is_lossless() {
        EVENT_WAIT
    } else {
        EVENT_WAIT + patience(qp, Duration::ZERO)
    }
}

fn goes_on<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    // After a NAK or an undefined response, the device may delay a request for good reason.
    let is_calm = |answer: &PeerResponse<'_>| {
        matches!(
            answer.says,
            ResponseKind::Ack | ResponseKind::Read(_) | ResponseKind::Atomic
        )
    };
    if !qp.answers.iter().all(is_calm) {
        return;
    }
    for answer in qp
        .answers
        .iter()
        .filter(|answer| answer.is_of_seen && answer.says == ResponseKind::Ack)
    {
        let Some((next, at)) = answer.end().and_then(|next| Some((next, qp.post_of(next)?))) else {
            continue;
        };
        let post = &qp.posts[at];
        // A READ or atomic is one packet, which has the first of its PSNs.
        if post.posted.has_response_data() && next != post.first {
            continue;
        }
        let sent = qp.requests.iter().find(|sent| sent.offset == Some(next));
        let completion = (0..at).map(|at| {
            qp.completions_of(at)
                .find(|completion| completion.is_success())
                .map(|completion| completion.done.event.at.latest)
        });
        let (Some(arrived), Some(completion)) = (qp.has_arrived(answer), completion.collect::<Option<Vec<_>>>()) else {
            continue;
        };
        let was_waiting = sent.is_none_or(|sent| sent.seen.place > answer.place()) && post.place() < answer.place();
        let is_over = sent.is_none() && is_answered_unseen(qp, next);
        if !was_waiting || is_over || qp.completions_of(at).any(|completion| !completion.is_success()) {
            continue;
        }
        let since = completion
            .into_iter()
            .max()
            .map_or(arrived, |completion| completion.max(arrived));
        let came = sent.map(|sent| sent.seen.frame.at.earliest);
        let within = until_all_tries(qp);
        let owed = qp.owed(since, within, came);
        let proven = qp.is_lossless() || comes_again(qp);
        asking.owes(owed, proven, [answer.frame.into(), post.posted.command.into()], || {
            let packet = if next == post.first {
                "its first packet"
            } else {
                "its next packet"
            };
            let expected = format!("{packet} within {} of {}", duration_words(within), answer.packet);
            let seen = sent.map_or_else(|| "no packet".into(), |sent| sent.seen.packet.to_string());
            (post.in_words(), expected, seen + &after(since, came, within))
        });
    }
}

/// Returns the response after which a request must complete: the last of the responses that the request needs.
pub(super) fn answered_by<'a, 't>(qp: &'a QpTrace<'t>, at: usize) -> Option<&'a PeerResponse<'t>> {
    let post = &qp.posts[at];
    let failed = qp.failed().map_or(usize::MAX, Completion::place);
    let usable = || {
        qp.answers
            .iter()
            .filter(move |answer| answer.is_of_seen && answer.place() < failed)
    };
    if post.posted.has_response_data() {
        // Each response counts once and in order. If later responses come before a missing one, the missing one
        // counts only if the READ was sent again.
        let (mut next, mut gap) = (post.first, None);
        for answer in usable() {
            let Some(offset) = answer
                .offset
                .filter(|offset| post.has(*offset) && answer.says != ResponseKind::Ack)
            else {
                continue;
            };
            let times = |since: usize| {
                let of_it = |sent: &&Request<'_>| sent.offset.is_some_and(|offset| post.has(offset));
                let sent = qp.requests.iter().filter(of_it);
                sent.filter(|sent| (since..answer.place()).contains(&sent.seen.place))
                    .count()
            };
            let came_again = |since: usize| times(since) > 0;
            // The requester may discard a READ response whose opcode (First, Middle, Last, Only) does not fit its
            // place in the response.
            let is_odd =
                is_read(post) && times(post.place()) < 2 && answer.says != ResponseKind::Read(expected(post, offset));
            if offset > next {
                gap = gap.or(Some(answer.place()));
            } else if is_odd || !fits(qp, answer) || gap.is_some_and(|gap| !came_again(gap)) {
                return None;
            } else if offset == next {
                (next, gap) = (next + 1, None);
                if next == post.end {
                    return Some(answer);
                }
            }
        }
        return None;
    }
    let acknowledged = usable().find(|answer| may_acknowledge(answer, post.end))?;
    // All earlier READs and atomics must have been answered before this acknowledgement, or by it.
    let with_data = (0..at).filter(|at| qp.posts[*at].posted.has_response_data());
    let mut last = acknowledged;
    for at in with_data {
        let before = answered_by(qp, at)?;
        if before.place() > acknowledged.place() {
            return None;
        }
        if before.place() > last.place() {
            last = before;
        }
    }
    Some(last)
}

/// Returns whether a NAK that ends the connection, or an undefined response, was sent before the place `until`.
/// Such a response may end or delay a request, so that rules with deadlines do not apply.
pub(super) fn is_disturbed(qp: &QpTrace<'_>, until: usize) -> bool {
    qp.answers.iter().any(|answer| {
        answer.place() < until && (answer.is_odd() || answer.says == ResponseKind::Fatal && !qp.is_stale(answer))
    })
}

fn answered_completes<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    completes(qp, asking, |answer| !is_nak(answer));
}

fn nak_acknowledges<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    completes(qp, asking, is_nak);
}

fn is_nak(answer: &PeerResponse<'_>) -> bool {
    matches!(
        answer.says,
        ResponseKind::Rnr | ResponseKind::Sequence | ResponseKind::Fatal
    )
}

/// Returns the earliest time at which some acknowledgement of the request has certainly arrived.
fn another_arrived(qp: &QpTrace<'_>, post: &WorkRequest<'_>) -> Option<Time> {
    let all = qp
        .answers
        .iter()
        .filter(|answer| answer.is_of_seen && answer.says == ResponseKind::Ack);
    let of_it = all.filter(|answer| !post.posted.has_response_data() && may_acknowledge(answer, post.end));
    of_it.filter_map(|answer| qp.has_arrived(answer)).min()
}

/// Requires the completion of each request that is answered by a response of the kind `of_kind`.
fn completes<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>, of_kind: fn(&PeerResponse<'_>) -> bool) {
    for (at, post) in qp.posts.iter().enumerate() {
        let Some(answer) = answered_by(qp, at).filter(|answer| of_kind(answer)) else {
            continue;
        };
        let completion: Vec<&Completion<'t>> = qp.completions_of(at).collect();
        // An error with a reason, such as a time-out before a late response, may have ended the request. An error
        // without a reason breaks the rule.
        let error = completion.first().filter(|completion| !completion.is_success());
        let arrived = qp
            .has_arrived(answer)
            .or_else(|| error.and_then(|_| another_arrived(qp, post)));
        // An answered request has no time-out after its response. If its retries are reported as spent a full
        // timeout after the response, the error has no reason.
        let came_in_vain = |completion: &Completion<'_>| {
            let within = qp.timeout().unwrap_or(EVENT_WAIT);
            let is_late =
                |arrived: Time| completion.done.event.at.earliest > arrived.after(qp.trace.begin.at_most(within));
            completion.done.status() == WcStatus::RETRY_EXC_ERR && arrived.is_some_and(is_late)
        };
        let without_reason =
            error.filter(|completion| has_reason(qp, completion, post) == Some(false) || came_in_vain(completion));
        if error.is_some() && without_reason.is_none() || !post.posted.post.signaled {
            continue;
        }
        let in_front = (0..at).filter(|at| qp.posts[*at].posted.has_response_data());
        let is_clear = qp.is_lossless()
            || !post.posted.has_response_data()
                && in_front.into_iter().all(|at| qp.completions_of(at).next().is_some());
        let proven = arrived.is_some() && is_clear;
        let since = arrived.unwrap_or(answer.frame.at.latest);
        let came = completion.first().map(|completion| completion.done.event.at.earliest);
        let owed = match without_reason {
            Some(completion) => qp
                .after(completion.done.event.at.latest)
                .map_or(Deadline::NotDue, Deadline::Unmet),
            None => qp.owed(since, EVENT_WAIT, came),
        };
        let evidence = [Evidence::from(answer.frame)];
        let evidence = evidence
            .into_iter()
            .chain(completion.iter().map(|completion| completion.done.event.into()));
        asking.owes(owed, proven, evidence, || {
            let expected = format!(
                "its completion within {} of {}",
                duration_words(EVENT_WAIT),
                answer.packet
            );
            (
                post.in_words(),
                expected,
                in_words(&completion) + &after(since, came, EVENT_WAIT),
            )
        });
    }
}
