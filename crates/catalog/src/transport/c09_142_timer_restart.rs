//! `c09-142-timer-restart`: progress restarts the timer of the local ACK timeout.
//!
//! The DUT posts ten SENDs at once; the peer acknowledges one of them every T/2, for longer than 4 T in all. Each ACK is
//! progress, so nothing may be sent again earlier than T after the last one before it. On another connection a READ gets a response
//! every T/2, where the device has READs; on a third a sequence NAK has a SEND sent again shortly before the DUT's own time-out, and nobody answers it then. A SEND of eight packets is acknowledged
//! packet by packet, every T/2. Of a SEND that nobody answers the peer says nothing, but every T/2 that one long before it is done: that is no progress, so that it is retried in
//! time. There the rule `timer-restarts` judges.
//! Reading: an ACK of any outstanding request is progress. False alarm: where an ACK is lost or late, the next one is no
//! nearer than T, and a retry between the two is judged by the ACK that surely had arrived before it.

use core::time::Duration;

use verbatim_record::verbs::pb;
use verbatim_record::{
    Evidence, Findings, FrameSeen, Frames, Gap, Label, Passed, Trace, Wait, WcStatus, duration_words,
};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Parameter, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, NakCode};

use crate::transport::rc::{self, Ask, Requester, offers};
use verbatim_oracle as oracle;

const TIMEOUT: &str = "C9-142";

const ACK: Label<Frames> = Label::new("ACK, half a timeout after the one before");
const REST: Label<Frames> = Label::new("ACK of all, at the end");
const REST_AGAIN: Label<Frames> = Label::new("ACK of all, at the end, again");

const ENDS: Label<Wait> = Label::new("until all retries are over");
const PART: Label<Frames> = Label::new("response, half a timeout after the one before");
const NAK: Label<Frames> = Label::new("sequence NAK, shortly before the timeout");
const PART_ACK: Label<Frames> = Label::new("ACK of a packet, half a timeout after the one before");
const OLD_ACK: Label<Frames> = Label::new("ACK of what was done long ago");

/// Responses to a READ, each half a timeout after the one before: fewer than a retry in the midst of them takes.
const RESPONSES: u32 = 6;
/// SENDs, each acknowledged half a timeout after the one before.
const REQUESTS: u32 = 10;
/// Packets of a message, each acknowledged half a timeout after the one before: as many as any device sends at once.
const PARTS: u32 = 8;
/// SENDs, each posted half a timeout after the one before, over more than 4 timeouts.
const POSTS: u32 = 12;
/// What an adapter may need from the decision to send to the packet on the wire.
const WITHIN: Duration = Duration::from_millis(1);
/// Exchanges by which the path is measured, before and after.
const ROUND_TRIPS: u32 = 110;

/// Progress and the timer.
pub(super) static TEST: Test = Test {
    id: "c09-142-timer-restart",
    aliases: &[],
    revision: 5,
    about: "Progress restarts the local ACK timeout: nothing is retried while ACKs keep coming.",
    reading: "An ACK every T/2 for longer than 4 T: no retry earlier than T after an ACK that had surely arrived. What is posted \
        meanwhile restarts nothing.",
    statements: &[TIMEOUT, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[Parameter {
        name: "timeout_code",
        about: "local ACK timeout of the DUT's queue pair: T = 4.096 us times 2 to the power of it",
        range: (8, 20),
        simulated: 15,
        default: 15,
    }],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let timeout = t.nearest_timeout(AckTimeout(t.parameter("timeout_code") as u8));
    let options = ChannelOptions {
        timeout,
        ..ChannelOptions::default()
    };
    let mut dut = Requester::open(t, &options)?;
    t.measure_path(ROUND_TRIPS)?;
    let mut sent = Vec::new();
    for at in 0..REQUESTS {
        sent.push(dut.post(t, Ask::send(64).at(64 * at))?);
    }
    let half = timeout.duration().unwrap_or_default() / 2;
    let (last, before) = sent.split_last().expect("there are ten");
    for sent in before {
        t.pause(half)?;
        t.send_frame(ACK, &dut.ack(sent.last, sent.msn))?;
    }
    let came = dut.come(t)?;
    let ack = dut.answers(t, last);
    dut.answer(t, (REST, REST_AGAIN), &ack, REQUESTS - came)?;
    t.measure_path(ROUND_TRIPS)?;
    dut.close(t)?;
    if t.offers(pb::Operation::Read) {
        read(t, &options)?;
    }
    posted_meanwhile(t, &options)?;
    stale_acks(t, &options)?;
    parts(t, &options)?;
    asked_again(t, &options)
}

/// A READ whose responses come one by one.
fn read(t: &mut Tester<'_>, options: &ChannelOptions) -> Step {
    let mut dut = Requester::open(t, options)?;
    let half = options.timeout.duration().unwrap_or_default() / 2;
    let read = dut.post(t, Ask::new(pb::Operation::Read, RESPONSES * dut.mtu))?;
    if dut.see_all(t, &read)? {
        for response in dut.answers(t, &read) {
            t.pause(half)?;
            t.send_frame(PART, &response)?;
        }
        dut.completions(t, 1)?;
    }
    dut.close(t)
}

/// A SEND that nobody answers, while others are posted: they are no progress, so that it comes again all the same, and fails.
fn posted_meanwhile(t: &mut Tester<'_>, options: &ChannelOptions) -> Step {
    let options = ChannelOptions {
        retry_cnt: 1,
        ..*options
    };
    let mut dut = Requester::open(t, &options)?;
    let half = options.timeout.duration().unwrap_or_default() / 2;
    for at in 0..POSTS {
        dut.post(t, Ask::send(64).at(64 * at))?;
        t.pause(half)?;
        if dut.come(t)? > 0 {
            break;
        }
    }
    t.wait_for(ENDS, t.rc_silence(Duration::ZERO, options.timeout, 1))?;
    dut.close(t)
}

/// A SEND of many packets, each acknowledged half a timeout after the one before.
fn parts(t: &mut Tester<'_>, options: &ChannelOptions) -> Step {
    let mut dut = Requester::open(t, options)?;
    let half = options.timeout.duration().unwrap_or_default() / 2;
    let send = dut.post(t, Ask::send(PARTS * dut.mtu))?;
    if dut.see_all(t, &send)? {
        for at in 0..PARTS - 1 {
            t.pause(half)?;
            t.send_frame(PART_ACK, &dut.ack(send.first.plus(at), send.msn - 1))?;
        }
        let ack = dut.answers(t, &send);
        dut.answer(t, (REST, REST_AGAIN), &ack, 1)?;
    }
    dut.close(t)
}

/// A SEND that nobody answers, while what was done long ago is acknowledged again and again: not what was done last, whose ACK may come
/// again with credits.
fn stale_acks(t: &mut Tester<'_>, options: &ChannelOptions) -> Step {
    let options = ChannelOptions {
        retry_cnt: 1,
        ..*options
    };
    let mut dut = Requester::open(t, &options)?;
    let half = options.timeout.duration().unwrap_or_default() / 2;
    let old = dut.post(t, Ask::send(64))?;
    let done = dut.post(t, Ask::send(64))?;
    if dut.see_all(t, &old)? && dut.see_all(t, &done)? {
        let ack = dut.answers(t, &done);
        dut.answer(t, (REST, REST_AGAIN), &ack, 2)?;
        let waits = dut.post(t, Ask::send(64))?;
        dut.see_all(t, &waits)?;
        for _ in 0..POSTS {
            t.pause(half)?;
            t.send_frame(OLD_ACK, &dut.ack(old.last, old.msn))?;
        }
        t.wait_for(ENDS, t.rc_silence(Duration::ZERO, options.timeout, 1))?;
    }
    dut.close(t)
}

/// A SEND that nobody answers, so that it comes again; then it is asked for shortly before its time is up, and not answered until it
/// has come once more.
fn asked_again(t: &mut Tester<'_>, options: &ChannelOptions) -> Step {
    let mut dut = Requester::open(t, options)?;
    let patience = t.rc_silence(Duration::ZERO, options.timeout, 1);
    let send = dut.post(t, Ask::send(64))?;
    let mut was_seen = dut.see_all(t, &send)?;
    let since = t.now();
    was_seen = was_seen && dut.see(t, send.first, patience)?;
    if was_seen {
        // Between T and 4 T is its own choice.
        let own = t.now().since(since);
        t.pause(own * 9 / 10)?;
        t.send_frame(NAK, &dut.nak(send.first, NakCode::PSN_SEQUENCE_ERROR, 0))?;
        let came = dut.see(t, send.first, patience)? && dut.see(t, send.first, patience)?;
        if came {
            let ack = dut.answers(t, &send);
            dut.answer(t, (REST, REST_AGAIN), &ack, 1)?;
        }
    }
    dut.close(t)
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let path = rc::path(t);
    offers::was_posted(t, pb::Operation::Read)?;
    t.not_judged(PART);
    t.not_judged(ENDS);
    for label in [NAK, PART_ACK, OLD_ACK] {
        t.not_judged(label);
    }
    let cases = rc::cases(t)?;
    let case = cases.first().ok_or(Gap::Missing("a connection"))?;
    let code = case
        .dialogue
        .attributes
        .timeout
        .and_then(|code| u8::try_from(code).ok());
    let once = AckTimeout(code.unwrap_or(0)).duration().unwrap_or_default();
    let habit = oracle::habits(t).of_retry(false);
    rc::sound_packets(f, &case.dialogue);
    let acks = case.frames(t, ACK);
    let rest = case.frames(t, REST);
    let until = rest.first().map_or(case.end(), |rest| rest.place);
    let sent = case.sent(case.start(), until);
    let (mut retries, mut early, mut unattributed) = (0, 0, Vec::new());
    for (at, seen) in sent.iter().enumerate() {
        let Some(before) = sent[..at].iter().rev().find(|before| before.psn() == seen.psn()) else {
            case.is_posted(f, rc::GENERATION, "first transmission", seen);
            continue;
        };
        if habit.is_some() && seen.frame.at.since(before.frame.at).0 < once {
            early += 1;
            continue;
        }
        // An ACK counts when it surely had arrived: its request was told complete before the next one was sent, and
        // there was time for what the DUT had sent, or begun to send, before.
        let surely = |(wr_id, ack): &(usize, &&FrameSeen)| {
            let next = acks.get(*wr_id).map_or(usize::MAX, |next| next.place);
            let done = case.dialogue.completions_between(ack.place, next.min(seen.frame.place));
            let completed = done.iter().any(|done| done.completion.wr_id == *wr_id as u64);
            completed && path.is_some_and(|path| seen.frame.at.since(ack.at).0 > path + WITHIN)
        };
        let (Some((_, ack)), Some(path)) = ((1..).zip(&acks).filter(surely).last(), path) else {
            unattributed.push(Evidence::from(seen.frame));
            continue;
        };
        retries += 1;
        let (least, most) = seen.frame.at.since(ack.at);
        let result = match (least.saturating_sub(path) >= once, most < once) {
            (true, _) => Passed::Pass,
            (_, true) => Passed::Fail,
            _ => Passed::Inconclusive,
        };
        let seen_words = format!(
            "{}..{} after it",
            duration_words(least.saturating_sub(path)),
            duration_words(most)
        );
        let words = (
            format!("a retry {} after an ACK or later", duration_words(once)),
            seen_words,
        );
        let evidence = [Evidence::from(*ack), seen.frame.into()];
        let measured = ((least.saturating_sub(path), most), Some(once), None);
        f.prove_time(TIMEOUT, &evidence, "ACK to retry", words, measured, result);
    }
    if let Some(habit) = habit.filter(|_| early > 0) {
        f.not_applicable = Some(format!("{}: whether ACKs restart its timer is not seen", habit.words()));
    } else if retries == 0 && !unattributed.is_empty() {
        let words = (
            "none",
            format!("{}, before which no ACK surely was", unattributed.len()),
        );
        f.prove(
            TIMEOUT,
            &unattributed,
            "retries while ACKs keep coming",
            words,
            Passed::Inconclusive,
        );
    } else if retries == 0 {
        let lasted = acks
            .last()
            .zip(acks.first())
            .map_or(Duration::ZERO, |(last, first)| last.at.since(first.at).1);
        let evidence: Vec<Evidence<'_>> = acks.iter().map(|ack| Evidence::from(*ack)).collect();
        // Without a request outstanding behind an ACK no timer runs on, and an ACK that does not arrive starts none anew.
        // Nothing follows the last.
        let before_last = acks.split_last().map_or(&[][..], |(_, before)| before);
        let counted = (1_usize..).zip(before_last).filter(|(wr_id, ack)| {
            let next = acks.get(*wr_id).map_or(until, |next| next.place);
            let done = case.dialogue.completions_between(ack.place, next);
            let heard = done.iter().any(|done| done.completion.wr_id == *wr_id as u64);
            let outstanding = sent.iter().filter(|seen| seen.place < ack.place).count() > *wr_id;
            heard && outstanding
        });
        let counted = counted.count();
        let ran = !before_last.is_empty() && counted == before_last.len();
        let seen = format!(
            "none in {}, with {counted} of {} ACKs heard while requests were outstanding",
            duration_words(lasted),
            before_last.len()
        );
        let result = if ran { Passed::Pass } else { Passed::Inconclusive };
        f.prove(
            TIMEOUT,
            &evidence,
            "retries while ACKs keep coming",
            ("none", seen),
            result,
        );
    }
    let expected: Vec<(u64, &[WcStatus])> = (1..=u64::from(REQUESTS))
        .map(|wr_id| (wr_id, &[WcStatus::SUCCESS] as &[WcStatus]))
        .collect();
    let again = rc::asked_again(&case.frames(t, REST_AGAIN), 1);
    let about = "all were acknowledged";
    let window = (case.start(), case.end());
    let done = case.dialogue.completions_between(window.0, window.1);
    let spent = done.iter().any(|done| done.status() == WcStatus::RETRY_EXC_ERR);
    if spent && !t.begin.simulated {
        // ACKs that were lost let the retries run out by right.
        let words = ("all with IBV_WC_SUCCESS", rc::completions_in_words(&done));
        f.prove(TIMEOUT, &rc::evidence(&done), about, words, Passed::Inconclusive);
    } else {
        case.completes(t, f, (TIMEOUT, about), window, (&expected, again));
    }
    Ok(())
}
