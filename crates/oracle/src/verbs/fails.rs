//! Rules for required failures: requests with spent retries and refused requests fail, later requests are flushed, and
//! the queue pair enters the error state.
//!
//! Source: architecture 9.7.5.1.1 (NAKs), 9.7.5.2.8 (RNR NAKs), 9.7.6.1.3 (time-outs), 9.9.2 and 10.3.1 (the error
//! state).

use core::time::Duration;

use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Evidence, Side, TRIES, Time, VerbsDone, WcStatus, duration_words};

use super::asking::{Asking, VerbsRule};
use super::completion::may_acknowledge;
use super::errors::{refuses, rnr_naks};
use super::next::fits;
use super::pace::QUEUED;
use super::qp_trace::{Completion, Deadline, EVENT_WAIT, PeerResponse, QpTrace, Request, WorkRequest, shown};
use super::received::{commands, posted};
use super::requester_deadlines::{after, in_words, is_disturbed, patience};
use super::retransmission::{interval, is_flushed, unanswered, waits_since};
use crate::rule::Rule;
use crate::rules::responder::ResponseKind;

pub(super) static RULES: &[(Rule, VerbsRule)] = &[
    (Rule::RnrFails, rnr_fails),
    (Rule::NakFails, nak_fails),
    (Rule::RetryFails, retry_fails),
    (Rule::RefusalFails, refusal_fails),
    (Rule::BadResponseFails, bad_response_fails),
    (Rule::Flushed, flushed),
    (Rule::ErrorState, error_state),
];

/// Longest time for the flush of outstanding requests.
const FLUSH: Duration = Duration::from_millis(400);

/// Requires a request to complete with one of the `allowed` statuses, at most `within` after `since`, the time of
/// the cause.
fn fails<'t>(
    qp: &QpTrace<'t>,
    asking: &mut Asking<'_, 't>,
    (at, allowed): (usize, &[WcStatus]),
    (since, cause): (Time, &str),
    (within, proven): (Duration, bool),
    evidence: Vec<Evidence<'t>>,
) {
    let completion: Vec<&Completion<'t>> = qp.completions_of(at).collect();
    let met = completion
        .iter()
        .find(|completion| allowed.contains(&completion.done.status()));
    // A status that is not allowed breaks the rule at once. A flush is an exception, because the tester may have
    // moved the queue pair to ERR: the deadline then decides.
    let other = completion.first().map(|completion| completion.done.status());
    let other = other.filter(|status| !allowed.contains(status) && *status != WcStatus::WR_FLUSH_ERR);
    let is_local = other.is_some_and(|status| matches!(status, WcStatus::LOC_PROT_ERR | WcStatus::LOC_QP_OP_ERR));
    let owed = match (other, completion.first()) {
        (Some(_), Some(_)) => qp.after(since).map_or(Deadline::NotDue, Deadline::Unmet),
        _ => qp.owed(since, within, met.map(|completion| completion.done.event.at.earliest)),
    };
    // A lost packet does not explain a local error.
    let proven = proven || is_local;
    let evidence = evidence
        .into_iter()
        .chain(completion.iter().map(|completion| completion.done.event.into()));
    asking.owes(owed, proven, evidence, || {
        let statuses: Vec<String> = allowed.iter().map(ToString::to_string).collect();
        let longest = within;
        let within = duration_words(within);
        let expected = format!(
            "one completion, with {}, within {within} of {cause}",
            statuses.join(" or ")
        );
        let came = met.map(|completion| completion.done.event.at.earliest);
        (
            qp.posts[at].in_words(),
            expected,
            in_words(&completion) + &after(since, came, longest),
        )
    });
}

/// Returns the time when NAKs had used up `budget` retries of a request, and whether that is certain. On a link
/// that may lose NAKs, the time is certain if all retries were seen and three NAKs followed the last retry.
fn spent(qp: &QpTrace<'_>, post: &WorkRequest<'_>, naks: &[&PeerResponse<'_>], budget: u32) -> Option<(Time, bool)> {
    let last = naks.get(budget as usize)?;
    if qp.is_lossless() {
        return Some((last.frame.at.latest, true));
    }
    let sent = qp.transmissions(post.first, usize::MAX);
    let place = sent.last()?.seen.place;
    let third = naks.iter().filter(|nak| nak.place() > place).nth(TRIES as usize - 1);
    let since = third.unwrap_or(last).frame.at.latest;
    Some((since, sent.len() > budget as usize && third.is_some()))
}

fn rnr_fails<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    if qp.rnr_retry() == 7 {
        return;
    }
    for (at, post) in qp.posts.iter().enumerate() {
        let naks = rnr_naks(qp, post, usize::MAX);
        let Some((since, proven)) = spent(qp, post, &naks, qp.rnr_retry()) else {
            continue;
        };
        let is_front = (0..at).all(|at| qp.completions_of(at).any(Completion::is_success));
        let is_acknowledged = qp.answers.iter().any(|answer| may_acknowledge(answer, post.end));
        if !is_front || is_acknowledged || is_disturbed(qp, usize::MAX) || post.end - post.first > 1 {
            continue;
        }
        let evidence = naks.iter().map(|nak| Evidence::from(nak.frame)).collect();
        let within = patience(qp, naks.iter().map(|nak| interval(nak)).max().unwrap_or_default());
        let status = &[WcStatus::RNR_RETRY_EXC_ERR];
        let from = (since, "the RNR NAK that spent the retries");
        fails(qp, asking, (at, status), from, (within, proven), evidence);
    }
}

fn nak_fails<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let naks: Vec<&PeerResponse<'t>> = qp
        .answers
        .iter()
        .filter(|answer| answer.says == ResponseKind::Sequence && answer.is_of_seen)
        .collect();
    let is_alone = qp
        .answers
        .iter()
        .all(|answer| answer.says == ResponseKind::Sequence && answer.offset == Some(0));
    let (true, None, Some(post)) = (is_alone, qp.timeout(), qp.posts.first()) else {
        return;
    };
    let Some((since, proven)) = spent(qp, post, &naks, qp.retry_cnt()) else {
        return;
    };
    let evidence = naks.iter().map(|nak| Evidence::from(nak.frame)).collect();
    let status = &[WcStatus::RETRY_EXC_ERR];
    let from = (since, "the NAK that spent the retries");
    fails(qp, asking, (0, status), from, (EVENT_WAIT, proven), evidence);
}

fn retry_fails<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let (Some(_), Some((at, post))) = (qp.timeout(), unanswered(qp)) else {
        return;
    };
    let sent = qp.transmissions(post.first, usize::MAX);
    if is_flushed(qp, at) {
        return;
    }
    // The peer never responded, and the host reports reliably. A lost packet therefore does not explain a missing
    // completion.
    let from = waits_since(qp, at);
    // Each transmission may wait in the port before its timer starts.
    let queued = QUEUED * (qp.retry_cnt() + 1);
    let within = patience(qp, Duration::ZERO) + queued;
    let status = &[WcStatus::RETRY_EXC_ERR];
    fails(qp, asking, (at, status), from, (within, true), shown(&sent));
}

fn refusal_fails<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let naks = qp
        .answers
        .iter()
        .filter(|answer| answer.is_of_seen && !qp.is_stale(answer));
    let Some((nak, status)) = naks.filter_map(|nak| Some((nak, refuses(nak)?))).next() else {
        return;
    };
    let Some(at) = nak.offset.and_then(|offset| qp.post_of(offset)) else {
        return;
    };
    let with_data = |post: &WorkRequest<'_>| post.posted.has_response_data();
    let is_odd = qp
        .answers
        .iter()
        .any(|answer| answer.is_odd() && answer.place() < nak.place());
    if is_odd || qp.posts[..at].iter().any(with_data) {
        return;
    }
    // If the NAK skips earlier responses of its READ, the device may repeat the READ instead of failing it.
    let post = &qp.posts[at];
    let skips = nak
        .offset
        .is_some_and(|offset| with_data(post) && offset > post.first && !qp.has_had(post, offset, nak));
    let comes_again =
        |sent: &Request<'_>| sent.seen.place > nak.place() && sent.offset.is_some_and(|offset| post.has(offset));
    if skips && qp.requests.iter().any(comes_again) {
        return;
    }
    let arrived = qp.has_arrived(nak);
    let since = arrived.unwrap_or(nak.frame.at.latest);
    fails(
        qp,
        asking,
        (at, &[status]),
        (since, "the NAK"),
        (EVENT_WAIT, arrived.is_some()),
        vec![nak.frame.into()],
    );
}

fn bad_response_fails<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    const ALLOWED: [WcStatus; 2] = [WcStatus::LOC_LEN_ERR, WcStatus::BAD_RESP_ERR];
    for (next, answer) in (0u32..).zip(&qp.answers) {
        let Some(at) = answer
            .offset
            .filter(|offset| *offset == next)
            .and_then(|offset| qp.post_of(offset))
        else {
            return;
        };
        let is_read = qp.posts[at].posted.post.operation() == pb::Operation::Read;
        if !is_read || !matches!(answer.says, ResponseKind::Read(_)) || !answer.is_of_seen {
            return;
        }
        if !fits(qp, answer) {
            let from = (answer.frame.at.latest, "the response");
            let times = (EVENT_WAIT, qp.is_lossless());
            return fails(qp, asking, (at, &ALLOWED), from, times, vec![answer.frame.into()]);
        }
    }
}

/// Returns the end of the queue pair: the time from which on all requests must be flushed, the place, and the evidence.
///
/// A failed request ends the queue pair when its completion is reported. A command to ERR ends it when the host
/// replies. Otherwise a NAK of the device that ends the connection also ends the queue pair. On hardware,
/// `EVENT_WAIT` is added to the NAK's time, because the host's kernel may learn of the NAK late.
fn ended<'t>(qp: &QpTrace<'t>) -> Option<(Time, usize, Evidence<'t>)> {
    match (qp.failed(), qp.to_error) {
        (Some(failed), _) if failed.place() < qp.until => {
            Some((failed.done.event.at.latest, failed.place(), failed.done.event.into()))
        }
        (_, Some(to_error)) => {
            let (answered, ..) = to_error.answer.as_ref()?;
            Some((answered.latest, to_error.place, to_error.into()))
        }
        _ => {
            let mut responses = qp.responses();
            let nak = responses.find(|(parsed, _)| ResponseKind::of(parsed) == ResponseKind::Fatal);
            let grace = if qp.is_lossless() { Duration::ZERO } else { EVENT_WAIT };
            nak.map(|(_, frame)| (frame.at.latest.after(grace), frame.place, frame.into()))
        }
    }
}

fn flushed<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let Some((since, place, by)) = ended(qp) else { return };
    receives_flushed(qp, asking, (since, place, by));
    let has_failed = qp.failed().is_some_and(|failed| failed.place() == place);
    for (at, post) in qp.posts.iter().enumerate() {
        let completion: Vec<&Completion<'t>> = qp.completions_of(at).collect();
        let is_answered = qp
            .answers
            .iter()
            .any(|answer| may_acknowledge(answer, post.end) || answer.offset.is_some_and(|offset| post.has(offset)));
        // An unsignalled request that was answered may have completed without a report.
        let is_silent = !post.posted.post.signaled && is_answered;
        if completion.iter().any(|completion| completion.place() <= place) || is_silent && completion.is_empty() {
            continue;
        }
        // A request posted after the failure is flushed, too.
        let posted = match &post.posted.command.answer {
            Some((answered, ..)) => answered.latest,
            None => continue,
        };
        let due = since.max(posted).after(FLUSH);
        let mut within = qp.trace.timeline.commands_between(qp.dialogue.places).iter();
        let after = within.find(|done| {
            let is_due = done.side == Side::Dut && done.asked.earliest >= due;
            is_due && done.place <= qp.gone && done.answer.is_some()
        });
        let is_flush = |completion: &&Completion<'t>| {
            matches!(completion.done.status(), WcStatus::WR_FLUSH_ERR | WcStatus::SUCCESS)
        };
        let owed = match (completion.first(), after) {
            // A queue pair that was moved to the error state may have failed by itself just before.
            (Some(completion), _) if is_flush(completion) || !has_failed => Deadline::Met,
            (Some(completion), _) => qp
                .after(completion.done.event.at.latest)
                .map_or(Deadline::NotDue, Deadline::Unmet),
            (None, Some(after)) => Deadline::Unmet(after),
            (None, None) => Deadline::NotDue,
        };
        // The host reports over a reliable stream, so that no report can be lost.
        asking.owes(owed, true, [by], || {
            (
                post.in_words(),
                format!("its completion with {}", WcStatus::WR_FLUSH_ERR),
                in_words(&completion),
            )
        });
    }
}

/// Checks that unused receives, posted before the queue pair ended, are flushed. The rule `flushed-late` covers
/// receives posted in ERR.
fn receives_flushed<'t>(
    qp: &QpTrace<'t>,
    asking: &mut Asking<'_, 't>,
    (since, place, by): (Time, usize, Evidence<'t>),
) {
    let Some(commands) = commands(qp) else { return };
    let due = since.after(FLUSH);
    let is_alive = |done: &&&VerbsDone| done.asked.earliest >= due && done.place <= qp.gone && done.answer.is_some();
    let after = commands.iter().find(is_alive);
    let all = posted(qp, &commands);
    let before = all.iter().take_while(|(done, _)| done.place < place);
    for (at, (done, post)) in before.enumerate() {
        let owed = match (qp.received.get(at), after) {
            (Some(_), _) => Deadline::Met,
            (None, Some(after)) => Deadline::Unmet(after),
            (None, None) => Deadline::NotDue,
        };
        asking.owes(owed, true, [by, Evidence::from(*done)], || {
            (
                format!("receive wr_id {}", post.wr_id),
                format!("its completion with {}", WcStatus::WR_FLUSH_ERR),
                "none".into(),
            )
        });
    }
}

fn error_state<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let Some(failed) = qp.failed() else { return };
    let commands = qp
        .trace
        .timeline
        .commands
        .iter()
        .filter(|done| qp.is_within(done.place));
    for query in commands.filter(|done| done.side == Side::Dut && done.place > failed.place()) {
        let (Command::QueryQp(of), Some((_, _, Reply::Status(status), _))) = (&query.command, &query.answer) else {
            continue;
        };
        if of.qp != failed.done.completion.qp {
            continue;
        }
        let words = |state: pb::QpState| state.as_str_name().replace("QP_STATE_", "");
        let evidence = [Evidence::from(failed.done.event), query.into()];
        asking.must(status.state() == pb::QpState::Err, evidence, || {
            let about = format!("after {}: state of the queue pair", failed.done.in_words());
            (about, words(pb::QpState::Err), words(status.state()))
        });
    }
}
