//! `c09-reset-again`: after RESET a queue pair behaves like a new one, without traces of its previous connection.
//!
//! The DUT has work of every kind when its queue pair moves to RESET. It has unanswered requests, one of which
//! waits after an RNR NAK, and posted receives. It has received half a SEND, and a packet behind a gap. The queue
//! pair then goes to RTS again, with another queue pair of the peer, other PSNs and another path MTU. Messages of
//! more packets than may be in flight complete without an ACK timeout. The MSN counts a WRITE of the peer as the
//! first message. A SEND finds no receive before the host posts a receive. The test leaves out READs if the device
//! lacks them, and replaces missing atomics by a WRITE.
//!
//! Reading: RESET removes work requests without completions. The rest of the specification is clear.
//!
//! False alarm: none known.

use core::time::Duration;

use verbatim_oracle::Rule;
use verbatim_record::verbs::{Command, pb};
use verbatim_record::{Evidence, Findings, Frames, Gap, Label, Passed, Side, TRIES, Trace, Verbs, Wait, WcStatus};
use verbatim_tester::peer::{Channel, ChannelOptions};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::Mtu;
use verbatim_wire::packet::{AckTimeout, NakCode, Psn, RnrTimer, SyndromeKind};

use crate::transport::rc::answer::{self, ACKNOWLEDGEMENT, MSN};
use crate::transport::rc::ask::{self, Message};
use crate::transport::rc::{self, Ask, Requester, offers};

const STATES: &str = "10.3.1 RESET";
const DUPLICATES: &str = "9.7.4.1.1 duplicate requests";
const COMPLETION: &str = "C9-60";

const RECEIVE: Label<Verbs> = Label::new("post a receive");
const RESET: Label<Verbs> = Label::new("modify to RESET");
const RESET_AGAIN: Label<Verbs> = Label::new("modify to RESET, a second time");
const HALF: Label<Frames> = Label::new("half a WRITE, or a gap");
const NAK: Label<Frames> = Label::new("RNR NAK, and a sequence NAK, after RESET");
const OLD: Label<Frames> = Label::new("atomic of the connection before");
const GAP: Label<Frames> = Label::new("gap after RESET");
const THIRD: Label<Frames> = Label::new("request after the second RESET");
const SETTLE: Label<Wait> = Label::new("what was on its way");
const STILL: Label<Wait> = Label::new("in RESET");
const FIRST: Label<Frames> = Label::new("half a message, and a gap");
const RNR: Label<Frames> = Label::new("RNR NAK");
const PART: Label<Frames> = Label::new("ACK within a message");
const ANSWER: Label<Frames> = Label::new("answer");
const AGAIN: Label<Frames> = Label::new("answer, again");
const ASKED: Label<Frames> = Label::new("request of the peer");
const UNREADY: Label<Frames> = Label::new("SEND without a receive");
const AFTER: Label<Frames> = Label::new("SEND with a receive");

const TIMEOUT: AckTimeout = AckTimeout(14);
/// Interval of the RNR NAK after RESET: 1.28 ms.
const TIMER: RnrTimer = RnrTimer(14);
/// Time that a late response may need.
const LATE: Duration = Duration::from_secs(4);
/// Number of packets of a long message.
const LONG: u32 = 140;

pub(super) static TEST: Test = Test {
    id: "c09-reset-again",
    aliases: &[],
    revision: 4,
    about: "After RESET a queue pair behaves like a new one: with another peer, nothing of its previous connection is \
        left.",
    reading: "Before RESET the DUT has unanswered requests, one of which waits after an RNR NAK, half a SEND of the \
        peer, a gap and posted receives. The queue pair then goes through RESET, INIT, RTR and RTS to another peer. \
        All retries are available again, an atomic of the previous connection is not answered, and a gap gets a NAK. \
        Requests and responses of every kind are those of a new connection. The MSN counts from 0, and no earlier \
        receive completes.",
    statements: &[
        STATES,
        COMPLETION,
        ACKNOWLEDGEMENT,
        MSN,
        "9.7.4.1.1 PSN sequence",
        DUPLICATES,
        "C9-143",
        "9.7.5.2.8 RNR retry",
        rc::GENERATION,
    ],
    needs: &[Need::Packets],
    parameters: &[],
    procedure: reset,
    judge: judge_reset,
};

fn reset(t: &mut Tester<'_>) -> Step {
    let options = ChannelOptions {
        timeout: TIMEOUT,
        retry_cnt: 1,
        rnr_retry: 1,
        ..ChannelOptions::default()
    };
    let mut dut = Requester::open(t, &options)?;
    let channel = dut.channel;
    for wr_id in [100, 101] {
        ask::post_receive(t, &channel, RECEIVE, wr_id, (40 * 1024, 4096))?;
    }
    let mut psn = channel.own_psn;
    // The MSN after RESET must not count messages before RESET.
    if channel.atomics && t.executes(pb::Operation::FetchAdd) {
        ask::ask(t, &channel, ASKED, &Message::fetch_add(&channel, psn, 48 * 1024, 1))?;
        psn = psn.next();
    } else {
        ask::ask(
            t,
            &channel,
            ASKED,
            &Message::write(&channel, psn, 48 * 1024, &[0x11; 8]),
        )?;
        psn = psn.next();
    }
    // Send half a message, then a message behind a gap.
    let half = Message::send(&channel, psn, &vec![0x33; ask::mtu(&channel) as usize + 8]);
    t.send_frame(FIRST, &half.frames(&channel)[0])?;
    let beyond = Message::write(&channel, psn.plus(3), 48 * 1024 + 64, &[0x44; 8]);
    ask::put(t, &channel, FIRST, &beyond)?;
    let send = dut.post(t, Ask::send(dut.mtu + 8))?;
    if t.offers(pb::Operation::Read) {
        dut.post(t, Ask::new(pb::Operation::Read, 64))?;
    }
    dut.post(t, Ask::send(64))?;
    // The DUT retransmits the SEND, which consumes its only retry.
    let patience = t.rc_silence(Duration::ZERO, TIMEOUT, 1);
    if !dut.see_all(t, &send)? || !dut.see(t, send.first, patience)? {
        return dut.close(t);
    }
    // The SEND must still wait when RESET comes: its interval of half a second is longer than all steps before RESET.
    t.send_frame(RNR, &dut.rnr_nak(send.first, RnrTimer(31), 0))?;
    t.wait_for(SETTLE, t.longest_round_trip() + Duration::from_millis(1))?;
    to_reset(t, RESET, &channel)?;
    t.wait_for(STILL, t.rc_silence(Duration::ZERO, TIMEOUT, 7))?;
    let options = ChannelOptions {
        mtu: Mtu(1),
        retry_cnt: 1,
        rnr_retry: 1,
        // With this first PSN the requests of the previous connection look like duplicates.
        own_psn: Some(psn),
        ..ChannelOptions::default()
    };
    let before = channel.own_psn;
    let mut dut = dut.again(t, &options)?;
    spent(t, &mut dut)?;
    begins(t, &dut.channel, before)?;
    second(t, &mut dut)?;
    let mut dut = third(t, dut, &options)?;
    // The DUT reports a gap only once. The test tries three times, because the NAK may be lost.
    for _ in 0..TRIES {
        let (next, is_told) = told_before(t, dut, &options)?;
        dut = next;
        if is_told {
            break;
        }
    }
    dut.close(t)
}

fn to_reset(t: &mut Tester<'_>, label: Label<Verbs>, channel: &Channel) -> Step {
    let modify = Command::ModifyQp(pb::ModifyQp {
        qp: channel.qp,
        state: pb::QpState::Reset.into(),
        attributes: Some(pb::QpAttributes::default()),
    });
    t.verbs_must(label, Side::Dut, modify).map(drop)
}

/// Sends a gap, resets, and sends a gap on the next connection. Returns whether the DUT reported the second gap.
fn told_before(t: &mut Tester<'_>, dut: Requester, options: &ChannelOptions) -> Step<(Requester, bool)> {
    let channel = dut.channel;
    let beyond = |channel: &Channel| Message::write(channel, channel.own_psn.plus(1000), 48 * 1024, &[0x99; 8]);
    ask::put(t, &channel, HALF, &beyond(&channel))?;
    t.wait_for(SETTLE, t.longest_round_trip() + Duration::from_millis(1))?;
    to_reset(t, RESET_AGAIN, &channel)?;
    let dut = dut.again(t, options)?;
    ask::put(t, &dut.channel, GAP, &beyond(&dut.channel))?;
    let is_told = ask::listen(t, &dut.channel)?;
    if !is_told {
        t.pause(LATE)?;
    }
    Ok((dut, is_told))
}

/// Sends half a WRITE, resets, and sends a request on the next connection.
fn third(t: &mut Tester<'_>, dut: Requester, options: &ChannelOptions) -> Step<Requester> {
    let channel = dut.channel;
    let bytes = vec![0x77; ask::mtu(&channel) as usize + 8];
    let half = Message::write(&channel, channel.own_psn.plus(2), 48 * 1024, &bytes);
    t.send_frame(HALF, &half.frames(&channel)[0])?;
    t.wait_for(SETTLE, t.longest_round_trip() + Duration::from_millis(1))?;
    to_reset(t, RESET_AGAIN, &channel)?;
    let dut = dut.again(t, options)?;
    let channel = dut.channel;
    let write = Message::write(&channel, channel.own_psn, 48 * 1024 + 256, &[0x88; 8]);
    ask::ask(t, &channel, THIRD, &write)?;
    Ok(dut)
}

/// Sends an RNR NAK and a sequence NAK. The retries consumed before RESET must be available again.
fn spent(t: &mut Tester<'_>, dut: &mut Requester) -> Step {
    let sent = dut.post(t, Ask::send(64))?;
    let patience = t.rc_silence(TIMER.duration(), AckTimeout::OFF, 1);
    if !dut.see_all(t, &sent)? {
        return Ok(());
    }
    let naks = [
        dut.rnr_nak(sent.first, TIMER, 0),
        dut.nak(sent.first, NakCode::PSN_SEQUENCE_ERROR, 0),
    ];
    // Send each NAK once, because the DUT has one retry for each kind. If a NAK is lost, the peer still acknowledges
    // the outstanding request.
    for nak in &naks {
        t.send_frame(NAK, nak)?;
        if !dut.see(t, sent.first, patience)? {
            break;
        }
    }
    let answers = dut.answers(t, &sent);
    dut.answer(t, (ANSWER, AGAIN), &answers, 1).map(drop)
}

/// Sends an atomic of the previous connection, which does not belong to this connection.
fn begins(t: &mut Tester<'_>, channel: &Channel, before: Psn) -> Step {
    t.skip_packets();
    if channel.atomics && t.executes(pb::Operation::FetchAdd) {
        let old = Message::fetch_add(channel, before, 48 * 1024, 1);
        ask::put(t, channel, OLD, &old)?;
        ask::listen(t, channel)?;
    }
    Ok(())
}

/// Uses the connection after RESET: requests of the DUT, requests of the peer, and a new receive.
fn second(t: &mut Tester<'_>, dut: &mut Requester) -> Step {
    // These are more packets than most adapters keep in flight. Without a timer only ACKs make the DUT send the rest.
    let long = LONG * dut.mtu + 8;
    let asks = [
        Ask::send(long),
        Ask::new(pb::Operation::Write, long),
        // The result of the READ overwrites data of the earlier messages.
        Ask::new(pb::Operation::Read, 64),
        Ask::send(64),
    ];
    for ask in asks {
        if !t.offers(ask.operation) {
            continue;
        }
        let sent = dut.post(t, ask)?;
        if !dut.serve(t, PART, &sent)? {
            break;
        }
        let answers = dut.answers(t, &sent);
        if !dut.answer(t, (ANSWER, AGAIN), &answers, 1)? {
            break;
        }
    }
    let channel = dut.channel;
    let psn = channel.own_psn;
    let write = Message::write(&channel, psn, 48 * 1024 + 128, &[0x55; 8]);
    ask::ask(t, &channel, ASKED, &write)?;
    let send = Message::send(&channel, psn.next(), &[0x66; 8]);
    ask::ask_unready(t, &channel, UNREADY, &send)?;
    ask::post_receive(t, &channel, RECEIVE, 200, (40 * 1024, 64))?;
    t.pause(RnrTimer(12).duration())?;
    ask::ask(t, &channel, AFTER, &send)?;
    // A host may report a receive after the DUT acknowledged the message.
    t.next_completion(Side::Dut, channel.qp, t.now().after(ask::RESPONSE_WAIT))?;
    Ok(())
}

fn judge_reset(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    for label in [FIRST, RNR, PART, ANSWER, AGAIN, NAK] {
        t.not_judged(label);
    }
    t.not_judged(RECEIVE);
    t.not_judged(SETTLE);
    t.not_judged(STILL);
    t.command(RESET)?;
    t.commands(rc::steps::STATE).count();
    t.commands(rc::steps::FILL).count();
    offers::was_posted(t, pb::Operation::Read)?;
    t.commands(rc::steps::POST).count();
    t.commands(rc::steps::DESTROY).count();
    let all = rc::dialogues(t)?;
    t.commands(RESET_AGAIN).count();
    t.not_judged(HALF);
    let [_, dialogue, ..] = all.as_slice() else {
        return Err(Gap::Missing(RESET.name));
    };
    let own = Psn::new(dialogue.attributes.rq_psn.unwrap_or_default());
    for (label, msn, psn) in [(ASKED, 1, own), (AFTER, 2, own.next())] {
        let turn = answer::turn(t, dialogue, label).ok_or(Gap::Missing(label.name))?;
        answer::acknowledged(t, f, (ACKNOWLEDGEMENT, label.name), (dialogue, &turn), (psn, msn));
    }
    if let Some(third) = all.get(2) {
        let turn = answer::turn(t, third, THIRD).ok_or(Gap::Missing(THIRD.name))?;
        let expected = (turn.last_sent(), 1);
        answer::acknowledged(t, f, (STATES, THIRD.name), (third, &turn), expected);
    }
    let turn = answer::turn(t, dialogue, UNREADY).ok_or(Gap::Missing(UNREADY.name))?;
    let answers = turn.counted_unready(t);
    let is_rnr = |seen: &rc::Seen<'_>| {
        matches!(
            ask::nak_of(&seen.packet).map(|syndrome| syndrome.kind()),
            Some(SyndromeKind::RnrNak(_))
        )
    };
    let result = match answers.as_slice() {
        [] => rc::alive(t, turn.places.0, turn.asked_again()),
        some if some.iter().all(is_rnr) => Passed::Pass,
        _ => Passed::Fail,
    };
    let shown: Vec<Evidence<'_>> = answers.iter().map(|seen| seen.frame.into()).collect();
    let words = ("an RNR NAK: RESET removed the receives", rc::in_words(&answers));
    f.prove(STATES, &shown, "SEND after RESET without a receive", words, result);
    let receives: Vec<rc::Done<'_>> = dialogue
        .completions
        .iter()
        .filter(|done| (100..=200).contains(&done.completion.wr_id))
        .copied()
        .collect();
    let result = match receives.as_slice() {
        [only]
            if only.completion.wr_id == 200 && only.status() == WcStatus::SUCCESS && only.completion.byte_len == 8 =>
        {
            Passed::Pass
        }
        [] => rc::alive(t, dialogue.places.0, t.begin.simulated),
        _ => Passed::Fail,
    };
    let words = (
        "wr_id 200 with IBV_WC_SUCCESS, 8 bytes",
        rc::completions_in_words(&receives),
    );
    f.prove(STATES, &rc::evidence(&receives), "receives after RESET", words, result);
    if t.frames(OLD).next().is_some() {
        f.exercises(&[Rule::AtomicUnknown]);
    } else {
        f.goes_without(&[DUPLICATES], "the device has no FetchAdd");
    }
    f.exercises(&[
        Rule::SilentState,
        Rule::GapAnswered,
        Rule::Posted,
        Rule::InOrder,
        Rule::AnsweredCompletes,
        Rule::CompletedBy,
    ]);
    Ok(())
}
