//! The DUT's requests: those that were posted, each completes once, in order, and not before its answer.

use verbatim_record::{Evidence, Findings, FrameSeen, Passed, TRIES, Trace, WcStatus};
use verbatim_wire::packet::{Medium, NakCode, Opcode, Packet, Psn, SyndromeKind};

use super::messages::acknowledges;
use super::{COMPLETION, NAKS, in_flight, of, of_peer};
use crate::transport::rc::ask::nak_of;
use crate::transport::rc::{self, Case, Done, GENERATION, Posted, Seen};
use crate::transport::walk::image::Image;
use crate::transport::walk::peer::{RECEIVES, labels};

/// What the peer answered to a request of the DUT: the first frame after which it may complete, and the code if it was refused.
pub(super) fn answered_at<'t>(case: &Case<'t>, posted: &Posted<'_>) -> Option<(&'t FrameSeen, Option<NakCode>)> {
    let answers = of_peer(case, &[labels::ANSWER.name]);
    let refusal = answers.iter().find_map(|seen| {
        let code = match nak_of(&seen.packet)?.kind() {
            SyndromeKind::Nak(code) if code != NakCode::PSN_SEQUENCE_ERROR => code,
            _ => return None,
        };
        let is_of_it = seen.psn().since(posted.first) < posted.psns;
        is_of_it.then_some((seen.frame, Some(code)))
    });
    let answer = if posted.has_response_data() {
        let own = |psn: Psn| {
            let of_psn = move |seen: &&Seen<'_>| seen.psn() == psn && seen.packet.opcode() != Opcode::RC_ACKNOWLEDGE;
            answers.iter().find(of_psn)
        };
        let all: Option<Vec<&Seen<'_>>> = (0..posted.psns).map(|at| own(posted.first.plus(at))).collect();
        all.and_then(|all| all.into_iter().max_by_key(|seen| seen.frame.place))
    } else {
        let newest = case.posted.last().map_or(posted.last(), Posted::last);
        answers.iter().find(|seen| acknowledges(seen, posted.last(), newest))
    };
    refusal.or_else(|| answer.map(|seen| (seen.frame, None)))
}

/// The DUT's requests are those that were posted, each completes once, in order, and not before its answer. Whether so.
pub(super) fn judge(t: &Trace, f: &mut Findings<'_>, case: &Case<'_>, image: &mut Image) -> bool {
    let is_request = |seen: &Seen<'_>| seen.packet.opcode().is_request();
    let sent: Vec<Seen<'_>> = case.dialogue.of_dut().filter(is_request).collect();
    let differs = |seen: &&Seen<'_>| {
        let (_, expected, found) = case.compared(seen);
        expected != found
    };
    match sent.iter().find(differs) {
        Some(wrong) => drop(case.is_posted(f, GENERATION, "packet of the DUT", wrong)),
        None if sent.is_empty() => {}
        None => {
            let words = ("as posted", format!("{} of {}", sent.len(), sent.len()));
            f.prove(GENERATION, &[], "packets of the DUT", words, Passed::Pass);
        }
    }
    in_flight::judge(f, case, &sent);
    let done: Vec<&Done<'_>> = case
        .dialogue
        .completions
        .iter()
        .filter(|done| done.completion.wr_id < RECEIVES)
        .collect();
    let mut failed = false;
    for (at, posted) in case.posted.iter().enumerate() {
        let answer = answered_at(case, posted);
        let status = match answer.and_then(|(_, code)| code) {
            _ if failed => WcStatus::WR_FLUSH_ERR,
            Some(NakCode::REMOTE_ACCESS) => WcStatus::REM_ACCESS_ERR,
            Some(NakCode::REMOTE_OPERATIONAL) => WcStatus::REM_OP_ERR,
            Some(_) => WcStatus::REM_INV_REQ_ERR,
            None => WcStatus::SUCCESS,
        };
        let about = format!("request {}, {}", at + 1, posted.in_words());
        let statement = if status == WcStatus::SUCCESS { COMPLETION } else { NAKS };
        let expected = format!("wr_id {} with {status}", posted.post.wr_id);
        let Some(done) = done.get(at) else {
            let tries = answer.map_or(0, |(frame, _)| {
                let answers = of_peer(case, &[labels::ANSWER.name]);
                answers.iter().filter(|seen| seen.frame.place >= frame.place).count()
            });
            let evidence: Vec<Evidence<'_>> = answer.map(|(frame, _)| frame.into()).into_iter().collect();
            let alive = rc::alive(t, posted.command.place, tries >= TRIES as usize);
            // On a real path the answers of one instant may all be lost at once.
            let result = if t.begin.simulated { alive } else { Passed::Inconclusive };
            f.prove(statement, &evidence, &about, (expected, "no completion"), result);
            return false;
        };
        let evidence = [posted.command.into(), done.told.into()];
        let is_right = done.completion.wr_id == posted.post.wr_id && done.status() == status;
        f.prove(statement, &evidence, &about, (expected, done.in_words()), of(is_right));
        if !is_right {
            return false;
        }
        failed |= status != WcStatus::SUCCESS;
        if failed {
            continue;
        }
        let early = answer.is_none_or(|(frame, _)| done.told.place < frame.place);
        if early {
            let words = ("no completion before the answer", done.in_words());
            f.prove(COMPLETION, &[done.told.into()], &about, words, Passed::Fail);
            return false;
        }
        if posted.has_response_data() {
            let frames: Vec<&FrameSeen> = responses(case, posted);
            let bytes = response_bytes(&frames);
            image.put(posted.post.local.unwrap_or_default().offset as usize, &bytes);
        }
    }
    if let Some(extra) = done.get(case.posted.len()) {
        let words = ("no further completion", extra.in_words());
        f.prove(COMPLETION, &[extra.told.into()], "requests", words, Passed::Fail);
    }
    if failed {
        case.is_in_error(f, NAKS, "a request was refused");
    }
    // What a refused READ may have left is not known.
    !failed
}

/// The responses to a READ or atomic, one for each PSN.
fn responses<'t>(case: &Case<'t>, posted: &Posted<'_>) -> Vec<&'t FrameSeen> {
    let answers = of_peer(case, &[labels::ANSWER.name]);
    let of_psn = |psn: Psn| {
        let mut own = answers.iter().filter(move |seen| seen.psn() == psn);
        own.find(|seen| seen.packet.opcode() != Opcode::RC_ACKNOWLEDGE)
            .map(|seen| seen.frame)
    };
    (0..posted.psns)
        .filter_map(|at| of_psn(posted.first.plus(at)))
        .collect()
}

/// What these responses carry, one behind the other: payloads, or the original value of an atomic as a number of the host.
fn response_bytes(frames: &[&FrameSeen]) -> Vec<u8> {
    let packets = frames
        .iter()
        .filter_map(|frame| Packet::parse(Medium::Ethernet, &frame.bytes).ok());
    let carried = |packet: Packet<'_>| match packet.atomic_ack() {
        Some(atomic) => atomic.original().0.to_le_bytes().to_vec(),
        None => packet.payload().to_vec(),
    };
    packets.flat_map(carried).collect()
}
