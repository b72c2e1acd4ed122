//! Rules for the device's requests: each packet belongs to a posted request, and READs and atomics in flight are
//! limited.
//!
//! Source: architecture 9.7.3 (request generation), 9.4 (operations), 10.8.3 (fence), 11.2.4 (max_rd_atomic).

use core::fmt::Display;
use core::time::Duration;

use verbatim_record::{Evidence, FrameSeen, Passed, Span};
use verbatim_wire::packet::Psn;

use super::asking::{Asking, VerbsRule};
use super::next::fits;
use super::qp_trace::{Asked, EVENT_WAIT, QpTrace, Request, WorkRequest, shown};
use crate::parsed::{Parsed, QUEUED};
use crate::rc::seen_in_words;
use crate::rule::Rule;
use crate::rules::responder::ResponseKind;

/// Shortest silence after an error that counts as evidence.
const LISTENED: Duration = Duration::from_secs(1);

pub(super) static RULES: &[(Rule, VerbsRule)] = &[
    (Rule::Posted, posted),
    (Rule::InOrder, in_order),
    (Rule::AckRequested, ack_requested),
    (Rule::InFlight, in_flight),
    (Rule::Fence, fence),
    (Rule::AfterError, after_error),
];

fn posted<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    for request in &qp.requests {
        let (seen, payload) = (&request.seen, request.seen.packet.payload());
        let found = request
            .offset
            .and_then(|offset| Some((offset, &qp.posts[qp.post_of(offset)?])));
        let Some((offset, post)) = found else {
            asking.must(false, [seen.frame.into()], || {
                let expected = "a PSN of a posted request".into();
                ("request".into(), expected, seen.packet.to_string())
            });
            continue;
        };
        let (words, length, data) = post.posted.packet(offset - post.first, qp.mtu);
        let bytes = match data {
            Some(data) if data != payload => "with other contents",
            _ => "as posted",
        };
        let expected = format!("{words}, {length} bytes as posted");
        let found = format!("{}, {} bytes {bytes}", seen_in_words(&seen.packet), payload.len());
        asking.must(expected == found, [seen.frame.into()], || {
            (post.in_words(), expected, found)
        });
    }
}

fn in_order<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let mut next = 0;
    for request in &qp.requests {
        let found = request
            .offset
            .and_then(|offset| Some((offset, &qp.posts[qp.post_of(offset)?])));
        let Some((offset, post)) = found else { continue };
        let end = if post.posted.has_response_data() {
            post.end
        } else {
            offset + 1
        };
        if end <= next {
            continue;
        }
        let result = match offset <= next {
            true => Passed::Pass,
            false if qp.is_lossless() => Passed::Fail,
            false => Passed::Inconclusive,
        };
        asking.say(result, [request.seen.frame.into()], || {
            let expected = format!("PSN {}", qp.dialogue.dut_psn.plus(next));
            (post.in_words(), expected, request.seen.packet.to_string())
        });
        next = end;
    }
}

fn ack_requested<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    for request in &qp.requests {
        let posted_by_then = qp.posts.iter().rfind(|post| post.place() < request.seen.place);
        let is_last =
            |post: &&WorkRequest<'_>| request.offset == Some(post.end - 1) && !post.posted.has_response_data();
        let Some(post) = posted_by_then.filter(is_last) else {
            continue;
        };
        let asks = request.seen.packet.bth().ack_request();
        asking.must(asks, [request.seen.frame.into()], || {
            (
                post.in_words(),
                "AckReq in the last packet".into(),
                request.seen.packet.to_string(),
            )
        });
    }
    stops(qp, asking);
}

/// Checks that a requester which stops within a message has requested an acknowledgement. Applies to lossless links,
/// with the timeout off and no failed request.
fn stops<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    if !qp.is_lossless() || qp.timeout().is_some() || qp.failed().is_some() {
        return;
    }
    for (at, request) in qp.requests.iter().enumerate() {
        let next = qp.requests.get(at + 1).map(|next| next.seen.frame.at.earliest);
        let until = next.into_iter().chain(qp.ends_at()).min();
        let stops = until.is_some_and(|until| until.since(request.seen.frame.at.latest) >= EVENT_WAIT);
        let found = request
            .offset
            .and_then(|offset| Some((offset, &qp.posts[qp.post_of(offset)?])));
        let Some((offset, post)) = found.filter(|_| stops && request.seen.place < qp.until) else {
            continue;
        };
        let before: Vec<_> = qp
            .answers
            .iter()
            .filter(|answer| answer.place() < request.seen.place)
            .collect();
        let is_plain = before.iter().all(|answer| answer.says == ResponseKind::Ack);
        if post.posted.has_response_data() || offset + 1 == post.end || !is_plain {
            continue;
        }
        let acknowledged = before.iter().filter_map(|answer| answer.end()).max().unwrap_or(0);
        let asks = qp.requests[..=at].iter().any(|sent| {
            sent.seen.packet.bth().ack_request() && sent.offset.is_some_and(|offset| offset >= acknowledged)
        });
        asking.must(asks, [request.seen.frame.into()], || {
            let expected = "AckReq in an unacknowledged packet, since no packet follows".into();
            (post.in_words(), expected, request.seen.packet.to_string())
        });
    }
}

/// Returns the READs and atomics that were sent before a place and still lacked a response there, each with its first
/// packet.
fn unanswered<'a, 't>(qp: &'a QpTrace<'t>, until: usize) -> Vec<(&'a WorkRequest<'t>, &'a Request<'t>)> {
    let before = qp
        .answers
        .iter()
        .filter(|answer| answer.place() < until && fits(qp, answer));
    let answered: Vec<u32> = before.filter_map(|answer| answer.offset).collect();
    let with_data = qp.posts.iter().filter(|post| post.posted.has_response_data());
    with_data
        .filter(|post| (post.first..post.end).any(|offset| !answered.contains(&offset)))
        .filter_map(|post| {
            let first = qp
                .requests
                .iter()
                .find(|sent| sent.offset.is_some_and(|offset| post.has(offset)))?;
            (first.seen.place < until).then_some((post, first))
        })
        .collect()
}

/// Returns each request that was sent, with its first packet.
fn firsts<'a, 't>(qp: &'a QpTrace<'t>) -> impl Iterator<Item = (&'a WorkRequest<'t>, &'a Request<'t>)> {
    qp.posts.iter().filter_map(|post| {
        let of_it = |sent: &&Request<'t>| sent.offset.is_some_and(|offset| post.has(offset));
        qp.requests.iter().find(of_it).map(|first| (post, first))
    })
}

fn psns<'a>(of: impl Iterator<Item = impl Display + 'a>) -> String {
    of.map(|psn| psn.to_string()).collect::<Vec<_>>().join(", ")
}

fn in_flight<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let Some(limit) = qp.dialogue.attributes.max_rd_atomic else {
        return;
    };
    for (_, first) in firsts(qp).filter(|(post, _)| post.posted.has_response_data()) {
        let open = unanswered(qp, first.seen.place + 1);
        let sent: Vec<&Request<'t>> = open.iter().map(|(_, sent)| *sent).collect();
        // A case below the limit does not exercise the rule.
        let held_back = || qp.posts.iter().filter(|post| post.posted.has_response_data()).count() > limit as usize;
        if open.len() < limit as usize || !held_back() {
            continue;
        }
        asking.must(open.len() <= limit as usize, shown(&sent), || {
            let about = format!("READs and atomics in flight, max_rd_atomic {limit}");
            let seen = psns(sent.iter().map(|sent| sent.seen.psn()));
            (about, format!("at most {limit}"), format!("{}: PSN {seen}", open.len()))
        });
    }
}

fn fence<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    for (post, first) in firsts(qp).filter(|(post, _)| post.posted.post.fence) {
        let is_in_front = |other: &WorkRequest<'_>| other.end <= post.first;
        if !qp
            .posts
            .iter()
            .any(|other| is_in_front(other) && other.posted.has_response_data())
        {
            continue;
        }
        let mut open = unanswered(qp, first.seen.place);
        open.retain(|(other, _)| is_in_front(other));
        let evidence = open.iter().map(|(_, sent)| Evidence::from(sent.seen.frame));
        asking.must(open.is_empty(), evidence.chain([first.seen.frame.into()]), || {
            let expected = "no packet before all earlier READs and atomics are answered".into();
            let seen = format!(
                "{}, with PSN {} unanswered",
                first.seen.packet,
                psns(open.iter().map(|(_, sent)| sent.seen.psn()))
            );
            (format!("{}, fenced", post.in_words()), expected, seen)
        });
    }
}

/// Of the packets after an error, returns the first that follows a pause. Packets before the pause may come from
/// the port's queue.
fn behind_the_queue<'a, 't>(behind: &[&'a Request<'t>], completion: Span, pause: Duration) -> Option<&'a Request<'t>> {
    let mut before = completion;
    for sent in behind {
        if sent.seen.frame.at.since(before).0 > pause {
            return Some(sent);
        }
        before = sent.seen.frame.at;
    }
    None
}

/// Returns the end of the queue pair, by a failed request or the step to ERR: time, place, evidence, and words.
fn end_of<'t>(qp: &QpTrace<'t>) -> Option<(Span, usize, Evidence<'t>, String)> {
    if let Some(failed) = qp.failed() {
        let (completion, words) = (failed.done.event, failed.done.in_words());
        return Some((completion.at, failed.place(), completion.into(), words));
    }
    let to_error = qp.to_error?;
    let (answered, ..) = to_error.answer.as_ref()?;
    Some((*answered, to_error.place, to_error.into(), "the step to ERR".into()))
}

/// Checks that a queue pair in ERR does not answer requests sent after the error was reported.
fn unanswered_behind<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let Some((_, place, by, words)) = end_of(qp) else {
        return;
    };
    let asked: Vec<Asked<'_>> = qp.asked().collect();
    let (before, behind): (Vec<_>, Vec<_>) = asked.iter().partition(|(_, _, sent)| sent.place < place);
    if behind.is_empty() {
        return;
    }
    let has = |all: &[&Asked<'_>], psn: Psn| all.iter().any(|(_, request, _)| request.psn == psn);
    let is_late = |(parsed, frame): &(Parsed<'t>, &'t FrameSeen)| {
        frame.place > place && has(&behind, parsed.psn) && !has(&before, parsed.psn)
    };
    let late = qp.responses().find(is_late).map(|(_, frame)| frame);
    let evidence = [by].into_iter().chain(late.map(Evidence::from));
    asking.must(late.is_none(), evidence, || {
        let seen = late.map(FrameSeen::in_words).unwrap_or_default();
        (
            format!("requests behind {words}"),
            "no response: the queue pair is in ERR".into(),
            seen,
        )
    });
}

fn after_error<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    unanswered_behind(qp, asking);
    let Some((completion, place, by, words)) = end_of(qp) else {
        return;
    };
    // Packets that left before the failure may still be on their way.
    let path = qp.path().map(|path| path + qp.pipeline());
    let is_behind = |sent: &&Request<'t>| sent.seen.place > place && completion.is_before(sent.seen.frame.at);
    let behind: Vec<&Request<'t>> = qp.requests.iter().filter(is_behind).collect();
    let later = behind_the_queue(&behind, completion, path.unwrap_or_default().max(QUEUED));
    // After a step to ERR, the tester observes the queue pair until its destruction.
    let alive = qp.after(completion.latest.after(LISTENED));
    let listened = match qp.to_error {
        Some(_) => alive.is_some_and(|done| done.place <= qp.gone),
        None => qp.ends_at().is_some_and(|end| end.since(completion.latest) >= LISTENED),
    };
    let result = match later {
        Some(_) if path.is_some() => Passed::Fail,
        Some(_) => Passed::Inconclusive,
        // Without a known transit time, packets after the error may have left before it, and prove nothing.
        None if path.is_none() && !behind.is_empty() => return,
        None if listened => Passed::Pass,
        None => return,
    };
    let evidence = later.map(|sent| Evidence::from(sent.seen.frame));
    asking.say(result, [by].into_iter().chain(evidence), || {
        let seen = later.map(|sent| sent.seen.packet.to_string());
        (format!("after {words}"), "no packet".into(), seen.unwrap_or_default())
    });
}
