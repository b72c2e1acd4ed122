//! Rules for completions: the responses that allow them, and their fields.
//!
//! Source: architecture 9.7.6 (acknowledgements and completions), 9.7.5.1.1 (NAKs), 9.9.2 (requester errors), 10.7.3
//! (work completions); Linux rxe and rdmavt.

use verbatim_record::verbs::pb;
use verbatim_record::{Evidence, duration_words};
use verbatim_wire::verbs::WcOpcode;

use super::asking::{Asking, VerbsRule};
use super::next::{expected, fits, is_read};
use super::qp_trace::{Completion, EVENT_WAIT, PeerResponse, QpTrace, Request, WorkRequest};
use super::retry::causes;
use crate::rule::Rule;
use crate::rules::responder::ResponseKind;

pub(super) static RULES: &[(Rule, VerbsRule)] = &[
    (Rule::CompletedBy, completed_by),
    (Rule::ResponsesMissing, responses_missing),
    (Rule::ResponsesOdd, responses_odd),
    (Rule::Skipped, skipped),
    (Rule::CompletionOrder, completion_order),
    (Rule::CompletionFields, completion_fields),
    (Rule::Unsignalled, unsignalled),
];

pub(super) fn words(
    completion: &Completion<'_>,
    post: &WorkRequest<'_>,
    expected: impl Into<String>,
) -> (String, String, String) {
    (post.in_words(), expected.into(), completion.done.in_words())
}

/// Returns the completions of known requests, each with its request.
pub(super) fn known<'a, 't>(qp: &'a QpTrace<'t>) -> impl Iterator<Item = (&'a Completion<'t>, &'a WorkRequest<'t>)> {
    let completion = qp.completions.iter();
    completion.filter_map(|completion| Some((completion, &qp.posts[completion.post?])))
}

/// Returns whether a response may acknowledge the packets of a SEND or WRITE before the PSN `end`.
pub(super) fn may_acknowledge(answer: &PeerResponse<'_>, end: u32) -> bool {
    !answer.is_odd() && answer.end().is_some_and(|until| until >= end)
}

/// Returns the first PSN offset of a READ or atomic that has no matching response before the place `until`.
fn missing(qp: &QpTrace<'_>, post: &WorkRequest<'_>, until: usize) -> Option<u32> {
    let within = qp
        .answers
        .iter()
        .filter(|answer| (post.place()..until).contains(&answer.place()));
    let answered: Vec<u32> = within
        .filter(|answer| fits(qp, answer))
        .filter_map(|answer| answer.offset)
        .collect();
    (post.first..post.end).find(|offset| !answered.contains(offset))
}

fn completed_by<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    for (completion, post) in known(qp).filter(|(completion, _)| completion.is_success()) {
        let psn = |offset| qp.dialogue.dut_psn.plus(offset);
        let before = |answer: &&PeerResponse<'_>| answer.place() > post.place() && answer.place() < completion.place();
        let mut answers = qp.answers.iter().filter(before);
        let (answer, wanted) = if post.posted.has_response_data() {
            let wanted =
                missing(qp, post, completion.place()).map(|missing| format!("its response with PSN {}", psn(missing)));
            (answers.find(|answer| answer.offset == Some(post.end - 1)), wanted)
        } else {
            let answer = answers.find(|answer| may_acknowledge(answer, post.end));
            let wanted = answer.is_none().then(|| format!("an ACK of PSN {}", psn(post.end - 1)));
            (answer, wanted)
        };
        let last = || qp.answers.iter().rfind(before);
        let by = answer.or_else(last).map(|answer| Evidence::from(answer.frame));
        asking.must(
            wanted.is_none(),
            by.into_iter().chain([completion.done.event.into()]),
            || {
                words(
                    completion,
                    post,
                    format!("no success before {}", wanted.unwrap_or_default()),
                )
            },
        );
    }
    stays_outstanding(qp, asking);
}

/// Checks that no READ or atomic succeeds while one of its responses is missing. Applies to a request only if a
/// response for which `concern` is true came before the request completed.
fn without_response<'t>(
    qp: &QpTrace<'t>,
    asking: &mut Asking<'_, 't>,
    concern: impl Fn(&PeerResponse<'t>, &WorkRequest<'t>) -> bool,
) {
    for (at, post) in qp
        .posts
        .iter()
        .enumerate()
        .filter(|(_, post)| post.posted.has_response_data())
    {
        let completion = qp.completions_of(at).next();
        let until = completion.map_or(usize::MAX, Completion::place);
        let before = qp
            .answers
            .iter()
            .filter(|answer| (post.place()..until).contains(&answer.place()));
        let Some(answer) = before.into_iter().find(|answer| concern(answer, post)) else {
            continue;
        };
        let succeeded = completion.filter(|completion| completion.is_success());
        let missing = succeeded.and_then(|completion| missing(qp, post, completion.place()));
        let evidence = [Evidence::from(answer.frame)].into_iter();
        asking.must(
            missing.is_none(),
            evidence.chain(completion.map(|completion| completion.done.event.into())),
            || {
                let psn = qp.dialogue.dut_psn.plus(missing.unwrap_or_default());
                let seen = completion
                    .map(|completion| completion.done.in_words())
                    .unwrap_or_default();
                (
                    post.in_words(),
                    format!("no success without its response with PSN {psn}"),
                    seen,
                )
            },
        );
    }
}

fn responses_missing<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    without_response(qp, asking, |answer, post| {
        let of_it = answer
            .offset
            .filter(|offset| post.has(*offset) && matches!(answer.says, ResponseKind::Read(_)));
        let is_gap =
            of_it.is_some_and(|offset| missing(qp, post, answer.place()).is_some_and(|missing| missing < offset));
        is_gap || of_it.is_some() && !fits(qp, answer)
    });
}

fn responses_odd<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    for (completion, post) in known(qp).filter(|(completion, post)| completion.is_success() && is_read(post)) {
        // A READ that was sent again may have resumed at any of its PSNs, so that any position is legal.
        let of_it = |sent: &&Request<'t>| sent.offset.is_some_and(|offset| post.has(offset));
        let times = qp.requests.iter().filter(of_it).count();
        let has_one = qp.is_lossless() || qp.timeout().is_none() && causes(qp, post, completion.place()).all() == 0;
        // The rule `completed-by` covers a missing response.
        if times != 1 || !has_one || missing(qp, post, completion.place()).is_some() {
            continue;
        }
        let in_place = |offset: u32| {
            let mut before = qp.answers.iter().filter(|answer| answer.place() < completion.place());
            before.any(|answer| {
                answer.offset == Some(offset)
                    && fits(qp, answer)
                    && answer.says == ResponseKind::Read(expected(post, offset))
            })
        };
        let odd = (post.first..post.end).find(|offset| !in_place(*offset));
        asking.must(odd.is_none(), [Evidence::from(completion.done.event)], || {
            let psn = qp.dialogue.dut_psn.plus(odd.unwrap_or_default());
            let part = expected(post, odd.unwrap_or_default());
            words(
                completion,
                post,
                format!("no success without READ Response {part:?} with PSN {psn}"),
            )
        });
    }
}

fn skipped<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    without_response(qp, asking, |answer, post| {
        let is_behind = answer.offset.is_some_and(|offset| offset >= post.end);
        is_behind && missing(qp, post, answer.place()).is_some()
    });
}

/// Returns whether a response may answer a request, directly or because it answers a later request.
fn speaks_of(answer: &PeerResponse<'_>, post: &WorkRequest<'_>) -> bool {
    let is_direct = answer.offset.is_some_and(|offset| post.has(offset));
    is_direct && (answer.says != ResponseKind::Ack || !post.posted.has_response_data())
        || may_acknowledge(answer, post.end)
}

/// Notes each request that stayed outstanding for at least [`EVENT_WAIT`] after a response that must not complete the
/// request.
fn stays_outstanding<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    for answer in &qp.answers {
        for (at, post) in qp.posts.iter().enumerate() {
            let was_sent = qp
                .requests
                .iter()
                .any(|sent| sent.offset.is_some_and(|offset| post.has(offset)) && sent.seen.place < answer.place());
            let mut later = qp.answers.iter().filter(|other| other.place() > answer.place());
            let next = later
                .find(|other| speaks_of(other, post))
                .map(|other| other.frame.at.earliest);
            let completion = qp
                .completions_of(at)
                .next()
                .map(|completion| completion.done.event.at.earliest);
            let lasted = next.into_iter().chain(completion).min();
            let lasts = lasted
                .or_else(|| qp.ends_at())
                .map(|end| end.since(answer.frame.at.latest));
            let partly = answer.end().is_some_and(|end| end > post.first);
            if let Some(lasts) = lasts.filter(|lasts| *lasts >= EVENT_WAIT && was_sent)
                && (partly || !speaks_of(answer, post))
            {
                let words = format!("{} stayed outstanding for {}", post.in_words(), duration_words(lasts));
                asking.held(words, [answer.frame.into()]);
            }
        }
    }
}

fn completion_order<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let mut next = 0;
    for completion in &qp.completions {
        // An unsignalled request has a completion only if it fails.
        let silent = |post: &WorkRequest<'_>| {
            !post.posted.post.signaled && completion.post.is_some_and(|at| qp.posts[at].wr_id() != post.wr_id())
        };
        while qp.posts.get(next).is_some_and(silent) {
            next += 1;
        }
        let is_so = completion.post == Some(next);
        asking.must(is_so, [Evidence::from(completion.done.event)], || {
            let expected = qp.posts.get(next).map_or_else(
                || "no further completion".into(),
                |post| format!("the completion of {}", post.in_words()),
            );
            ("completion".into(), expected, completion.done.in_words())
        });
        if let Some(at) = completion.post {
            next = next.max(at + 1);
        }
    }
}

/// Checks that no unsignalled request succeeds. Other rules demand the completions of failed and flushed requests.
fn unsignalled<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    for (completion, post) in known(qp).filter(|(_, post)| !post.posted.post.signaled) {
        asking.must(
            !completion.is_success(),
            [Evidence::from(completion.done.event)],
            || words(completion, post, "no successful completion of an unsignalled request"),
        );
    }
}

fn completion_fields<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    use pb::Operation as O;
    for (completion, post) in known(qp).filter(|(completion, _)| completion.is_success()) {
        let operation = post.posted.post.operation();
        let opcode = match operation {
            O::Unspecified => continue,
            O::Send | O::SendImm | O::SendInvalidate => WcOpcode::SEND,
            O::Write | O::WriteImm => WcOpcode::RDMA_WRITE,
            O::Read => WcOpcode::RDMA_READ,
            O::CompareSwap => WcOpcode::COMP_SWAP,
            O::FetchAdd => WcOpcode::FETCH_ADD,
        };
        let length = post.posted.post.local.map_or(0, |local| local.length);
        let bytes = post.posted.has_response_data().then_some(length);
        let of = completion.done.completion;
        let is_so = of.opcode == opcode.0 && bytes.is_none_or(|bytes| of.byte_len == bytes);
        asking.must(is_so, [Evidence::from(completion.done.event)], || {
            let of_bytes = |bytes: u32| format!(", {bytes} bytes");
            let expected = format!("{opcode}{}", bytes.map(of_bytes).unwrap_or_default());
            let seen_bytes = bytes.map(|_| of_bytes(of.byte_len)).unwrap_or_default();
            (
                post.in_words(),
                expected,
                format!("{}{seen_bytes}", WcOpcode(of.opcode)),
            )
        });
    }
}
