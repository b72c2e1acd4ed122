//! `c09-send-queue-drain`: in SQD a queue pair starts no new request, finishes its started requests, and resumes in
//! RTS.
//!
//! A SEND of two packets is outstanding when the DUT's queue pair moves to SQD. Then the DUT posts another SEND. The
//! DUT's responder continues to work: it acknowledges a WRITE. The peer acknowledges the first SEND, which completes.
//! The DUT sends the second SEND only when the queue pair is in RTS again. IBV_EVENT_SQ_DRAINED comes once, after the
//! first SEND completed.
//!
//! Three more connections move to SQD with an outstanding request. On the first the peer leaves a SEND unanswered, and
//! the DUT retransmits it. On the second a SEND gets an RNR NAK, and the DUT retransmits it. On the third the peer
//! answers a READ late.
//!
//! Reading: a host requests the event with the transition to SQD, but the agent does not. A missing event therefore
//! proves nothing on a real host. Many adapters lack SQD: if the host refuses it, the test is NOT_APPLICABLE.
//!
//! False alarm: none known.

use core::time::Duration;

use verbatim_record::verbs::{Command, Event, Reply, pb};
use verbatim_record::{Evidence, Findings, Frames, Gap, HostEvent, Label, Passed, Side, TRIES, Trace, Verbs, Wait};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, RnrTimer};
use verbatim_wire::verbs::EventKind;

use crate::transport::rc::answer::{self, MSN};
use crate::transport::rc::ask::{self, Message};
use crate::transport::rc::{self, Ask, Requester};

const STATES: &str = "10.3.1 send queue drained";
const COMPLETION: &str = "C9-60";

const DRAIN: Label<Verbs> = Label::new("modify to SQD");
const WRITE: Label<Frames> = Label::new("WRITE in SQD");
const DRAIN_READ: Label<Verbs> = Label::new("modify to SQD, a READ is outstanding");
const OPEN: Label<Wait> = Label::new("in SQD with a READ");
const RESPONSE: Label<Frames> = Label::new("responses to the READ in SQD");
const RESPONSE_AGAIN: Label<Frames> = Label::new("responses to the READ in SQD, again");
const FIRST: Label<Frames> = Label::new("ACK of the request before SQD");
const FIRST_AGAIN: Label<Frames> = Label::new("ACK of the request before SQD, again");
const HELD: Label<Wait> = Label::new("in SQD");
const DRAIN_UNANSWERED: Label<Verbs> = Label::new("modify to SQD, with a request that nobody answers");
const LATE: Label<Frames> = Label::new("ACK of the request that came again");
const LATE_AGAIN: Label<Frames> = Label::new("ACK of the request that came again, again");
const RESUME: Label<Verbs> = Label::new("modify to RTS again");
const SECOND: Label<Frames> = Label::new("ACK of the request behind SQD");
const SECOND_AGAIN: Label<Frames> = Label::new("ACK of the request behind SQD, again");

const DRAIN_AGAIN: Label<Verbs> = Label::new("modify to SQD a second time");
const HELD_AGAIN: Label<Wait> = Label::new("in SQD a second time");
const DRAIN_NOT_READY: Label<Verbs> = Label::new("modify to SQD, with a request that gets an RNR NAK");
const NAK: Label<Frames> = Label::new("RNR NAK in SQD");
const NAK_AGAIN: Label<Frames> = Label::new("RNR NAK in SQD, again");
const READY: Label<Frames> = Label::new("ACK of what was put off");
const READY_AGAIN: Label<Frames> = Label::new("ACK of what was put off, again");

/// Interval of the RNR NAK: 1.28 ms.
const TIMER: RnrTimer = RnrTimer(14);

pub(super) static TEST: Test = Test {
    id: "c09-send-queue-drain",
    aliases: &[],
    revision: 6,
    about: "In SQD a queue pair begins no request, ends those that it has begun, answers its peer, and goes on in RTS.",
    reading: "The DUT does not send a request posted in SQD for two seconds, and sends it after RTS. It acknowledges \
        a WRITE in SQD. A request sent before SQD completes in SQD, and is repeated when its timer expires. \
        IBV_EVENT_SQ_DRAINED comes at most once. NOT_APPLICABLE if the host refuses SQD.",
    statements: &[
        STATES,
        COMPLETION,
        "C9-142",
        "9.7.5.2.8 RNR retry",
        MSN,
        rc::GENERATION,
        rc::ICRC,
    ],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn modify(t: &mut Tester<'_>, label: Label<Verbs>, qp: u32, state: pb::QpState) -> Step<Reply> {
    let modify = pb::ModifyQp {
        qp,
        state: state.into(),
        attributes: Some(pb::QpAttributes::default()),
    };
    t.verbs(label, Side::Dut, Command::ModifyQp(modify))
}

fn procedure(t: &mut Tester<'_>) -> Step {
    let mut dut = Requester::open(t, &ChannelOptions::default())?;
    let channel = dut.channel;
    let first = dut.post(t, Ask::send(dut.mtu + 8))?;
    let seen = dut.see_all(t, &first)?;
    let refused = matches!(modify(t, DRAIN, channel.qp, pb::QpState::Sqd)?, Reply::Refused(_));
    if seen && !refused {
        let second = dut.post(t, Ask::send(64))?;
        let write = Message::write(&channel, channel.own_psn, 16 * 1024, &[0x5A; 8]);
        ask::ask(t, &channel, WRITE, &write)?;
        let acks = dut.answers(t, &first);
        dut.answer(t, (FIRST, FIRST_AGAIN), &acks, 1)?;
        // The queue is drained by now, so a newly posted request must not cause another event.
        let third = dut.post(t, Ask::send(32).at(64))?;
        t.wait_for(HELD, t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0))?;
        modify(t, RESUME, channel.qp, pb::QpState::Rts)?;
        let mut left = 2;
        let mut seen = dut.see_all(t, &second)?;
        if seen && !dut.see_all(t, &third)? {
            // A device need not have two messages outstanding.
            let acks = dut.answers(t, &second);
            dut.answer(t, (SECOND, SECOND_AGAIN), &acks, 1)?;
            left = 1;
            seen = dut.see_all(t, &third)?;
        }
        if seen {
            let acks = dut.answers(t, &third);
            dut.answer(t, (SECOND, SECOND_AGAIN), &acks, left)?;
            modify(t, DRAIN_AGAIN, channel.qp, pb::QpState::Sqd)?;
            t.wait_for(HELD_AGAIN, t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0))?;
        }
    }
    dut.close(t)?;
    if refused {
        return Ok(());
    }
    unanswered(t)?;
    not_ready(t)?;
    if t.offers(pb::Operation::Read) {
        read(t)?;
    }
    Ok(())
}

/// Answers a READ late; until then the queue is not drained.
fn read(t: &mut Tester<'_>) -> Step {
    let mut dut = Requester::open(t, &ChannelOptions::default())?;
    let sent = dut.post(t, Ask::new(pb::Operation::Read, dut.mtu + 8))?;
    if dut.see_all(t, &sent)? {
        modify(t, DRAIN_READ, dut.channel.qp, pb::QpState::Sqd)?;
        t.wait_for(OPEN, t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0))?;
        let responses = dut.answers(t, &sent);
        dut.answer(t, (RESPONSE, RESPONSE_AGAIN), &responses, 1)?;
        t.wait_for(OPEN, t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0))?;
    }
    dut.close(t)
}

/// Sends an RNR NAK in SQD. The DUT must retry in SQD, too.
fn not_ready(t: &mut Tester<'_>) -> Step {
    let mut dut = Requester::open(t, &ChannelOptions::default())?;
    let patience = t.rc_silence(TIMER.duration(), AckTimeout::OFF, 0);
    let sent = dut.post(t, Ask::send(64))?;
    if dut.see_all(t, &sent)? {
        modify(t, DRAIN_NOT_READY, dut.channel.qp, pb::QpState::Sqd)?;
        let nak = dut.rnr_nak(sent.first, TIMER, 0);
        if dut.provoke(t, (NAK, NAK_AGAIN), &nak, (sent.first, patience))? {
            let acks = dut.answers(t, &sent);
            dut.answer(t, (READY, READY_AGAIN), &acks, 1)?;
        }
    }
    dut.close(t)
}

/// ACK timeout and retry_cnt of the connection with the unanswered request.
const TIMEOUT: AckTimeout = AckTimeout(14);
const RETRY_CNT: u8 = 7;

/// Leaves a request unanswered in SQD, so that the DUT retransmits it.
fn unanswered(t: &mut Tester<'_>) -> Step {
    let options = ChannelOptions {
        timeout: TIMEOUT,
        retry_cnt: RETRY_CNT,
        ..ChannelOptions::default()
    };
    let mut dut = Requester::open(t, &options)?;
    let sent = dut.post(t, Ask::send(64))?;
    if dut.see_all(t, &sent)? {
        modify(t, DRAIN_UNANSWERED, dut.channel.qp, pb::QpState::Sqd)?;
        let patience = t.rc_silence(Duration::ZERO, TIMEOUT, RETRY_CNT);
        if dut.see(t, sent.first, patience)? {
            let acks = dut.answers(t, &sent);
            dut.answer(t, (LATE, LATE_AGAIN), &acks, 1)?;
        }
    }
    dut.close(t)
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let cases = rc::cases(t)?;
    let case = &cases[0];
    for label in [FIRST, FIRST_AGAIN, SECOND, SECOND_AGAIN] {
        t.not_judged(label);
    }
    let drain = t.command(DRAIN)?;
    if matches!(rc::reply(drain), Some(Reply::Refused(_))) {
        f.not_applicable = Some("the host of the DUT's device refuses SQD".into());
        return Ok(());
    }
    let (held, resume) = (t.waited(HELD)?, t.command(RESUME)?);
    rc::sound_packets(f, &case.dialogue);
    let second = case.posted.get(1).ok_or(Gap::Missing(rc::steps::POST.name))?;
    let is_second = |frame: &rc::Seen<'_>| frame.packet.opcode().is_request() && frame.psn() == second.first;
    let sent: Vec<rc::Seen<'_>> = case.dialogue.of_dut().filter(is_second).collect();
    let early: Vec<rc::Seen<'_>> = sent.iter().filter(|seen| seen.place < held.place).copied().collect();
    let result = if early.is_empty() { Passed::Pass } else { Passed::Fail };
    let shown: Vec<Evidence<'_>> = early.iter().map(|seen| seen.frame.into()).collect();
    f.prove(
        STATES,
        &shown,
        "request posted in SQD",
        ("no packet in SQD", rc::in_words(&early)),
        result,
    );
    let result = if sent.len() > early.len() {
        Passed::Pass
    } else {
        rc::alive(t, resume.place, t.begin.simulated)
    };
    let words = ("a packet after RTS", rc::in_words(&sent));
    f.prove(STATES, &[resume.into()], "request posted in SQD, in RTS", words, result);
    let turn = answer::turn(t, &case.dialogue, WRITE).ok_or(Gap::Missing(WRITE.name))?;
    let expected = (turn.last_sent(), 1);
    answer::acknowledged(t, f, (STATES, WRITE.name), (&case.dialogue, &turn), expected);
    completions(t, f, case);
    // The ACK of the first SEND arrives in SQD, so the SEND must complete there.
    let asked = 1 + t.frames(FIRST_AGAIN).count();
    let told = |done: &rc::Done<'_>| done.completion.wr_id == 1 && done.event.place < resume.place;
    let done: Vec<rc::Done<'_>> = case
        .dialogue
        .completions
        .iter()
        .filter(|done| told(done))
        .cloned()
        .collect();
    let result = match done.is_empty() {
        false => Passed::Pass,
        true if t.begin.simulated || asked >= TRIES as usize => Passed::Fail,
        true => Passed::Inconclusive,
    };
    let words = ("a completion of wr_id 1 in SQD", rc::completions_in_words(&done));
    f.prove(
        STATES,
        &[drain.into(), resume.into()],
        "request sent before SQD, acknowledged in SQD",
        words,
        result,
    );
    comes_again(t, f, cases.get(1))?;
    for label in [NAK, NAK_AGAIN, READY, READY_AGAIN] {
        t.not_judged(label);
    }
    for label in [RESPONSE, RESPONSE_AGAIN] {
        t.not_judged(label);
    }
    let _ = (t.commands(DRAIN_READ).count(), t.waits(OPEN).count());
    let _ = (t.command(DRAIN_NOT_READY)?, t.waits(HELD_AGAIN).count());
    let is_drained = |told: &&HostEvent| matches!(&told.event, Event::AsyncEvent(event) if event.name == EventKind::SQ_DRAINED.to_string());
    let again = t.commands(DRAIN_AGAIN).next().map_or(case.end(), |drain| drain.place);
    let until = |from: usize, place: usize| {
        let within = t
            .timeline
            .told
            .iter()
            .filter(move |told| (from..place).contains(&told.place));
        within.filter(is_drained).collect::<Vec<&HostEvent>>()
    };
    let (drained, second) = (until(0, again), until(again, case.end()));
    let acknowledged = t.frames(FIRST).next().ok_or(Gap::Missing(FIRST.name))?;
    let too_early = drained.iter().any(|told| told.place < acknowledged.place);
    let result = match drained.len() {
        0 if t.begin.simulated => Passed::Inconclusive,
        0 => Passed::Pass,
        1 if !too_early => Passed::Pass,
        _ => Passed::Fail,
    };
    let shown: Vec<Evidence<'_>> = drained.iter().map(|told| (*told).into()).collect();
    let words = ("one, after the ACK of the first request", drained.len().to_string());
    f.prove(STATES, &shown, "IBV_EVENT_SQ_DRAINED", words, result);
    // A host that reports this event reports it each time.
    let result = match second.len() {
        1 => Passed::Pass,
        0 if !drained.is_empty() && again < case.end() => rc::alive(t, again, true),
        0 => Passed::Inconclusive,
        _ => Passed::Fail,
    };
    if result != Passed::Inconclusive {
        let shown: Vec<Evidence<'_>> = second.iter().map(|told| (*told).into()).collect();
        let words = ("one, because no request is outstanding", second.len().to_string());
        f.prove(STATES, &shown, "IBV_EVENT_SQ_DRAINED, in SQD again", words, result);
    }
    Ok(())
}

/// Checks that the DUT retransmits an unanswered request in SQD.
fn comes_again(t: &Trace, f: &mut Findings<'_>, case: Option<&rc::Case<'_>>) -> Result<(), Gap> {
    t.not_judged(LATE);
    t.not_judged(LATE_AGAIN);
    let drain = t.command(DRAIN_UNANSWERED)?;
    let case = case.ok_or(Gap::Missing(DRAIN_UNANSWERED.name))?;
    rc::sound_packets(f, &case.dialogue);
    let requests = case.dialogue.of_dut().filter(|seen| seen.packet.opcode().is_request());
    let again: Vec<rc::Seen<'_>> = requests.filter(|seen| seen.place > drain.place).collect();
    let result = match again.is_empty() {
        false => Passed::Pass,
        true => rc::alive(t, drain.place, t.begin.simulated),
    };
    let shown: Vec<Evidence<'_>> = [drain.into()]
        .into_iter()
        .chain(again.iter().map(|seen| seen.frame.into()))
        .collect();
    let words = ("a retransmission in SQD", rc::in_words(&again));
    f.prove(STATES, &shown, "unanswered request in SQD", words, result);
    Ok(())
}

/// Checks that all three requests complete with success, once and in order.
fn completions(t: &Trace, f: &mut Findings<'_>, case: &rc::Case<'_>) {
    let done = &case.dialogue.completions;
    let are = |done: &[rc::Done<'_>]| {
        let numbers = done.iter().map(|done| (done.completion.wr_id, done.completion.status));
        numbers.eq([(1, 0), (2, 0), (3, 0)])
    };
    let result = match done.len() {
        3 if are(done) => Passed::Pass,
        0..=2 => rc::alive(t, case.end(), t.begin.simulated),
        _ => Passed::Fail,
    };
    let words = ("wr_id 1, 2 and 3 with IBV_WC_SUCCESS", rc::completions_in_words(done));
    f.prove(COMPLETION, &rc::evidence(done), "completions", words, result);
}
