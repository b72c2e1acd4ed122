//! Rules for failed requests: the cause of each status.
//!
//! Source: architecture 9.7.5.1.1 (NAKs), 9.7.5.2.8 (RNR NAKs), 9.9.2 (requester errors), 10.7.3 (work completions);
//! Linux rxe and rdmavt.

use verbatim_record::{Evidence, Passed, TRIES, WcStatus, duration_words};
use verbatim_wire::NakCode;
use verbatim_wire::packet::SyndromeKind;

use super::asking::{Asking, VerbsRule};
use super::completion::{known, words};
use super::qp_trace::{Completion, PeerResponse, QpTrace, WorkRequest, qp_traces};
use super::retry::causes;
use crate::rc::Seen;
use crate::rule::Rule;
use crate::rules::responder::ResponseKind;
use crate::words::counted;

pub(super) static RULES: &[(Rule, VerbsRule)] = &[
    (Rule::RefusalStatus, refusal_status),
    (Rule::RnrError, rnr_error),
    (Rule::RetryError, retry_error),
    (Rule::FlushStatus, flush_status),
    (Rule::FlushOrder, flush_order),
];

/// Returns the status with which a NAK of this code makes its request fail.
fn status_of(code: NakCode) -> Option<WcStatus> {
    Some(match code {
        NakCode::INVALID_REQUEST => WcStatus::REM_INV_REQ_ERR,
        NakCode::REMOTE_ACCESS => WcStatus::REM_ACCESS_ERR,
        NakCode::REMOTE_OPERATIONAL => WcStatus::REM_OP_ERR,
        _ => return None,
    })
}

/// Returns the status with which a response makes its request fail; `None` if the response does not refuse the
/// request.
pub(super) fn refuses(answer: &PeerResponse<'_>) -> Option<WcStatus> {
    match answer.syndrome?.kind() {
        SyndromeKind::Nak(code) if answer.says == ResponseKind::Fatal => status_of(code),
        _ => None,
    }
}

fn refusal_status<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    const OF_NAKS: [WcStatus; 3] = [
        WcStatus::REM_INV_REQ_ERR,
        WcStatus::REM_ACCESS_ERR,
        WcStatus::REM_OP_ERR,
    ];
    for (completion, post) in known(qp).filter(|(completion, _)| OF_NAKS.contains(&completion.done.status())) {
        let status = completion.done.status();
        let naks: Vec<&PeerResponse<'_>> = qp
            .answers
            .iter()
            .filter(|answer| {
                answer.place() < completion.place() && answer.offset.is_some_and(|offset| post.has(offset))
            })
            .filter(|answer| refuses(answer).is_some() && !qp.is_stale(answer))
            .collect();
        let is_so = naks.iter().any(|answer| refuses(answer) == Some(status));
        let evidence = naks.iter().map(|nak| Evidence::from(nak.frame));
        asking.must(is_so, evidence.chain([completion.done.event.into()]), || {
            let expected = naks.first().and_then(|nak| refuses(nak));
            let expected = expected.map_or_else(
                || "no such error without a NAK".into(),
                |status| format!("{status}, the status of the NAK"),
            );
            words(completion, post, expected)
        });
    }
}

/// Returns the RNR NAKs for any packet of a request, before the place `until`.
pub(super) fn rnr_naks<'a, 't>(qp: &'a QpTrace<'t>, post: &WorkRequest<'_>, until: usize) -> Vec<&'a PeerResponse<'t>> {
    let of_it = |answer: &&PeerResponse<'t>| {
        answer.says == ResponseKind::Rnr
            && answer.place() < until
            && answer.offset.is_some_and(|offset| post.has(offset))
    };
    qp.answers.iter().filter(of_it).collect()
}

fn rnr_error<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    for (completion, post) in
        known(qp).filter(|(completion, _)| completion.done.status() == WcStatus::RNR_RETRY_EXC_ERR)
    {
        let naks = rnr_naks(qp, post, completion.place());
        let rnr_retry = qp.rnr_retry();
        let is_so = rnr_retry < 7 && naks.len() > rnr_retry as usize;
        let evidence = naks.iter().map(|nak| Evidence::from(nak.frame));
        asking.must(is_so, evidence.chain([completion.done.event.into()]), || {
            let expected = if rnr_retry < 7 {
                format!("no such error before {}", counted(rnr_retry as usize + 1, "RNR NAK"))
            } else {
                "no such error, since rnr_retry 7 sets no limit".into()
            };
            let (about, expected, seen) = words(completion, post, expected);
            (
                about,
                expected,
                format!("{seen} after {}", counted(naks.len(), "RNR NAK")),
            )
        });
    }
}

fn retry_error<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let needed = 1 + qp.retry_cnt();
    for (completion, post) in known(qp).filter(|(completion, _)| completion.done.status() == WcStatus::RETRY_EXC_ERR) {
        let causes = causes(qp, post, completion.place());
        let can_spend = causes.errors > 0 || qp.timeout().is_some();
        // During an RNR interval, a sequence NAK may spend a retry without a retransmission.
        if causes.rnr > 0 && can_spend {
            continue;
        }
        let times = transmissions(qp, post, completion);
        let sent = qp.transmissions(post.first, completion.place());
        let took = qp
            .trace
            .begin
            .at_most(completion.done.event.at.since(post.posted.command.asked).1);
        // Each time-out takes at least the ACK timeout. If less time has passed than all required time-outs take,
        // lost packets do not explain the missing retries.
        let too_soon = causes.errors == 0 && qp.timeout().is_none_or(|once| took < once * needed);
        let result = match times >= needed && can_spend {
            true => Passed::Pass,
            false if qp.is_lossless() || too_soon || is_never_retried(qp) => Passed::Fail,
            false => Passed::Inconclusive,
        };
        let evidence: Vec<Evidence<'t>> = super::qp_trace::shown(&sent);
        asking.due_to(qp.habits.of_retry(false)).say(
            result,
            evidence.into_iter().chain([completion.done.event.into()]),
            || {
                let expected = match can_spend {
                    true => format!("no such error before {}", counted(needed as usize, "transmission")),
                    false => "no such error, since no retries were spent".into(),
                };
                let (about, expected, seen) = words(completion, post, expected);
                (
                    about,
                    expected,
                    format!(
                        "{seen} after {} in {}",
                        counted(times as usize, "transmission"),
                        duration_words(took)
                    ),
                )
            },
        );
    }
}

/// Returns whether the only allowed retry is missing on all similar connections, which are so many that loss does
/// not explain it.
fn is_never_retried(qp: &QpTrace<'_>) -> bool {
    let is_alike = |other: &QpTrace<'_>| other.retry_cnt() == qp.retry_cnt() && other.timeout() == qp.timeout();
    let all = qp_traces(qp.trace);
    let times: Vec<u32> = all
        .iter()
        .filter(|other| is_alike(other))
        .flat_map(|other| {
            let failed = known(other).filter(|(completion, _)| completion.done.status() == WcStatus::RETRY_EXC_ERR);
            failed.map(|(completion, post)| transmissions(other, post, completion))
        })
        .collect();
    qp.retry_cnt() == 1 && times.len() >= TRIES as usize && times.iter().all(|times| *times == 1)
}

/// Returns how often the most repeated packet of a request was sent before the completion.
fn transmissions(qp: &QpTrace<'_>, post: &WorkRequest<'_>, completion: &Completion<'_>) -> u32 {
    let most = (post.first..post.end).map(|offset| qp.transmissions(offset, completion.place()).len());
    u32::try_from(most.max().unwrap_or(0)).unwrap_or(u32::MAX)
}

/// Returns whether the queue pair has failed as a responder: the device refused a request of the peer, or a receive
/// failed. `None`: unknown, since the peer has sent requests and a NAK may have been lost.
fn has_refused(qp: &QpTrace<'_>) -> Option<bool> {
    let is_fatal = |seen: &Seen<'_>| {
        let syndrome = seen.packet.aeth().map(|aeth| aeth.syndrome().kind());
        let is_nak = matches!(syndrome, Some(SyndromeKind::Nak(code)) if code != NakCode::PSN_SEQUENCE_ERROR);
        seen.frame.received && is_nak
    };
    let has_asked = |seen: &Seen<'_>| !seen.frame.received && seen.packet.opcode().is_request();
    let packets = &qp.dialogue.packets;
    match packets.iter().any(is_fatal) || qp.receive_failed {
        false if !qp.is_lossless() && packets.iter().any(has_asked) => None,
        has_refused => Some(has_refused),
    }
}

fn flush_status<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let mut failed = false;
    for completion in &qp.completions {
        if completion.done.status() == WcStatus::WR_FLUSH_ERR {
            // A host may move a queue pair to the error state before it destroys or resets the queue pair.
            let is_going = qp.gone < completion.place();
            let by_tester = is_going || qp.to_error.is_some_and(|done| done.place < completion.place());
            // A NAK that ends the connection moves the queue pair to the error state, even if the refused request
            // itself is reported with another status.
            let mut answers = qp.answers.iter().filter(|answer| answer.place() < completion.place());
            let by_nak = answers.any(|answer| refuses(answer).is_some() && !qp.is_stale(answer));
            let result = match has_refused(qp) {
                _ if failed || by_tester || by_nak => Passed::Pass,
                Some(true) => Passed::Pass,
                Some(false) => Passed::Fail,
                None => Passed::Inconclusive,
            };
            asking.say(result, [Evidence::from(completion.done.event)], || {
                let expected = "no flush before an error or a transition to ERR".to_string();
                ("completion".into(), expected, completion.done.in_words())
            });
        } else {
            failed |= !completion.is_success();
        }
    }
}

fn flush_order<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let is_flush =
        |completion: &&Completion<'t>| completion.post.is_some() && completion.done.status() == WcStatus::WR_FLUSH_ERR;
    let flushed: Vec<&Completion<'t>> = qp.completions.iter().filter(is_flush).collect();
    for pair in flushed.windows(2) {
        let evidence = pair.iter().map(|completion| Evidence::from(completion.done.event));
        asking.must(pair[0].post < pair[1].post, evidence, || {
            let expected = format!("after {}", pair[0].done.in_words());
            (
                "flush".into(),
                format!("{expected}, a request that was posted later"),
                pair[1].done.in_words(),
            )
        });
    }
}
