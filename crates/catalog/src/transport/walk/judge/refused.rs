//! What the DUT must refuse gets a NAK with the right code, and nothing else.

use verbatim_record::{Findings, Trace};
use verbatim_wire::packet::{NakCode, Packet, Syndrome};

use super::{ACCESS, ERRORS, INVALID, of, of_peer};
use crate::transport::rc::answer::is_rnr_nak;
use crate::transport::rc::ask::{HALF, is_sequence_nak, nak_of};
use crate::transport::rc::{self, Case, Seen};
use crate::transport::walk::peer::labels;

/// What the DUT must refuse gets a NAK, and nothing else.
pub(super) fn judge(t: &Trace, f: &mut Findings<'_>, case: &Case<'_>) {
    let sent = of_peer(case, &[labels::ILLEGAL.name]);
    let Some(first) = sent.first() else { return };
    let code = code_of(&first.packet, case);
    let statement = if code == NakCode::REMOTE_ACCESS {
        ACCESS
    } else {
        INVALID
    };
    let answers = case.dialogue.of_dut_between(first.frame.place, case.end());
    // An adapter model never lacks a resource; a device may, and then says nothing of the request.
    let lacks = |seen: &Seen<'_>| !t.begin.simulated && is_rnr_nak(seen);
    let to_it = |seen: &&Seen<'_>| seen.packet.opcode().is_response() && !is_sequence_nak(&seen.packet) && !lacks(seen);
    let answer = answers
        .iter()
        .filter(to_it)
        .find(|seen| seen.psn().since(first.psn()) < HALF);
    let expected = format!("{} of PSN {}", Syndrome::nak(code), first.psn());
    let about = first.packet.to_string();
    let Some(answer) = answer else {
        let result = rc::alive(t, first.frame.place, false);
        f.prove(statement, &[first.frame.into()], &about, (expected, "no NAK"), result);
        return;
    };
    let is_right = nak_of(&answer.packet) == Some(Syndrome::nak(code)) && answer.psn() == first.psn();
    let evidence = [first.frame.into(), answer.frame.into()];
    if f.prove(
        statement,
        &evidence,
        &about,
        (expected, answer.packet.to_string()),
        of(is_right),
    ) {
        case.is_in_error(f, ERRORS, "it refused a request");
    }
}

/// Why a request is refused: for what the memory does not allow, or for what it is.
fn code_of(packet: &Packet<'_>, case: &Case<'_>) -> NakCode {
    let (base, r_key) = case.dialogue.memory;
    let length = verbatim_tester::peer::ChannelOptions::MEMORY;
    let is_outside = packet.reth().is_some_and(|reth| {
        let end = reth.va().0.wrapping_add(reth.dma_len().into());
        let is_beyond = end < reth.va().0 || end > base + u64::from(length);
        reth.r_key() != r_key || reth.va().0 < base || is_beyond
    });
    let is_atomic_outside = packet.atomic().is_some_and(|atomic| {
        let is_beyond = atomic.va().0 > base + u64::from(length) - 8;
        atomic.r_key() != r_key || atomic.va().0 < base || is_beyond
    });
    if is_outside || is_atomic_outside {
        NakCode::REMOTE_ACCESS
    } else {
        NakCode::INVALID_REQUEST
    }
}
