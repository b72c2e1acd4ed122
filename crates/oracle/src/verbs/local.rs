//! Rules of errors of the device's own side: what its memory does not allow fails, and nothing else fails so.
//!
//! Source: architecture 9.9.2 (requester errors), 10.6 (memory), 10.7.3 (work completions); Linux rxe and rdmavt.

use verbatim_record::verbs::{Command, Reply};
use verbatim_record::{Evidence, WcStatus, duration_words};

use super::asking::{Asking, VerbsRule};
use super::completion::{known, words};
use super::next::fits;
use super::owed::in_words;
use super::talk::{Answer, Post, Request, SOON, Talk, Told};
use crate::rule::Rule;
use crate::rules::responder::Says;

pub(super) static RULES: &[(Rule, VerbsRule)] = &[(Rule::LocalFault, local_fault), (Rule::LocalError, local_error)];

/// Where a request can have been begun at the earliest: a fenced one waits for the READs and atomics in front of it.
fn begins(talk: &Talk<'_>, post: &Post<'_>) -> usize {
    let is_in_front = |answer: &&Answer<'_>| fits(talk, answer) && answer.offset.is_some_and(|at| at < post.first);
    let waits = post.posted.post.fence
        && talk
            .posts
            .iter()
            .any(|other| other.end <= post.first && other.posted.has_response_data());
    let first = talk.answers.iter().find(is_in_front).map(Answer::place);
    match first {
        Some(first) if waits => first,
        _ => post.place(),
    }
}

/// Whether the memory of a request is gone by then, or cannot be written though a response must land there.
fn is_denied(talk: &Talk<'_>, post: &Post<'_>, until: usize) -> bool {
    let Some(local) = post.posted.post.local.filter(|local| local.length > 0) else {
        return false;
    };
    let mut before = talk.memory.iter().take_while(|done| done.place < until);
    before.any(|done| match (&done.command, &done.answer) {
        (Command::DeregisterMemory(gone), _) => gone.memory == local.memory,
        (Command::RegisterMemory(asked), Some((_, _, Reply::Memory(made), _))) => {
            let is_writable = asked.access.is_some_and(|access| access.local_write);
            made.memory == local.memory && post.posted.has_response_data() && !is_writable
        }
        _ => false,
    })
}

fn local_fault<'t>(talk: &Talk<'t>, asking: &mut Asking<'_, 't>) {
    let denied = |post: &Post<'_>| is_denied(talk, post, begins(talk, post));
    for (at, post) in talk.posts.iter().enumerate().filter(|(_, post)| denied(post)) {
        let before: Option<Vec<&Told<'t>>> = (0..at).map(|at| talk.told_of(at).next()).collect();
        // What lies in front is done first; behind what failed it is flushed.
        let Some(before) = before.filter(|before| before.iter().all(|told| told.is_success())) else {
            continue;
        };
        let told: Vec<&Told<'t>> = talk.told_of(at).collect();
        let other = told.first().filter(|told| told.done.status() != WcStatus::LOC_PROT_ERR);
        let since = before.last().map(|told| told.done.told.at.latest);
        let since = since.into_iter().chain([post.posted.command.asked.latest]).max();
        let is_done = told.iter().any(|told| told.done.status() == WcStatus::LOC_PROT_ERR);
        let of_it = |sent: &&Request<'_>| sent.offset.is_some_and(|offset| post.has(offset));
        let sent = talk.requests.iter().find(of_it);
        if let Some(sent) = sent.filter(|_| !post.posted.has_response_data()) {
            asking.must(false, [Evidence::from(sent.seen.frame)], || {
                (
                    post.in_words(),
                    "nothing of it is sent".into(),
                    sent.seen.packet.to_string(),
                )
            });
            continue;
        }
        // A READ may have been sent before its memory was looked at: then its responses show it.
        if sent.is_some() && told.is_empty() {
            continue;
        }
        let met = is_done.then(|| since.unwrap_or_default());
        let owed = talk.owed(since.unwrap_or_default(), SOON, met);
        let evidence = told.iter().map(|told| Evidence::from(told.done.told));
        let expected = format!("{} within {}", WcStatus::LOC_PROT_ERR, duration_words(SOON));
        let about = || (post.in_words(), expected, in_words(&told));
        match other {
            Some(_) => asking.must(false, evidence, about),
            None => asking.owes(owed, true, evidence, about),
        }
    }
}

/// Whether something that the device had was the reason of an error that is no NAK's, no spent retry's and no flush's; `None`
/// when it is one of those.
pub(super) fn has_reason(talk: &Talk<'_>, told: &Told<'_>, post: &Post<'_>) -> Option<bool> {
    let answered = || {
        let mut before = talk.answers.iter().filter(|answer| answer.place() < told.place());
        before.any(|answer| {
            let is_response = matches!(answer.says, Says::Read(_) | Says::Atomic);
            let is_of_it = is_response && answer.offset.is_some_and(|offset| post.has(offset));
            answer.is_odd() || is_of_it && !talk.is_next_response(answer)
        })
    };
    Some(match told.done.status() {
        WcStatus::SUCCESS | WcStatus::WR_FLUSH_ERR => return None,
        WcStatus::REM_INV_REQ_ERR | WcStatus::REM_ACCESS_ERR | WcStatus::REM_OP_ERR => return None,
        WcStatus::RNR_RETRY_EXC_ERR | WcStatus::RETRY_EXC_ERR => return None,
        WcStatus::LOC_PROT_ERR => is_denied(talk, post, told.place()),
        WcStatus::LOC_LEN_ERR | WcStatus::BAD_RESP_ERR => answered(),
        WcStatus::LOC_QP_OP_ERR => post.posted.has_response_data() && talk.dialogue.attributes.max_rd_atomic == Some(0),
        _ => false,
    })
}

fn local_error<'t>(talk: &Talk<'t>, asking: &mut Asking<'_, 't>) {
    for (told, post) in known(talk) {
        let Some(is_so) = has_reason(talk, told, post) else {
            continue;
        };
        asking.must(is_so, [Evidence::from(told.done.told)], || {
            words(told, post, "no error of its own side")
        });
    }
}
