//! `c09-nak-fatal`: a NAK that refuses a request ends it with its status, completes what lies before, flushes the rest.
//!
//! Three connections, one for each of the codes invalid request, remote access error and remote operational error. Four
//! SENDs are outstanding; the second gets the NAK. The first completes with success, the second with the status of the
//! code, the others with IBV_WC_WR_FLUSH_ERR, in this order; nothing is sent again, and the queue pair is in error.
//! Reading: nothing is unclear. False alarm: none known; the NAK is sent again when no completion comes.

use core::time::Duration;

use verbatim_record::{Evidence, Findings, Frames, Gap, Label, Passed, Trace, Wait, WcStatus};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, NakCode};

use crate::transport::rc::{self, Ask, Requester};

const NAKS: &str = "9.7.5.1.1 NAK handling";
const COMPLETION: &str = "C9-60";

const NAK: Label<Frames> = Label::new("NAK of the second request");
const NAK_AGAIN: Label<Frames> = Label::new("NAK of the second request, again");
const AFTER: Label<Wait> = Label::new("after the NAK");

/// Codes and the status that each has.
const CODES: [(NakCode, WcStatus); 3] = [
    (NakCode::INVALID_REQUEST, WcStatus::REM_INV_REQ_ERR),
    (NakCode::REMOTE_ACCESS, WcStatus::REM_ACCESS_ERR),
    (NakCode::REMOTE_OPERATIONAL, WcStatus::REM_OP_ERR),
];
/// SENDs that are outstanding.
const REQUESTS: u32 = 4;

/// NAKs that refuse.
pub(super) static TEST: Test = Test {
    id: "c09-nak-fatal",
    aliases: &[],
    revision: 1,
    about: "A NAK that refuses a request ends it with its status, completes what lies before it and flushes what follows.",
    reading: "In order: success of the request before, the status of the code, IBV_WC_WR_FLUSH_ERR of those behind; no \
        packet in two seconds; the queue pair in error.",
    statements: &[NAKS, COMPLETION, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    for (code, _) in CODES {
        let mut dut = Requester::open(t, &ChannelOptions::default())?;
        let mut sent = Vec::new();
        for at in 0..REQUESTS {
            sent.push(dut.post(t, Ask::send(64).at(64 * at))?);
        }
        let mut all_seen = true;
        for sent in &sent {
            all_seen = all_seen && dut.see_all(t, sent)?;
        }
        if all_seen {
            let nak = dut.nak(sent[1].first, code, 1);
            dut.answer(t, (NAK, NAK_AGAIN), &[nak], REQUESTS)?;
            t.wait_for(AFTER, t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0))?;
        }
        dut.close(t)?;
    }
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    for (case, (code, status)) in rc::cases(t)?.iter().zip(CODES) {
        rc::sound_packets(f, &case.dialogue);
        let again = case.frames(t, NAK_AGAIN);
        let Some(nak) = case.frames(t, NAK).first().copied() else {
            rc::not_sent(t, f, case, REQUESTS as usize - 1)?;
            continue;
        };
        case.packets_are_those_posted(f, rc::GENERATION, "first transmission", (case.start(), nak.place));
        let waited = case.waited(t, AFTER)?;
        let about = format!("NAK {code} of the second of four requests");
        // A NAK that completed something did arrive: what is missing then is the device's.
        let until = again.first().map_or(case.end(), |again| again.place);
        let arrived = !case.dialogue.completions_between(nak.place, until).is_empty();
        let asked_again = arrived || rc::asked_again(&again, 1);
        rc::no_completion(
            f,
            COMPLETION,
            &format!("before {about}"),
            &case.dialogue,
            (case.start(), nak.place),
        );
        let of_it = [status];
        let expected: [(u64, &[WcStatus]); REQUESTS as usize] = [
            (1, &[WcStatus::SUCCESS]),
            (2, &of_it),
            (3, &[WcStatus::WR_FLUSH_ERR]),
            (4, &[WcStatus::WR_FLUSH_ERR]),
        ];
        case.completes(t, f, (NAKS, &about), (nak.place, case.end()), (&expected, asked_again));
        let mut wrong = case.dialogue.completions_between(nak.place, case.end());
        wrong.retain(|done| done.completion.wr_id > 1 && done.status() == WcStatus::SUCCESS);
        let result = if wrong.is_empty() { Passed::Pass } else { Passed::Fail };
        let mut evidence = vec![Evidence::from(nak)];
        evidence.extend(rc::evidence(&wrong));
        let words = ("none", rc::completions_in_words(&wrong));
        f.prove(
            COMPLETION,
            &evidence,
            &format!("{about}: success of it or those behind it"),
            words,
            result,
        );
        rc::quiet(t, f, NAKS, &about, (&case.dialogue, nak.place, waited), Duration::ZERO);
        case.is_in_error(f, NAKS, &about);
    }
    Ok(())
}
