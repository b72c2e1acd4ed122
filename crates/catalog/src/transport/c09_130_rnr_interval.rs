//! `c09-130-rnr-interval` (C09_130_01): a requester waits at least the interval that an RNR NAK requests.
//!
//! The DUT posts one SEND of one packet. The peer answers each transmission with an RNR NAK. A correct requester
//! retries `rnr_retry` times, not before the interval is over, with the same PSN, opcode and payload. After the last
//! RNR NAK it sends nothing more, completes the request with IBV_WC_RNR_RETRY_EXC_ERR, and its queue pair is in error.
//!
//! The ACK timeout is off, so that nothing else makes the DUT retry. The second test,
//! `c09-130-rnr-interval-ack-timeout`, uses an ACK timeout shorter than the interval. This timeout must not bring
//! the retry forward.
//!
//! Reading: the interval of code 31 is 491.52 ms, and the test measures it; 492.52 in the public description of
//! C09_130_01 is a slip. The MSN of the NAK on a fresh queue pair is 0; the description's 1 is a slip.
//!
//! False alarm: a switch that delays packets for as long as the interval may hide an early retry, but never causes one.

use core::time::Duration;

use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{
    Evidence, Findings, FrameSeen, Frames, Gap, Label, Passed, Side, Trace, Verbs, Wait, WcStatus, duration_words,
};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Parameter, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, Opcode, RnrTimer, Syndrome};

use crate::transport::rc::{self, Seen};

/// Statement on the number and the packets of retries after RNR NAKs.
const RETRY: &str = "9.7.5.2.8 RNR retry";
/// Statement on the completion when the retries are exhausted.
const ERROR: &str = "9.7.5.2.8 RNR error completion";

const FILL: Label<Verbs> = Label::new("fill the memory");
const POST: Label<Verbs> = Label::new("post the SEND");
const NAK: Label<Frames> = Label::new("RNR NAK");
const NAK_AGAIN: Label<Frames> = Label::new("RNR NAK, again");
const AFTER: Label<Wait> = Label::new("after the last RNR NAK");
const STATE: Label<Verbs> = Label::new("state of the queue pair at the end");

/// Number of RNR NAKs after which a requester has shown that it retries without end.
const WITHOUT_END: u8 = 12;
/// Value of rnr_retry for retries without end.
const INFINITE: u8 = 7;
/// Number of round trips that the test measures before and after its steps.
const ROUND_TRIPS: u32 = 110;
/// Shortest interval that leaves room for an ACK timeout.
const ROOM: Duration = Duration::from_millis(20);

/// Smallest number of early retries that lost RNR NAKs do not explain.
const EARLY: usize = 3;

const RNR_CODE: Parameter = Parameter {
    name: "rnr_code",
    about: "code of the interval that the RNR NAK asks for: 31 = 491.52 ms, 0 = 655.36 ms, 1 = 0.01 ms",
    range: (0, 31),
    simulated: 31,
    default: 31,
};
const RNR_RETRY: Parameter = Parameter {
    name: "rnr_retry",
    about: "RNR retries of the DUT's queue pair; 7 = without end",
    range: (0, 7),
    simulated: 1,
    default: 1,
};

const READING: &str = "The test measures the time from the RNR NAK to the retry; code 31 is 491.52 ms. PASS: the \
    shortest possible time, minus the longest round trip, is long enough. FAIL: even the longest possible time is too \
    short. Exactly 1 + rnr_retry transmissions, then IBV_WC_RNR_RETRY_EXC_ERR; 0 = no retry; 7 = still retrying after \
    12 RNR NAKs.";

/// Test without an ACK timeout.
pub(super) static PLAIN: Test = Test {
    id: "c09-130-rnr-interval",
    aliases: &["C09_130_01"],
    revision: 1,
    about: "After an RNR NAK a requester waits at least the NAK's interval, and makes exactly rnr_retry retries.",
    reading: READING,
    statements: &["C9-130", RETRY, ERROR, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[RNR_CODE, RNR_RETRY],
    procedure: |t| procedure(t, false),
    judge,
};

/// Test with an ACK timeout that is shorter than the interval.
pub(super) static ACK_TIMEOUT: Test = Test {
    id: "c09-130-rnr-interval-ack-timeout",
    about: "An ACK timeout shorter than the interval of an RNR NAK does not bring the retry forward.",
    reading: "As c09-130-rnr-interval. On hardware a lost RNR NAK with a legal time-out after it looks like an early \
        retry. FAIL needs three early retries, so rnr_retry must be 3 or more.",
    parameters: &[
        RNR_CODE,
        Parameter {
            about: "RNR retries of the DUT's queue pair; 7 = without end; below 3 the test cannot FAIL on hardware",
            default: 3,
            ..RNR_RETRY
        },
    ],
    procedure: |t| procedure(t, true),
    ..PLAIN
};

fn timeout_within(interval: Duration) -> AckTimeout {
    let fits = |code: &u8| AckTimeout(*code).duration().is_some_and(|once| 4 * once <= interval);
    AckTimeout((1..=31).rev().find(fits).unwrap_or(0))
}

fn procedure(t: &mut Tester<'_>, with_timeout: bool) -> Step {
    let code = RnrTimer(t.parameter("rnr_code") as u8);
    let rnr_retry = t.parameter("rnr_retry") as u8;
    let interval = code.duration();
    if with_timeout && interval < ROOM {
        return Ok(());
    }
    let timeout = if with_timeout {
        timeout_within(interval)
    } else {
        AckTimeout::OFF
    };
    let options = ChannelOptions {
        timeout,
        rnr_retry,
        ..ChannelOptions::default()
    };
    let channel = t.open_channel(&options)?;
    t.measure_path(ROUND_TRIPS)?;
    let length = channel.mtu.bytes().unwrap_or(256);
    let mut random = t.random("payload");
    let bytes = (0..length).map(|_| random.byte()).collect();
    let fill = Command::WriteMemory(pb::WriteMemory {
        memory: channel.memory.handle,
        offset: 0,
        bytes,
    });
    t.verbs_must(FILL, Side::Dut, fill)?;
    let post = Command::PostSend(pb::PostSend {
        qp: channel.qp,
        wr_id: 1,
        operation: pb::Operation::Send.into(),
        local: Some(channel.memory.slice(0, length)),
        signaled: true,
        ..pb::PostSend::default()
    });
    t.verbs_must(POST, Side::Dut, post)?;
    let patience = t.rc_silence(interval, timeout, 0);
    let nak = channel.acknowledge(channel.dut_psn, Syndrome::rnr_nak(code), 0);
    let naks = if rnr_retry == INFINITE {
        WITHOUT_END
    } else {
        rnr_retry + 1
    };
    let mut sent = 0;
    'transmissions: while sent < naks {
        for attempt in 0..verbatim_record::TRIES {
            if attempt > 0 {
                if sent == 0 {
                    break 'transmissions;
                }
                t.send_frame(NAK_AGAIN, &nak)?;
            }
            if t.next_packet(t.now().after(patience))?.is_some() {
                t.send_frame(NAK, &nak)?;
                sent += 1;
                continue 'transmissions;
            }
        }
        break;
    }
    t.wait_for(AFTER, t.rc_silence(interval, timeout, options.retry_cnt))?;
    t.verbs(STATE, Side::Dut, Command::QueryQp(pb::QueryQp { qp: channel.qp }))?;
    t.measure_path(ROUND_TRIPS)
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let parameter = |name| {
        t.parameter(name)
            .and_then(|value| u8::try_from(value).ok())
            .unwrap_or(0)
    };
    let (code, rnr_retry) = (RnrTimer(parameter("rnr_code")), parameter("rnr_retry"));
    if t.stopped.is_none() && t.timeline.commands.iter().all(|command| command.label != POST.name) {
        f.not_applicable = Some(format!(
            "no ACK timeout fits into the interval of {code}: choose an rnr_code with an interval of {} or more",
            duration_words(ROOM)
        ));
        return Ok(());
    }
    let all = rc::dialogues(t)?;
    let dialogue = &all[0];
    let (posted, waited) = (t.command(POST)?, t.waited(AFTER)?);
    let naks: Vec<_> = t.frames(NAK).collect();
    let again = t.frames(NAK_AGAIN).count();
    rc::sound_packets(f, dialogue);
    let sent: Vec<Seen<'_>> = dialogue.of_dut_between(posted.place, usize::MAX);
    let Some(first) = sent.first() else {
        let words = ("one RC SEND Only", "no packet");
        let result = rc::alive(t, waited.place, false);
        f.prove(
            rc::GENERATION,
            &[posted.into(), waited.into()],
            "request",
            words,
            result,
        );
        return Ok(());
    };
    let Command::WriteMemory(filled) = &t.command(FILL)?.command else {
        return Err(Gap::Missing(FILL.name));
    };
    is_the_request(
        f,
        rc::GENERATION,
        "first transmission",
        (dialogue, first),
        &filled.bytes,
    );
    let path = rc::path(t);
    let has_timeout = dialogue.attributes.timeout.unwrap_or(0) != 0;
    let all_naks: Vec<&FrameSeen> = t.frames(NAK).chain(t.frames(NAK_AGAIN)).collect();
    let transmissions: Vec<_> = sent.iter().map(|seen| seen.frame).collect();
    let answered = |at: usize| rc::answered_by(&all_naks, &transmissions, at, path);
    let is_early = |nak: &FrameSeen, retry: &Seen<'_>| {
        let most = retry.frame.at.since(nak.at).1;
        // A retry by the ACK timeout may have been on its way when the peer sent the NAK.
        let crossed = has_timeout && path.is_none_or(|path| most <= path);
        most < code.duration() && !crossed
    };
    let answered_early = |at: usize| {
        let (first, last) = answered(at)?;
        is_early(first, &sent[at]).then_some(last.place)
    };
    // After a lost NAK the ACK timeout rightly continues to run and may cause retries, so one or two early retries
    // prove nothing.
    let mut early: Vec<usize> = (1..sent.len()).filter_map(answered_early).collect();
    early.dedup();
    let may_be_lost = has_timeout && !t.begin.simulated && early.len() < EARLY;
    for (at, retry) in sent.iter().enumerate().skip(1) {
        is_the_request(f, RETRY, "retry", (dialogue, retry), &filled.bytes);
        let Some((first, nak)) = answered(at) else {
            continue;
        };
        let (least, most) = retry.frame.at.since(nak.at);
        let at_dut = least.saturating_sub(path.unwrap_or_default());
        let result = if at_dut >= code.duration() && path.is_some() {
            Passed::Pass
        } else if is_early(first, retry) && !may_be_lost {
            Passed::Fail
        } else {
            Passed::Inconclusive
        };
        let seen = format!(
            "retry {at} {}..{} after the RNR NAK ({:.3} times the interval at least){}",
            duration_words(at_dut),
            duration_words(most),
            at_dut.as_secs_f64() / code.duration().as_secs_f64(),
            rc::taken_off(path, result)
        );
        let expected = format!("no retry within the interval of RNR NAK {code}");
        f.prove_time(
            "C9-130",
            &[nak.into(), retry.frame.into()],
            "RNR NAK to retry",
            (expected, seen),
            ((at_dut, most), Some(code.duration()), None),
            result,
        );
        rc::no_completion(
            f,
            "C9-130",
            "between RNR NAK and retry",
            dialogue,
            (nak.place, retry.frame.place),
        );
    }
    let expected_naks = if rnr_retry == INFINITE {
        WITHOUT_END
    } else {
        rnr_retry + 1
    };
    let transmissions = sent.iter().filter(|seen| seen.place < waited.place).count();
    let last = naks.last().map_or(posted.place, |nak| nak.place);
    let evidence: Vec<Evidence<'_>> = sent.iter().map(|seen| seen.frame.into()).collect();
    if rnr_retry == INFINITE {
        let result = if transmissions > usize::from(WITHOUT_END) {
            Passed::Pass
        } else {
            rc::alive(t, waited.place, again >= 2)
        };
        let words = (
            format!("still retrying after {WITHOUT_END} RNR NAKs"),
            format!("{transmissions} transmissions"),
        );
        f.prove(RETRY, &evidence, "rnr_retry 7 = without end", words, result);
        rc::no_completion(
            f,
            RETRY,
            "rnr_retry 7 = without end",
            dialogue,
            (posted.place, waited.place),
        );
        let _ = t.command(STATE)?;
        return Ok(());
    }
    // If the DUT's retry was lost, the first repeated NAK rightly consumes another retry. A loss explains nothing that
    // the DUT did before the first repeated NAK.
    let done = dialogue.completions_between(posted.place, waited.place);
    let first_again = t.frames(NAK_AGAIN).next().map_or(usize::MAX, |again| again.place);
    let certain = match done.first() {
        Some(done) => done.event.place < first_again,
        None => again >= 2,
    };
    let words = (format!("{expected_naks} (1 + rnr_retry)"), transmissions.to_string());
    let result = match transmissions.cmp(&usize::from(expected_naks)) {
        core::cmp::Ordering::Equal => Passed::Pass,
        // A repeated RNR NAK may have crossed the retry, and the DUT then retries after both.
        core::cmp::Ordering::Greater if may_be_lost || again > 0 => Passed::Inconclusive,
        core::cmp::Ordering::Greater => Passed::Fail,
        core::cmp::Ordering::Less => rc::alive(t, waited.place, certain),
    };
    let counted = f.prove(RETRY, &evidence, "transmissions", words, result);
    if counted {
        rc::quiet(
            t,
            f,
            RETRY,
            "after the last RNR NAK",
            (dialogue, last, waited),
            code.duration(),
        );
        let allowed = [WcStatus::RNR_RETRY_EXC_ERR];
        let completed = rc::completion(
            t,
            f,
            ERROR,
            "after the last RNR NAK",
            (dialogue, last, waited.place),
            (1, &allowed),
        );
        // Without a completion the last NAK may have been lost. Then the queue pair is not in error yet.
        if completed.is_some() || t.begin.simulated {
            in_error(t, f)?;
        } else {
            let _ = t.command(STATE)?;
        }
    } else {
        let _ = t.command(STATE)?;
    }
    Ok(())
}

/// Checks that the queue pair is in the error state.
fn in_error(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let asked = t.command(STATE)?;
    let (seen, result) = match rc::reply(asked) {
        Some(Reply::Status(status)) => {
            let in_error = status.state() == pb::QpState::Err;
            let result = if in_error { Passed::Pass } else { Passed::Fail };
            (status.state().as_str_name().replace("QP_STATE_", ""), result)
        }
        _ => ("could not be read".into(), Passed::Inconclusive),
    };
    f.prove(ERROR, &[asked.into()], "state of the queue pair", ("ERR", seen), result);
    Ok(())
}

/// Checks that the packet is the posted SEND.
fn is_the_request(
    f: &mut Findings<'_>,
    statement: &str,
    about: &str,
    (dialogue, seen): (&rc::Dialogue<'_>, &Seen<'_>),
    payload: &[u8],
) {
    let (bth, frame) = (seen.packet.bth(), [Evidence::from(seen.frame)]);
    let result = |holds| if holds { Passed::Pass } else { Passed::Fail };
    let words = (Opcode::RC_SEND_ONLY.to_string(), bth.opcode().to_string());
    f.prove(
        statement,
        &frame,
        &format!("{about}: opcode"),
        words,
        result(bth.opcode() == Opcode::RC_SEND_ONLY),
    );
    let words = (dialogue.dut_psn.to_string(), bth.psn().to_string());
    f.prove(
        statement,
        &frame,
        &format!("{about}: PSN"),
        words,
        result(bth.psn() == dialogue.dut_psn),
    );
    let same = seen.packet.payload() == payload;
    let words = (
        format!("the {} bytes posted", payload.len()),
        if same {
            "the same".into()
        } else {
            format!("{} other bytes", seen.packet.payload().len())
        },
    );
    f.prove(statement, &frame, &format!("{about}: payload"), words, result(same));
}
