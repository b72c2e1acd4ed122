//! `c09-nak-fatal`: a NAK that refuses a request ends it with its status, completes what lies before, flushes the rest.
//!
//! Three connections, one for each of the codes invalid request, remote access error and remote operational error. Four
//! SENDs are outstanding; the second gets the NAK. The first completes with success, the second with the status of the
//! code, the others with IBV_WC_WR_FLUSH_ERR, in this order; nothing is sent again, and the queue pair is in error.
//! Reading: nothing is unclear. False alarm: none known; the NAK is sent again when no completion comes.

use core::time::Duration;

use verbatim_record::{Findings, Frames, Gap, Label, Trace, Wait};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, NakCode};

use crate::transport::rc::{self, Ask, Requester};

const COUNT: &str = "C9-143";
const COMPLETION: &str = "C9-60";

const NAK: Label<Frames> = Label::new("NAK of the second request");
const NAK_AGAIN: Label<Frames> = Label::new("NAK of the second request, again");
const AFTER: Label<Wait> = Label::new("after the NAK");

/// The codes that refuse for good.
const CODES: [NakCode; 3] = [
    NakCode::INVALID_REQUEST,
    NakCode::REMOTE_ACCESS,
    NakCode::REMOTE_OPERATIONAL,
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
    statements: &[rc::NAKS, COMPLETION, COUNT, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    for code in CODES {
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
    f.exercises(&[
        "refusal-fails",
        "refusal-status",
        "flushed",
        "after-error",
        "error-state",
    ]);
    rc::came_on_each(t, &[NAK])
}
