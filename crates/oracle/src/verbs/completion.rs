//! Rules of completions: what allowed each, and what it says.
//!
//! Source: architecture 9.7.6 (acknowledgements and completions), 9.7.5.1.1 (NAKs), 9.9.2 (requester errors), 10.7.3
//! (work completions); Linux rxe and rdmavt.

use verbatim_record::verbs::pb;
use verbatim_record::{Evidence, duration_words};
use verbatim_wire::verbs::WcOpcode;

use super::asking::{Asking, VerbsRule};
use super::next::{expected, fits, is_read};
use super::retry::causes;
use super::talk::{Answer, Post, Request, SOON, Talk, Told};
use crate::rule::Rule;
use crate::rules::responder::Says;

pub(super) static RULES: &[(Rule, VerbsRule)] = &[
    (Rule::CompletedBy, completed_by),
    (Rule::ResponsesMissing, responses_missing),
    (Rule::ResponsesOdd, responses_odd),
    (Rule::Skipped, skipped),
    (Rule::CompletionOrder, completion_order),
    (Rule::CompletionFields, completion_fields),
    (Rule::Unsignalled, unsignalled),
];

pub(super) fn words(told: &Told<'_>, post: &Post<'_>, expected: impl Into<String>) -> (String, String, String) {
    (post.in_words(), expected.into(), told.done.in_words())
}

/// The completions of requests that are known, with those.
pub(super) fn known<'a, 't>(talk: &'a Talk<'t>) -> impl Iterator<Item = (&'a Told<'t>, &'a Post<'t>)> {
    let told = talk.told.iter();
    told.filter_map(|told| Some((told, &talk.posts[told.post?])))
}

/// Whether an answer may complete a SEND or WRITE, or the packets of one before `end`.
pub(super) fn may_acknowledge(answer: &Answer<'_>, end: u32) -> bool {
    !answer.is_odd() && answer.end().is_some_and(|until| until >= end)
}

/// The first PSN of a READ or atomic whose response had not been sent before a place.
fn missing(talk: &Talk<'_>, post: &Post<'_>, until: usize) -> Option<u32> {
    let within = talk
        .answers
        .iter()
        .filter(|answer| (post.place()..until).contains(&answer.place()));
    let answered: Vec<u32> = within
        .filter(|answer| fits(talk, answer))
        .filter_map(|answer| answer.offset)
        .collect();
    (post.first..post.end).find(|offset| !answered.contains(offset))
}

fn completed_by<'t>(talk: &Talk<'t>, asking: &mut Asking<'_, 't>) {
    for (told, post) in known(talk).filter(|(told, _)| told.is_success()) {
        let psn = |offset| talk.dialogue.dut_psn.plus(offset);
        let before = |answer: &&Answer<'_>| answer.place() > post.place() && answer.place() < told.place();
        let mut answers = talk.answers.iter().filter(before);
        let (answer, wanted) = if post.posted.has_response_data() {
            let wanted =
                missing(talk, post, told.place()).map(|missing| format!("its response with PSN {}", psn(missing)));
            (answers.find(|answer| answer.offset == Some(post.end - 1)), wanted)
        } else {
            let answer = answers.find(|answer| may_acknowledge(answer, post.end));
            let wanted = answer.is_none().then(|| format!("an ACK of PSN {}", psn(post.end - 1)));
            (answer, wanted)
        };
        let last = || talk.answers.iter().rfind(before);
        let by = answer.or_else(last).map(|answer| Evidence::from(answer.frame));
        asking.must(wanted.is_none(), by.into_iter().chain([told.done.told.into()]), || {
            words(told, post, format!("no success before {}", wanted.unwrap_or_default()))
        });
    }
    stays_outstanding(talk, asking);
}

/// Successes of READs and atomics, with the answers before them that `concern` them, of which one must be there; broken when a
/// response is missing.
fn without_response<'t>(
    talk: &Talk<'t>,
    asking: &mut Asking<'_, 't>,
    concern: impl Fn(&Answer<'t>, &Post<'t>) -> bool,
) {
    for (at, post) in talk
        .posts
        .iter()
        .enumerate()
        .filter(|(_, post)| post.posted.has_response_data())
    {
        let told = talk.told_of(at).next();
        let until = told.map_or(usize::MAX, Told::place);
        let before = talk
            .answers
            .iter()
            .filter(|answer| (post.place()..until).contains(&answer.place()));
        let Some(answer) = before.into_iter().find(|answer| concern(answer, post)) else {
            continue;
        };
        let succeeded = told.filter(|told| told.is_success());
        let missing = succeeded.and_then(|told| missing(talk, post, told.place()));
        let evidence = [Evidence::from(answer.frame)].into_iter();
        asking.must(
            missing.is_none(),
            evidence.chain(told.map(|told| told.done.told.into())),
            || {
                let psn = talk.dialogue.dut_psn.plus(missing.unwrap_or_default());
                let seen = told.map(|told| told.done.in_words()).unwrap_or_default();
                (
                    post.in_words(),
                    format!("no success without its response with PSN {psn}"),
                    seen,
                )
            },
        );
    }
}

fn responses_missing<'t>(talk: &Talk<'t>, asking: &mut Asking<'_, 't>) {
    without_response(talk, asking, |answer, post| {
        let of_it = answer
            .offset
            .filter(|offset| post.has(*offset) && matches!(answer.says, Says::Read(_)));
        let is_gap =
            of_it.is_some_and(|offset| missing(talk, post, answer.place()).is_some_and(|missing| missing < offset));
        is_gap || of_it.is_some() && !fits(talk, answer)
    });
}

fn responses_odd<'t>(talk: &Talk<'t>, asking: &mut Asking<'_, 't>) {
    for (told, post) in known(talk).filter(|(told, post)| told.is_success() && is_read(post)) {
        // One that has come again may have begun again anywhere.
        let of_it = |sent: &&Request<'t>| sent.offset.is_some_and(|offset| post.has(offset));
        let times = talk.requests.iter().filter(of_it).count();
        let has_one = talk.is_lossless() || talk.timeout().is_none() && causes(talk, post, told.place()).all() == 0;
        // Of one that is missing another rule speaks.
        if times != 1 || !has_one || missing(talk, post, told.place()).is_some() {
            continue;
        }
        let in_place = |offset: u32| {
            let mut before = talk.answers.iter().filter(|answer| answer.place() < told.place());
            before.any(|answer| {
                answer.offset == Some(offset) && fits(talk, answer) && answer.says == Says::Read(expected(post, offset))
            })
        };
        let odd = (post.first..post.end).find(|offset| !in_place(*offset));
        asking.must(odd.is_none(), [Evidence::from(told.done.told)], || {
            let psn = talk.dialogue.dut_psn.plus(odd.unwrap_or_default());
            let part = expected(post, odd.unwrap_or_default());
            words(told, post, format!("no success without {part:?} with PSN {psn}"))
        });
    }
}

fn skipped<'t>(talk: &Talk<'t>, asking: &mut Asking<'_, 't>) {
    without_response(talk, asking, |answer, post| {
        let is_behind = answer.offset.is_some_and(|offset| offset >= post.end);
        is_behind && missing(talk, post, answer.place()).is_some()
    });
}

/// Whether an answer may be one to a request, or to one behind it.
fn speaks_of(answer: &Answer<'_>, post: &Post<'_>) -> bool {
    let is_direct = answer.offset.is_some_and(|offset| post.has(offset));
    is_direct && (answer.says != Says::Ack || !post.posted.has_response_data()) || may_acknowledge(answer, post.end)
}

/// Notes each request that an answer could have completed and did not, for as long as that may take.
fn stays_outstanding<'t>(talk: &Talk<'t>, asking: &mut Asking<'_, 't>) {
    for answer in &talk.answers {
        for (at, post) in talk.posts.iter().enumerate() {
            let was_sent = talk
                .requests
                .iter()
                .any(|sent| sent.offset.is_some_and(|offset| post.has(offset)) && sent.seen.place < answer.place());
            let mut later = talk.answers.iter().filter(|other| other.place() > answer.place());
            let next = later
                .find(|other| speaks_of(other, post))
                .map(|other| other.frame.at.earliest);
            let told = talk.told_of(at).next().map(|told| told.done.told.at.earliest);
            let lasted = next.into_iter().chain(told).min();
            let lasts = lasted
                .or_else(|| talk.ends_at())
                .map(|end| end.since(answer.frame.at.latest));
            let partly = answer.end().is_some_and(|end| end > post.first);
            if let Some(lasts) = lasts.filter(|lasts| *lasts >= SOON && was_sent)
                && (partly || !speaks_of(answer, post))
            {
                let words = format!("{} stayed outstanding for {}", post.in_words(), duration_words(lasts));
                asking.held(words, [answer.frame.into()]);
            }
        }
    }
}

fn completion_order<'t>(talk: &Talk<'t>, asking: &mut Asking<'_, 't>) {
    let mut next = 0;
    for told in &talk.told {
        // What is not signalled completes only when it fails.
        let silent = |post: &Post<'_>| {
            !post.posted.post.signaled && told.post.is_some_and(|at| talk.posts[at].wr_id() != post.wr_id())
        };
        while talk.posts.get(next).is_some_and(silent) {
            next += 1;
        }
        let is_so = told.post == Some(next);
        asking.must(is_so, [Evidence::from(told.done.told)], || {
            let expected = talk.posts.get(next).map_or_else(
                || "no further completion".into(),
                |post| format!("the completion of {}", post.in_words()),
            );
            ("completion".into(), expected, told.done.in_words())
        });
        if let Some(at) = told.post {
            next = next.max(at + 1);
        }
    }
}

/// That what fails, or is flushed, completes, rules of failures demand of each request; here, that nothing else does.
fn unsignalled<'t>(talk: &Talk<'t>, asking: &mut Asking<'_, 't>) {
    for (told, post) in known(talk).filter(|(_, post)| !post.posted.post.signaled) {
        asking.must(!told.is_success(), [Evidence::from(told.done.told)], || {
            words(told, post, "no completion with success: it is not signalled")
        });
    }
}

fn completion_fields<'t>(talk: &Talk<'t>, asking: &mut Asking<'_, 't>) {
    use pb::Operation as O;
    for (told, post) in known(talk).filter(|(told, _)| told.is_success()) {
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
        let completion = told.done.completion;
        let is_so = completion.opcode == opcode.0 && bytes.is_none_or(|bytes| completion.byte_len == bytes);
        asking.must(is_so, [Evidence::from(told.done.told)], || {
            let of_bytes = |bytes: u32| format!(", {bytes} bytes");
            let expected = format!("{opcode}{}", bytes.map(of_bytes).unwrap_or_default());
            let seen_bytes = bytes.map(|_| of_bytes(completion.byte_len)).unwrap_or_default();
            (
                post.in_words(),
                expected,
                format!("{}{seen_bytes}", WcOpcode(completion.opcode)),
            )
        });
    }
}
