//! Duplicates of the peer's messages are answered, and atomics with the result that they had.

use verbatim_record::{Findings, Passed, TRIES, Trace};
use verbatim_wire::packet::{Opcode, Packet};

use super::{DUPLICATES, of_peer};
use crate::transport::rc::answer::is_ack;
use crate::transport::rc::ask::HALF;
use crate::transport::rc::{self, Case, Seen};
use crate::transport::walk::peer::labels;

/// A SEND or WRITE that comes again is acknowledged again.
pub(super) fn judge(t: &Trace, f: &mut Findings<'_>, case: &Case<'_>) {
    let sent = of_peer(case, &[labels::DUPLICATE.name]);
    // READs and atomics are kept for as long as no more of them came than the DUT answers at a time.
    let keeps = case.dialogue.attributes.max_dest_rd_atomic.unwrap_or(0) as usize;
    let with_response = |packet: &Packet<'_>| packet.atomic().is_some() || packet.opcode() == Opcode::RC_READ_REQUEST;
    let is_kept = |seen: &Seen<'_>| {
        let all = of_peer(case, &[labels::REQUEST.name, labels::AGAIN.name]);
        let later = all
            .iter()
            .filter(|other| with_response(&other.packet) && other.psn().since(seen.psn()) < HALF);
        let mut psns: Vec<u32> = later.map(|other| other.psn().0).collect();
        psns.sort_unstable();
        psns.dedup();
        psns.len() <= keeps
    };
    let asks = |seen: &&Seen<'_>| seen.packet.bth().ack_request() && (!with_response(&seen.packet) || is_kept(seen));
    let asking: Vec<&Seen<'_>> = sent.iter().filter(asks).collect();
    for (at, seen) in asking.iter().enumerate() {
        if at > 0 && asking[at - 1].psn() == seen.psn() {
            continue;
        }
        let tries = asking[at..]
            .iter()
            .take_while(|other| other.psn() == seen.psn())
            .count();
        let end = asking.get(at + tries).map_or(case.end(), |next| next.frame.place);
        let answers = case.dialogue.of_dut_between(seen.frame.place, end);
        let answer = answers
            .iter()
            .find(|answer| match (seen.packet.opcode(), seen.packet.atomic()) {
                (Opcode::RC_READ_REQUEST, _) => matches!(answer.packet.opcode().0, 0x0D..=0x10),
                (_, Some(_)) => answer.packet.opcode() == Opcode::RC_ATOMIC_ACKNOWLEDGE && answer.psn() == seen.psn(),
                _ => is_ack(answer),
            });
        let first = case
            .dialogue
            .of_dut()
            .find(|first| first.psn() == seen.psn() && first.packet.opcode() == Opcode::RC_ATOMIC_ACKNOWLEDGE);
        let original = |answer: &Seen<'_>| answer.packet.atomic_ack().map(|ack| ack.original().0);
        if let (Some(_), Some(answer), Some(first)) = (seen.packet.atomic(), answer, first)
            && original(answer) != original(&first)
        {
            let words = |answer: &Seen<'_>| format!("original {:#018x}", original(answer).unwrap_or_default());
            let evidence = [first.frame.into(), seen.frame.into(), answer.frame.into()];
            let about = "an atomic, again";
            f.prove(
                DUPLICATES,
                &evidence,
                about,
                (words(&first), words(answer)),
                Passed::Fail,
            );
            return;
        }
        if answer.is_none() {
            let result = rc::alive(t, seen.frame.place, tries >= TRIES as usize);
            let words = ("an answer", "none");
            f.prove(
                DUPLICATES,
                &[seen.frame.into()],
                &seen.packet.opcode().to_string(),
                words,
                result,
            );
            return;
        }
    }
}
