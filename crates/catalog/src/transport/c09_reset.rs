//! `c09-reset`: a queue pair in RESET sends nothing, answers nothing, and reports nothing to its host.
//!
//! A SEND of the DUT is outstanding, with an ACK timeout, when its queue pair moves to RESET. Packets on their way may
//! still arrive. After a round trip the queue pair is silent. It does not retransmit the SEND after its timeout, and
//! does not answer a WRITE. It completes neither the SEND nor the posted receive.
//!
//! `c09-destroyed`: a destroyed queue pair also sends nothing, answers nothing, and reports nothing.
//!
//! Reading: RESET removes work requests without completions, while an error would flush them.
//!
//! False alarm: none known.

use core::time::Duration;

use verbatim_oracle::Rule;
use verbatim_record::verbs::{Command, pb};
use verbatim_record::{Evidence, Findings, FrameSeen, Frames, Gap, Label, Passed, Side, Trace, Verbs, Wait};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, Medium, Packet};

use crate::transport::rc::answer::ACKNOWLEDGEMENT;
use crate::transport::rc::ask::{self, Message};
use crate::transport::rc::{self, Ask, Requester};

const STATES: &str = "10.3.1 RESET";
const VALIDATION: &str = "9.6.1 header validation";

const RECEIVE: Label<Verbs> = Label::new("post a receive");
const RESET: Label<Verbs> = Label::new("modify to RESET");
const BEFORE: Label<Frames> = Label::new("WRITE to a queue pair that is there");
const GONE: Label<Verbs> = Label::new("destroy the queue pair while it has work");
const LATER: Label<Frames> = Label::new("WRITE to a queue pair that is no more");
const ALIVE: Label<Verbs> = Label::new("is the host still there");
const SETTLE: Label<Wait> = Label::new("what was on its way");
const WRITE: Label<Frames> = Label::new("WRITE in RESET");
const STILL: Label<Wait> = Label::new("in RESET");
/// ACK timeout of about 67 ms, so that all retries of the SEND would come during the wait.
const TIMEOUT: AckTimeout = AckTimeout(14);

pub(super) static TEST: Test = Test {
    id: "c09-reset",
    aliases: &[],
    revision: 1,
    about: "A queue pair in RESET retransmits nothing, answers nothing, and completes no outstanding work request.",
    reading: "RESET removes work requests without completions. A packet that arrives within a round trip was on its \
        way. On a real path, the same holds for requests that the DUT may have sent before.",
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

pub(super) static DESTROYED: Test = Test {
    id: "c09-destroyed",
    aliases: &[],
    revision: 1,
    about: "A destroyed queue pair retransmits nothing, answers nothing, and completes no outstanding work request.",
    reading: "No queue pair has this number any more, so the DUT silently drops a WRITE to it. A packet that arrives \
        within a round trip was on its way. On a real path, the same holds for requests that the DUT may have sent \
        before.",
    statements: &[VALIDATION, ACKNOWLEDGEMENT, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure: destroyed,
    judge: judge_destroyed,
};

/// Destroys a queue pair with an outstanding SEND and a posted receive.
fn destroyed(t: &mut Tester<'_>) -> Step {
    let options = ChannelOptions {
        timeout: TIMEOUT,
        ..ChannelOptions::default()
    };
    let mut dut = Requester::open(t, &options)?;
    let channel = dut.channel;
    ask::post_receive(t, &channel, RECEIVE, 100, (0, 64))?;
    let asked = Message::write(&channel, channel.own_psn, 16 * 1024, &[0x5A; 8]);
    ask::ask(t, &channel, BEFORE, &asked)?;
    let send = dut.post(t, Ask::send(64))?;
    dut.see_all(t, &send)?;
    t.verbs_must(GONE, Side::Dut, Command::DestroyQp(pb::DestroyQp { qp: channel.qp }))?;
    t.wait_for(SETTLE, t.longest_round_trip())?;
    let write = Message::write(&channel, channel.own_psn.next(), 16 * 1024, &[0xA5; 8]);
    ask::ask(t, &channel, LATER, &write)?;
    t.wait_for(STILL, t.rc_silence(Duration::ZERO, TIMEOUT, 7))?;
    // A second connection shows that the host is alive.
    let other = t.open_channel(&ChannelOptions::default())?;
    ask::query(t, &other, ALIVE).map(drop)
}

fn judge_destroyed(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    f.exercises(&[Rule::RequestAnswered]);
    for label in [RECEIVE, ALIVE] {
        t.not_judged(label);
    }
    rc::came(t, &[BEFORE, LATER])?;
    let gone = t.command(GONE)?;
    let (settled, still) = (t.waited(SETTLE)?, t.waited(STILL)?);
    let all = rc::dialogues(t)?;
    let handle = match &gone.command {
        Command::DestroyQp(destroy) => destroy.qp,
        _ => 0,
    };
    let dialogue = all
        .iter()
        .find(|dialogue| dialogue.handle == handle)
        .ok_or(Gap::Missing(GONE.name))?;
    let to_it = |frame: &&FrameSeen| {
        let packet = Packet::parse(Medium::Ethernet, &frame.bytes);
        frame.received && packet.is_ok_and(|packet| packet.bth().dest_qp() == dialogue.own_qpn)
    };
    let mut late: Vec<&FrameSeen> = t
        .timeline
        .frames_between((settled.place, still.place))
        .iter()
        .filter(to_it)
        .collect();
    if !t.begin.simulated {
        late = not_on_the_way(t, late);
    }
    let result = |is_none| if is_none { Passed::Pass } else { Passed::Fail };
    let shown: Vec<Evidence<'_>> = late.iter().map(|frame| (*frame).into()).collect();
    let words = ("no packet", format!("number of packets: {}", late.len()));
    f.prove(
        VALIDATION,
        &shown,
        "packets of a destroyed queue pair",
        words,
        result(late.is_empty()),
    );
    let mut done = rc::completions_of(t, Side::Dut, (gone.place, still.place));
    done.retain(|done| done.completion.qp == dialogue.handle);
    let words = ("no completion", rc::completions_in_words(&done));
    // Until the path has settled, the host may report completions that were on their way.
    done.retain(|done| done.event.place > settled.place);
    f.prove(
        VALIDATION,
        &rc::evidence(&done),
        "completions of a destroyed queue pair",
        words,
        result(done.is_empty()),
    );
    Ok(())
}

/// Returns the late packets that the path cannot have delayed.
///
/// These are responses to requests that the peer sent after the destruction. Requests of the DUT count only if
/// there are more than the two that it may have sent before.
fn not_on_the_way<'t>(t: &Trace, late: Vec<&'t FrameSeen>) -> Vec<&'t FrameSeen> {
    let packet = |frame: &'t FrameSeen| Packet::parse(Medium::Ethernet, &frame.bytes).ok();
    let psn = |frame: &FrameSeen| Some(Packet::parse(Medium::Ethernet, &frame.bytes).ok()?.bth().psn());
    let asked: Vec<_> = t.frames(LATER).filter_map(psn).collect();
    let (answers, requests): (Vec<_>, Vec<_>) = late
        .into_iter()
        .filter_map(|frame| Some((frame, packet(frame)?)))
        .partition(|(_, packet)| packet.opcode().is_response());
    let answers = answers
        .into_iter()
        .filter(|(_, packet)| asked.contains(&packet.bth().psn()));
    let requests = if requests.len() > 2 { requests } else { Vec::new() };
    answers.chain(requests).map(|(frame, _)| frame).collect()
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
    f.prove(STATES, &shown, "packets in RESET", words, result(late.is_empty()));
    let done = case.dialogue.completions_between(reset.place, still.place);
    let words = ("no completion", rc::completions_in_words(&done));
    f.prove(
        STATES,
        &rc::evidence(&done),
        "completions of work requests that RESET removed",
        words,
        result(done.is_empty()),
    );
    case.is_in(f, STATES, "after RESET", pb::QpState::Reset);
    Ok(())
}
