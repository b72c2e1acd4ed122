//! Rules for required retransmissions: of packets that a sequence NAK reports as missing, of requests that an RNR
//! NAK refused, and of unanswered requests.
//!
//! Source: architecture 9.7.5.1.1 (NAKs), 9.7.5.2.8 (RNR NAKs), 9.7.6.1.3 (time-outs).

use core::time::Duration;

use verbatim_record::{Evidence, TRIES, Time, WcStatus, duration_words};
use verbatim_wire::packet::SyndromeKind;

use super::asking::{Asking, VerbsRule};
use super::errors::rnr_naks;
use super::next::fits;
use super::qp_trace::{Completion, PeerResponse, QpTrace, Request, WorkRequest, shown};
use super::requester_deadlines::{after, in_words, is_disturbed, patience};
use super::retry::causes;
use crate::rule::Rule;
use crate::rules::responder::ResponseKind;
use crate::words::counted;

pub(super) static RULES: &[(Rule, VerbsRule)] = &[
    (Rule::NakRetried, nak_retried),
    (Rule::NakResendsAll, nak_resends_all),
    (Rule::RnrRetried, rnr_retried),
    (Rule::OutstandingEnds, outstanding_ends),
    (Rule::TimeoutRetried, timeout_retried),
];

/// If a sequence NAK has the PSN of a READ or atomic, and all responses to that request were sent before the NAK,
/// returns the request. Such a NAK is outdated.
fn done_before<'p, 't>(qp: &'p QpTrace<'t>, answer: &PeerResponse<'_>) -> Option<&'p WorkRequest<'t>> {
    let offset = answer
        .offset
        .filter(|_| answer.is_of_seen && answer.says == ResponseKind::Sequence)?;
    let post = &qp.posts[qp.post_of(offset)?];
    let before = || qp.answers.iter().filter(|other| other.place() < answer.place());
    let is_answered = |at: u32| before().any(|other| other.offset == Some(at) && fits(qp, other));
    let is_done = post.posted.has_response_data() && (post.first..post.end).all(is_answered);
    is_done.then_some(post)
}

/// Returns the first PSN that must be retransmitted because of this response.
///
/// A response *skips* a READ or atomic if it has a later PSN than a missing response to that READ or atomic.
fn wants_again(qp: &QpTrace<'_>, answer: &PeerResponse<'_>) -> Option<u32> {
    let offset = answer.offset.filter(|_| answer.is_of_seen)?;
    let before = || qp.answers.iter().filter(|other| other.place() < answer.place());
    // A NAK of an acknowledged PSN requires no retransmission.
    let acknowledged = before().filter_map(PeerResponse::end).max().unwrap_or(0);
    let is_open = |post: &&WorkRequest<'_>| {
        let skips_all = post.end <= offset;
        let is_skipped = skips_all || post.has(offset) && matches!(answer.says, ResponseKind::Read(_));
        let until = post.end.min(offset);
        post.posted.has_response_data()
            && is_skipped
            && (post.first..until).any(|offset| !before().any(|other| other.offset == Some(offset) && fits(qp, other)))
    };
    let skipped = qp.posts.iter().find(is_open);
    let was_skipped = |post: &WorkRequest<'_>| {
        before().any(|other| {
            let is_gap = other
                .offset
                .is_some_and(|of| post.has(of) && other.is_of_seen && of >= offset);
            is_gap || other.end().is_some_and(|end| end >= post.end)
        })
    };
    match (skipped, answer.says) {
        (_, ResponseKind::Nothing | ResponseKind::Fatal | ResponseKind::Rnr) => None,
        // If an earlier response already skipped this request, this response requires no second retransmission.
        (Some(post), _) if was_skipped(post) => None,
        (Some(post), _) => Some(post.first),
        (None, ResponseKind::Sequence) if offset >= acknowledged && done_before(qp, answer).is_none() => Some(offset),
        _ => None,
    }
}

fn nak_retried<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let mut errors = 0;
    for answer in &qp.answers {
        let Some(from) = wants_again(qp, answer) else {
            if let Some(post) = done_before(qp, answer) {
                stays_done(qp, asking, answer, post);
            }
            continue;
        };
        errors += 1;
        let busy = rnr_naks_before(qp, answer.place());
        if errors > qp.retry_cnt() || has_spent_all(qp, from, answer) || busy || is_disturbed(qp, answer.place()) {
            continue;
        }
        let Some(post) = qp.post_of(from).map(|at| &qp.posts[at]) else {
            continue;
        };
        let is_read = post.posted.has_response_data();
        let again = qp.requests.iter().find(|sent| {
            let is_it = sent.offset == Some(from) || is_read && sent.offset.is_some_and(|offset| post.has(offset));
            is_it && sent.seen.place > answer.place()
        });
        // Each of several identical sequence NAKs requires a retransmission. Three of them without a retransmission
        // are therefore proof, even where packets can be lost. Three responses that skip the same request are no
        // proof, because only the first requires a retransmission.
        let asks_anew = answer.says == ResponseKind::Sequence && answer.offset == Some(from) && again.is_none();
        let third = thrice(qp, answer).filter(|_| asks_anew);
        let proven = qp.is_lossless() || third.is_some();
        let since = third.unwrap_or(answer.frame.at.latest);
        let met = again.map(|sent| sent.seen.frame.at.earliest);
        let owed = qp.owed(since, patience(qp, Duration::ZERO), met);
        asking.owes(owed, proven, [Evidence::from(answer.frame)], || {
            let psn = qp.dialogue.dut_psn.plus(from);
            let seen = again.map_or_else(|| "no retransmission".into(), |sent| sent.seen.packet.to_string());
            (
                post.in_words(),
                format!("a retransmission of PSN {psn} after {}", answer.packet),
                seen,
            )
        });
        if let Some(again) = again.filter(|_| answer.says == ResponseKind::Sequence && answer.offset == Some(from)) {
            first_again(qp, asking, (answer, from), again);
        }
    }
}

/// Returns whether the packet was sent so often before the NAK that all its retries may be spent.
fn has_spent_all(qp: &QpTrace<'_>, offset: u32, nak: &PeerResponse<'_>) -> bool {
    qp.transmissions(offset, nak.place()).len() > qp.retry_cnt() as usize
}

/// Checks that an outdated NAK does not make the device retransmit a READ or atomic that has all its responses.
/// Where responses can be lost, a retransmission proves nothing: the timer may have caused it.
fn stays_done<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>, answer: &PeerResponse<'t>, post: &WorkRequest<'t>) {
    let is_it = |sent: &&Request<'t>| sent.seen.place > answer.place() && sent.offset.is_some_and(|at| post.has(at));
    let again = qp.requests.iter().find(is_it);
    // A response that skipped this request may have started the retransmission before the request's own responses
    // came.
    let is_under_way = || causes(qp, post, answer.place()).errors > 0;
    if again.is_some() && (!qp.is_lossless() || is_under_way()) {
        return;
    }
    asking.must(again.is_none(), [Evidence::from(answer.frame)], || {
        let seen = again.map(|sent| sent.seen.packet.to_string()).unwrap_or_default();
        (
            post.in_words(),
            "no retransmission, since the request is complete".into(),
            seen,
        )
    });
}

/// Checks that the retransmission after a NAK starts with the PSN of the NAK, and not with a later PSN.
fn first_again<'t>(
    qp: &QpTrace<'t>,
    asking: &mut Asking<'_, 't>,
    (answer, from): (&PeerResponse<'t>, u32),
    again: &Request<'t>,
) {
    let comes_again = |sent: &&Request<'t>| {
        sent.offset
            .is_some_and(|offset| !qp.transmissions(offset, sent.seen.place).is_empty())
    };
    let mut repeated = qp.requests.iter().filter(comes_again);
    // If retransmissions began before the NAK, packets after the NAK may belong to them. Their order then proves
    // nothing.
    let Some(first) = repeated.next().filter(|first| first.seen.place > answer.place()) else {
        return;
    };
    let is_ahead = |sent: &&Request<'t>| {
        let is_before = sent.seen.place < again.seen.place
            && (qp.is_lossless() || sent.seen.frame.at.is_before(again.seen.frame.at));
        is_before && sent.offset.is_some_and(|offset| offset > from)
    };
    // A retransmission before `again` may have been lost. But the requester would have sent `again` only for a second
    // cause (a NAK or time-out). With a single cause, `again` is therefore the first retransmission.
    let has_one_reason = || {
        let Some(post) = qp.post_of(from).map(|at| &qp.posts[at]) else {
            return false;
        };
        qp.timeout().is_none() && causes(qp, post, again.seen.place).all() == 1
    };
    if !qp.is_lossless() && !has_one_reason() {
        return;
    }
    if let Some(ahead) = [first].into_iter().chain(repeated).find(is_ahead) {
        let evidence = [answer.frame, ahead.seen.frame, again.seen.frame].map(Evidence::from);
        asking.must(false, evidence, || {
            let psn = qp.dialogue.dut_psn.plus(from);
            let about = format!("after {}", answer.packet);
            (
                about,
                format!("PSN {psn} before later PSNs"),
                ahead.seen.packet.to_string(),
            )
        });
    }
}

/// Returns the time of the third copy of a response, if `answer` is the first copy.
fn thrice(qp: &QpTrace<'_>, answer: &PeerResponse<'_>) -> Option<Time> {
    let mut copies = qp
        .answers
        .iter()
        .filter(|other| other.frame.bytes == answer.frame.bytes);
    let is_first = copies
        .clone()
        .next()
        .is_some_and(|first| first.place() == answer.place());
    copies
        .nth(TRIES as usize - 1)
        .filter(|_| is_first)
        .map(|third| third.frame.at.latest)
}

/// Checks that all packets sent after the missing packet are also retransmitted.
fn nak_resends_all<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let naks = qp.answers.iter().filter(|answer| answer.says == ResponseKind::Sequence);
    let mut naks = naks.filter(|answer| wants_again(qp, answer).is_some());
    let (Some(nak), None) = (naks.next(), naks.next()) else {
        return;
    };
    if qp.retry_cnt() == 0 || rnr_naks_before(qp, nak.place()) || is_disturbed(qp, usize::MAX) {
        return;
    }
    let Some(from) = wants_again(qp, nak).filter(|from| !has_spent_all(qp, *from, nak)) else {
        return;
    };
    let sent_before = qp.requests.iter().filter(|sent| sent.seen.place < nak.place());
    let last = sent_before.filter_map(|sent| sent.offset).max().unwrap_or(from);
    for offset in from..=last {
        let times = qp.transmissions(offset, usize::MAX);
        // No packet has this PSN: a READ is one packet, but takes a PSN for each of its responses.
        if times.is_empty() {
            continue;
        }
        let again = times.iter().find(|sent| sent.seen.place > nak.place());
        let answered = qp
            .answers
            .iter()
            .find(|answer| answer.place() > nak.place() && answer.end().is_some_and(|end| end > offset));
        let came = again.map(|sent| sent.seen.frame.at.earliest);
        let met = came
            .into_iter()
            .chain(answered.map(|answer| answer.frame.at.earliest))
            .min();
        // If the last retransmitted packet has an earlier PSN and requests an ACK, the requester may wait for that
        // ACK before it sends this PSN.
        let until = answered.map_or(usize::MAX, PeerResponse::place);
        let mut after = qp
            .requests
            .iter()
            .filter(|sent| sent.seen.place > nak.place() && sent.seen.place < until);
        let waits = after.next_back().is_some_and(|last| {
            let asks = last.seen.packet.bth().ack_request() && last.offset.is_some_and(|last| last < offset);
            let mut behind = qp
                .answers
                .iter()
                .filter(|answer| answer.place() > last.seen.place && answer.place() < until);
            asks && !behind.any(|answer| answer.end() > last.offset)
        });
        if waits {
            continue;
        }
        let owed = qp.owed(nak.frame.at.latest, patience(qp, Duration::ZERO), met);
        asking.owes(owed, qp.is_lossless(), [Evidence::from(nak.frame)], || {
            let psn = qp.dialogue.dut_psn.plus(offset);
            (
                "packets behind the missing one".into(),
                format!("a retransmission of PSN {psn}"),
                "no retransmission".into(),
            )
        });
    }
}

fn rnr_naks_before(qp: &QpTrace<'_>, place: usize) -> bool {
    qp.answers
        .iter()
        .any(|answer| answer.says == ResponseKind::Rnr && answer.place() < place)
}

pub(super) fn interval(answer: &PeerResponse<'_>) -> Duration {
    match answer.syndrome.map(|syndrome| syndrome.kind()) {
        Some(SyndromeKind::RnrNak(timer)) => timer.duration(),
        _ => Duration::ZERO,
    }
}

fn rnr_retried<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    for answer in qp
        .answers
        .iter()
        .filter(|answer| answer.says == ResponseKind::Rnr && answer.is_of_seen)
    {
        let Some(post) = answer
            .offset
            .and_then(|offset| qp.post_of(offset))
            .map(|at| &qp.posts[at])
        else {
            continue;
        };
        let naks = rnr_naks(qp, post, answer.place() + 1);
        // An RNR NAK requires nothing if an earlier response acknowledged the request, or if any response other than
        // an RNR NAK followed.
        let before = qp.answers.iter().take_while(|other| other.place() < answer.place());
        let acknowledged = qp
            .answers
            .iter()
            .any(|other| other.place() > answer.place() && other.says != ResponseKind::Rnr);
        if qp.rnr_retry() < 7 && naks.len() > qp.rnr_retry() as usize
            || acknowledged
            || before.filter_map(PeerResponse::end).max() > answer.offset
            || is_disturbed(qp, answer.place())
        {
            continue;
        }
        let again = qp
            .requests
            .iter()
            .find(|sent| sent.offset == answer.offset && sent.seen.place > answer.place());
        // Each RNR NAK requires a retransmission. Three identical RNR NAKs without a retransmission are therefore
        // proof, even where packets can be lost.
        let third = thrice(qp, answer).filter(|_| again.is_none() && qp.rnr_retry() >= TRIES);
        let since = third.unwrap_or(answer.frame.at.latest);
        let came = again.map(|sent| sent.seen.frame.at.earliest);
        // A step to SQD is no excuse: in SQD, the device still retransmits requests that it sent before.
        let owed = qp.owed_before(qp.deaf, (since, patience(qp, interval(answer))), came);
        let proven = qp.is_lossless() || third.is_some();
        asking.owes(owed, proven, [Evidence::from(answer.frame)], || {
            let seen = again.map_or_else(|| "no retransmission".into(), |sent| sent.seen.packet.to_string());
            (
                post.in_words(),
                format!("a retransmission after {}", answer.packet),
                seen,
            )
        });
    }
}

/// Checks that an outstanding request ends if the timer is on and no further response comes. The device must
/// retransmit the request until its retries are spent, and then complete it with an error.
fn outstanding_ends<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let open = (0..qp.posts.len()).find(|at| !qp.completions_of(*at).any(Completion::is_success));
    let (Some(_), Some(at)) = (qp.timeout(), open) else {
        return;
    };
    let post = &qp.posts[at];
    let is_of_it = |offset: Option<u32>| offset.is_some_and(|offset| post.has(offset));
    let last = qp.requests.iter().rev().find(|sent| is_of_it(sent.offset));
    let is_answered = |answer: &PeerResponse<'_>| {
        // A READ ends with its last response.
        let has_data = post.posted.has_response_data() && answer.offset == Some(post.end - 1);
        let is_nak = matches!(answer.says, ResponseKind::Rnr | ResponseKind::Sequence);
        answer.end().is_some_and(|end| end >= post.end) || has_data && !is_nak
    };
    let ends = qp.answers.iter().any(is_answered) || is_disturbed(qp, usize::MAX);
    let Some(last) = last.filter(|_| post.posted.post.signaled && !ends) else {
        return;
    };
    let said = qp.answers.last().map(|answer| answer.frame.at.latest);
    let since = said.map_or(last.seen.frame.at.latest, |said| said.max(last.seen.frame.at.latest));
    let put_off = qp.answers.iter().filter(|answer| answer.says == ResponseKind::Rnr);
    let within = patience(qp, put_off.map(interval).max().unwrap_or_default());
    let completion: Vec<&Completion<'t>> = qp.completions_of(at).collect();
    let came = completion.first().map(|completion| completion.done.event.at.earliest);
    let owed = qp.owed_before(qp.deaf, (since, within), came);
    // Loss is no excuse here: the host reports completions over a reliable stream, and the retry timer needs no
    // packet from the tester.
    asking.owes(owed, true, [Evidence::from(last.seen.frame)], || {
        let longest = within;
        let within = duration_words(within);
        let expected = format!("a retransmission or an error within {within} of the last event of the request");
        (
            post.in_words(),
            expected,
            in_words(&completion) + &after(since, came, longest),
        )
    });
}

/// Returns whether a request was flushed on a connection on which the peer also sent requests. A lost NAK may
/// explain the flush: the device may have refused a request of the peer, which ends the queue pair.
pub(super) fn is_flushed(qp: &QpTrace<'_>, at: usize) -> bool {
    let is_flush = |completion: &Completion<'_>| completion.done.status() == WcStatus::WR_FLUSH_ERR;
    qp.asked().next().is_some() && qp.completions_of(at).any(is_flush)
}

/// Returns the oldest incomplete request, if it was sent and the peer has sent no response since the request was
/// posted. ACKs that cover only earlier requests do not count as responses.
pub(super) fn unanswered<'a, 't>(qp: &'a QpTrace<'t>) -> Option<(usize, &'a WorkRequest<'t>)> {
    let at = (0..qp.posts.len()).find(|at| !qp.completions_of(*at).any(Completion::is_success))?;
    let post = &qp.posts[at];
    let is_stale = |answer: &PeerResponse<'_>| {
        answer.says == ResponseKind::Ack && answer.end().is_some_and(|end| end <= post.first)
    };
    let mut later = qp.answers.iter().filter(|answer| answer.place() > post.place());
    let answered = later.any(|answer| !is_stale(answer));
    let sent = qp.requests.iter().any(|sent| sent.offset == Some(post.first));
    (!answered && sent).then_some((at, post))
}

/// Returns the latest time at which an unanswered request can have begun to wait, and the event at that time in
/// words. The event is the post, an earlier completion or response, or the request's first packet. The first packet
/// counts because a request posted in SQD is sent long after its post.
pub(super) fn waits_since(qp: &QpTrace<'_>, at: usize) -> (Time, &'static str) {
    let post = &qp.posts[at];
    let posted = post.posted.command.asked.latest;
    let before = qp
        .completions
        .iter()
        .filter(|completion| completion.post.is_some_and(|of| of < at));
    let done = before.map(|completion| (completion.done.event.at.latest, "the completion before it"));
    let answers = qp.answers.iter();
    let answered = answers.map(|answer| (answer.frame.at.latest, "the response before it"));
    let seen = qp.transmissions(post.first, usize::MAX).into_iter().take(1);
    let sent = seen.map(|sent| (sent.seen.frame.at.latest, "its first packet"));
    let all = done.chain(answered).chain(sent).chain([(posted, "its post")]);
    all.max_by_key(|(at, _)| *at).unwrap_or((posted, "its post"))
}

fn timeout_retried<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let (Some(_), Some((at, post))) = (qp.timeout(), unanswered(qp)) else {
        return;
    };
    if qp.retry_cnt() == 0 || is_flushed(qp, at) {
        return;
    }
    let sent = qp.transmissions(post.first, usize::MAX);
    let later = qp
        .requests
        .iter()
        .filter(|sent| sent.offset.is_some_and(|offset| offset >= post.end));
    // A retry repeats later requests, too. A single retransmission of later requests proves nothing: the
    // retransmission of this request may have been lost.
    let rounds = later
        .map(|sent| qp.transmissions(sent.offset.unwrap_or(0), sent.seen.place).len())
        .max()
        .unwrap_or(0);
    let completion: Vec<&Completion<'t>> = qp.completions_of(at).collect();
    let within = patience(qp, Duration::ZERO);
    let again = sent.get(1).map(|again| again.seen.frame.at.earliest);
    // A lost packet does not explain that both the retry and the error are missing. Nor does it explain that later
    // requests were retransmitted twice, and this request never.
    let error = completion.first().map(|completion| completion.done.event.at.earliest);
    let (since, words) = waits_since(qp, at);
    let owed = qp.owed(
        since,
        within,
        again.or(error.filter(|_| rounds < 2 && !qp.is_lossless())),
    );
    asking.owes(owed, true, shown(&sent), || {
        let expected = format!("a retry, or an error, within {} of {words}", duration_words(within));
        let sent = again.map_or_else(
            || counted(sent.len(), "transmission"),
            |_| {
                format!(
                    "{}, the second{}",
                    counted(sent.len(), "transmission"),
                    after(since, again, within)
                )
            },
        );
        (
            post.in_words(),
            expected,
            format!("{sent}; completions: {}", in_words(&completion)),
        )
    });
}
