//! `c09-reset`: a queue pair in RESET sends nothing, answers nothing, and tells its host of nothing.
//!
//! A SEND of the DUT is outstanding, with a local ACK timeout, when its queue pair goes to RESET. What was on its way then may
//! still come; after a round trip it is quiet: the SEND is not sent again, though its timeout passes, a WRITE to the queue pair is
//! not answered, and neither the SEND nor the receive that was posted completes. Reading: work that RESET takes away is not told
//! of, while an error would flush it. False alarm: none known.

use core::time::Duration;

use verbatim_record::verbs::{Command, pb};
use verbatim_record::{Findings, Frames, Gap, Label, Passed, Side, Trace, Verbs, Wait};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::AckTimeout;

use crate::transport::rc::ask::{self, Message};
use crate::transport::rc::{self, Ask, Requester};

const STATES: &str = "10.3.1 RESET";

const RECEIVE: Label<Verbs> = Label::new("post a receive");
const RESET: Label<Verbs> = Label::new("modify to RESET");
const SETTLE: Label<Wait> = Label::new("what was on its way");
const WRITE: Label<Frames> = Label::new("WRITE in RESET");
const STILL: Label<Wait> = Label::new("in RESET");
/// Some 67 ms, so that all retries of the SEND would come while it is waited.
const TIMEOUT: AckTimeout = AckTimeout(14);

pub(super) static TEST: Test = Test {
    id: "c09-reset",
    aliases: &[],
    revision: 1,
    about: "In RESET a queue pair sends nothing again, answers nothing, and completes nothing of what it had to do.",
    reading: "Work that RESET takes away is not told of. What comes within a round trip was on its way.",
    statements: &[STATES, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let mut dut = Requester::open(
        t,
        &ChannelOptions {
            timeout: TIMEOUT,
            ..ChannelOptions::default()
        },
    )?;
    let channel = dut.channel;
    let receive = Command::PostReceive(pb::PostReceive {
        qp: channel.qp,
        wr_id: 100,
        local: Some(channel.memory.slice(0, 64)),
    });
    t.verbs_must(RECEIVE, Side::Dut, receive)?;
    let send = dut.post(t, Ask::send(64))?;
    if dut.see_all(t, &send)? {
        let modify = pb::ModifyQp {
            qp: channel.qp,
            state: pb::QpState::Reset.into(),
            attributes: Some(pb::QpAttributes::default()),
        };
        t.verbs_must(RESET, Side::Dut, Command::ModifyQp(modify))?;
        t.wait_for(SETTLE, t.longest_round_trip())?;
        let write = Message::write(&channel, channel.own_psn, 16 * 1024, &[0x5A; 8]);
        ask::ask(t, &channel, WRITE, &write)?;
        t.wait_for(STILL, t.rc_silence(Duration::ZERO, TIMEOUT, 7))?;
    }
    dut.close(t)
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let cases = rc::cases(t)?;
    let case = &cases[0];
    t.not_judged(RECEIVE);
    t.not_judged(WRITE);
    let reset = t.command(RESET)?;
    let (settled, still) = (t.waited(SETTLE)?, t.waited(STILL)?);
    rc::sound_packets(f, &case.dialogue);
    let late = case.dialogue.of_dut_between(settled.place, still.place);
    let result = |is_none| if is_none { Passed::Pass } else { Passed::Fail };
    let shown: Vec<_> = late.iter().map(|seen| seen.frame.into()).collect();
    let words = ("no packet", rc::in_words(&late));
    f.prove(STATES, &shown, "a queue pair in RESET", words, result(late.is_empty()));
    let done = case.dialogue.completions_between(reset.place, still.place);
    let words = ("no completion", rc::completions_in_words(&done));
    f.prove(
        STATES,
        &rc::evidence(&done),
        "work that RESET takes away",
        words,
        result(done.is_empty()),
    );
    case.is_in(f, STATES, "after RESET", pb::QpState::Reset);
    Ok(())
}
