//! Rules for local errors: a request whose local memory does not allow the access fails, and no other request fails
//! with a local error.
//!
//! Source: architecture 9.9.2 (requester errors), 10.6 (memory), 10.7.3 (work completions); Linux rxe and rdmavt.

use verbatim_record::verbs::{Command, Reply};
use verbatim_record::{Evidence, WcStatus, duration_words};

use super::asking::{Asking, VerbsRule};
use super::completion::{known, words};
use super::next::fits;
use super::qp_trace::{Completion, EVENT_WAIT, PeerResponse, QpTrace, Request, WorkRequest};
use super::requester_deadlines::in_words;
use crate::rule::Rule;
use crate::rules::responder::ResponseKind;

pub(super) static RULES: &[(Rule, VerbsRule)] = &[(Rule::LocalFault, local_fault), (Rule::LocalError, local_error)];

/// Returns the earliest place where the device can have begun a request. A fenced request waits for earlier READs and
/// atomics.
fn begins(qp: &QpTrace<'_>, post: &WorkRequest<'_>) -> usize {
    let is_in_front = |answer: &&PeerResponse<'_>| fits(qp, answer) && answer.offset.is_some_and(|at| at < post.first);
    let waits = post.posted.post.fence
        && qp
            .posts
            .iter()
            .any(|other| other.end <= post.first && other.posted.has_response_data());
    let first = qp.answers.iter().find(is_in_front).map(PeerResponse::place);
    match first {
        Some(first) if waits => first,
        _ => post.place(),
    }
}

/// Returns whether the memory of a request is deregistered before the place `until`, or is not writable though a
/// response must be stored there.
fn is_denied(qp: &QpTrace<'_>, post: &WorkRequest<'_>, until: usize) -> bool {
    let Some(local) = post.posted.post.local.filter(|local| local.length > 0) else {
        return false;
    };
    let mut before = qp.memory.iter().take_while(|done| done.place < until);
    before.any(|done| match (&done.command, &done.answer) {
        (Command::DeregisterMemory(gone), _) => gone.memory == local.memory,
        (Command::RegisterMemory(asked), Some((_, _, Reply::Memory(made), _))) => {
            let is_writable = asked.access.is_some_and(|access| access.local_write);
            made.memory == local.memory && post.posted.has_response_data() && !is_writable
        }
        _ => false,
    })
}

fn local_fault<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let denied = |post: &WorkRequest<'_>| is_denied(qp, post, begins(qp, post));
    for (at, post) in qp.posts.iter().enumerate().filter(|(_, post)| denied(post)) {
        let before: Option<Vec<&Completion<'t>>> = (0..at).map(|at| qp.completions_of(at).next()).collect();
        // Check only if all earlier requests succeeded: they complete first, and a request after a failed request
        // is flushed.
        let Some(before) = before.filter(|before| before.iter().all(|completion| completion.is_success())) else {
            continue;
        };
        let completion: Vec<&Completion<'t>> = qp.completions_of(at).collect();
        let other = completion
            .first()
            .filter(|completion| completion.done.status() != WcStatus::LOC_PROT_ERR);
        let since = before.last().map(|completion| completion.done.event.at.latest);
        let since = since.into_iter().chain([post.posted.command.asked.latest]).max();
        let is_done = completion
            .iter()
            .any(|completion| completion.done.status() == WcStatus::LOC_PROT_ERR);
        let of_it = |sent: &&Request<'_>| sent.offset.is_some_and(|offset| post.has(offset));
        let sent = qp.requests.iter().find(of_it);
        if let Some(sent) = sent.filter(|_| !post.posted.has_response_data()) {
            asking.must(false, [Evidence::from(sent.seen.frame)], || {
                (
                    post.in_words(),
                    "no packet of the request".into(),
                    sent.seen.packet.to_string(),
                )
            });
            continue;
        }
        // If the device sends a READ before it checks the memory, it notices the fault only when a response arrives.
        if sent.is_some() && completion.is_empty() {
            continue;
        }
        let met = is_done.then(|| since.unwrap_or_default());
        let owed = qp.owed(since.unwrap_or_default(), EVENT_WAIT, met);
        let evidence = completion
            .iter()
            .map(|completion| Evidence::from(completion.done.event));
        let expected = format!("{} within {}", WcStatus::LOC_PROT_ERR, duration_words(EVENT_WAIT));
        let about = || (post.in_words(), expected, in_words(&completion));
        match other {
            Some(_) => asking.must(false, evidence, about),
            None => asking.owes(owed, true, evidence, about),
        }
    }
}

/// Returns whether memory, responses or attributes explain an error. `None` for a status that other rules explain:
/// a success, a flush, and the errors for a NAK or for spent retries.
pub(super) fn has_reason(qp: &QpTrace<'_>, completion: &Completion<'_>, post: &WorkRequest<'_>) -> Option<bool> {
    let answered = || {
        let mut before = qp.answers.iter().filter(|answer| answer.place() < completion.place());
        before.any(|answer| {
            let is_response = matches!(answer.says, ResponseKind::Read(_) | ResponseKind::Atomic);
            let is_of_it = is_response && answer.offset.is_some_and(|offset| post.has(offset));
            answer.is_odd() || is_of_it && !qp.is_next_response(answer)
        })
    };
    Some(match completion.done.status() {
        WcStatus::SUCCESS | WcStatus::WR_FLUSH_ERR => return None,
        WcStatus::REM_INV_REQ_ERR | WcStatus::REM_ACCESS_ERR | WcStatus::REM_OP_ERR => return None,
        WcStatus::RNR_RETRY_EXC_ERR | WcStatus::RETRY_EXC_ERR => return None,
        WcStatus::LOC_PROT_ERR => is_denied(qp, post, completion.place()),
        WcStatus::LOC_LEN_ERR | WcStatus::BAD_RESP_ERR => answered(),
        WcStatus::LOC_QP_OP_ERR => post.posted.has_response_data() && qp.dialogue.attributes.max_rd_atomic == Some(0),
        _ => false,
    })
}

fn local_error<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    for (completion, post) in known(qp) {
        let Some(is_so) = has_reason(qp, completion, post) else {
            continue;
        };
        asking.must(is_so, [Evidence::from(completion.done.event)], || {
            words(completion, post, "no local error without a reason")
        });
    }
}
