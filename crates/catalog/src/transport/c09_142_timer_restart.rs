//! `c09-142-timer-restart`: progress restarts the timer of the local ACK timeout T.
//!
//! The DUT posts ten SENDs at once. The peer acknowledges one of them every T/2, for longer than 4 T in all. Each
//! ACK is progress, so the DUT must not retransmit within T after an ACK.
//!
//! The rule `timer-restarts` judges the other connections:
//! - The peer sends one response to a READ every T/2, if the device has READs.
//! - The DUT posts a SEND every T/2, and the peer answers none. Posting is no progress.
//! - The peer acknowledges an old request every T/2, while a SEND stays unanswered. Such an ACK is no progress, so the
//!   DUT retries the SEND in time.
//! - The peer acknowledges one packet of a SEND of eight packets every T/2.
//! - A sequence NAK makes the DUT retransmit a SEND shortly before its time-out. Then the peer leaves the SEND
//!   unanswered until the DUT retries it.
//!
//! Reading: an ACK of any outstanding request is progress.
//!
//! False alarm: an ACK may be lost or late. The test therefore judges a retry by the last ACK that had surely arrived
//! before the retry.

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

/// Number of READ responses, T/2 apart. Together they take 3 T, less than the 4 T that a retry may take.
const RESPONSES: u32 = 6;
/// Number of SENDs that the peer acknowledges, T/2 apart.
const REQUESTS: u32 = 10;
/// Number of packets of a message, acknowledged T/2 apart. Any device sends this many at once.
const PARTS: u32 = 8;
/// Number of SENDs that the DUT posts, T/2 apart, for more than 4 T.
const POSTS: u32 = 12;
/// Time that an adapter may need from the decision to send to the packet on the wire.
const WITHIN: Duration = Duration::from_millis(1);
/// Number of round trips that the test measures before and after its steps.
const ROUND_TRIPS: u32 = 110;

pub(super) static TEST: Test = Test {
    id: "c09-142-timer-restart",
    aliases: &[],
    revision: 5,
    about: "Progress restarts the local ACK timeout: nothing is retried while ACKs keep coming.",
    reading: "An ACK every T/2 for longer than 4 T: no retry earlier than T after an ACK that had surely arrived. A \
        request posted meanwhile does not restart the timer.",
    statements: &[TIMEOUT, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[Parameter {
        name: "timeout_code",
        about: "code of the local ACK timeout of the DUT's queue pair: T = 4.096 us times 2 to the power of the code",
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

/// Answers a READ with one response every T/2.
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

/// Leaves a SEND unanswered while the DUT posts other SENDs. Posting is no progress, so the DUT retries the first
/// SEND and then fails it.
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

/// Acknowledges a SEND of many packets, one packet every T/2.
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

/// Leaves a SEND unanswered while the peer repeats the ACK of an old request.
///
/// The old request is not the newest completed request, because a peer may repeat the newest ACK to report credits.
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

/// Leaves a SEND unanswered until the DUT retries it, and sends a sequence NAK shortly before the next time-out.
///
/// Acknowledges the SEND after two more transmissions.
fn asked_again(t: &mut Tester<'_>, options: &ChannelOptions) -> Step {
    let mut dut = Requester::open(t, options)?;
    let patience = t.rc_silence(Duration::ZERO, options.timeout, 1);
    let send = dut.post(t, Ask::send(64))?;
    let mut was_seen = dut.see_all(t, &send)?;
    let since = t.now();
    was_seen = was_seen && dut.see(t, send.first, patience)?;
    if was_seen {
        // Measure the DUT's own timeout, which lies between T and 4 T.
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
        // An ACK counts only if it had surely arrived. Its request must have completed before the next ACK, and packets
        // that the DUT was already sending must have had time to arrive.
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
            format!("a retry at least {} after the ACK", duration_words(once)),
            seen_words,
        );
        let evidence = [Evidence::from(*ack), seen.frame.into()];
        let measured = ((least.saturating_sub(path), most), Some(once), None);
        f.prove_time(TIMEOUT, &evidence, "ACK to retry", words, measured, result);
    }
    if let Some(habit) = habit.filter(|_| early > 0) {
        f.not_applicable = Some(format!(
            "{}: the test cannot see whether ACKs restart its timer",
            habit.words()
        ));
    } else if retries == 0 && !unattributed.is_empty() {
        let words = (
            "none",
            format!(
                "{}, each without an ACK that had surely arrived before",
                unattributed.len()
            ),
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
        // Count the ACKs that restarted a timer: the ACK arrived while a later request was outstanding. After the
        // last ACK no request is outstanding.
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
            "none in {}; {counted} of {} ACKs arrived while requests were outstanding",
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
        // If ACKs were lost, the DUT rightly exhausted its retries.
        let words = ("all with IBV_WC_SUCCESS", rc::completions_in_words(&done));
        f.prove(TIMEOUT, &rc::evidence(&done), about, words, Passed::Inconclusive);
    } else {
        case.completes(t, f, (TIMEOUT, about), window, (&expected, again));
    }
    Ok(())
}
