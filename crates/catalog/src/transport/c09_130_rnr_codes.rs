//! `c09-130-rnr-codes`: a requester waits at least the interval of every RNR code, after each RNR NAK.
//!
//! For each of the 32 codes the DUT posts a SEND, which gets two RNR NAKs with that code and then an ACK. Neither
//! retry may come before the interval is over. Code 0 has the longest interval, 655.36 ms. The test sets no upper
//! bound.
//!
//! Reading: the interval of code 31 is 491.52 ms. The tester cannot distinguish an interval below twice the
//! longest measured round trip from the delay of the path. The test leaves out the codes of such intervals, and
//! the report lists them.
//!
//! False alarm: a switch that delays packets for as long as the interval may hide an early retry, but never causes one.

use core::time::Duration;

use verbatim_record::{Evidence, Findings, Frames, Gap, Label, Passed, Trace, WcStatus, duration_words};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Parameter, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, Medium, Packet, RnrTimer, SyndromeKind};

use crate::transport::rc::{self, Ask, Case, Requester};

const INTERVAL: &str = "C9-130";
const RETRY: &str = "9.7.5.2.8 RNR retry";

const NAK: Label<Frames> = Label::new("RNR NAK");
const NAK_AGAIN: Label<Frames> = Label::new("RNR NAK, again");
const ACK: Label<Frames> = Label::new("ACK");
const ACK_AGAIN: Label<Frames> = Label::new("ACK, again");

/// Number of RNR NAKs that each request gets.
const NAKS: usize = 2;
/// Number of round trips that the test measures before and after its steps.
const ROUND_TRIPS: u32 = 110;

pub(super) static TEST: Test = Test {
    id: "c09-130-rnr-codes",
    aliases: &[],
    revision: 1,
    about: "A requester waits at least the interval of the RNR NAK, for each RNR code.",
    reading: "Two RNR NAKs for each code. PASS: the shortest possible time, minus the longest round trip, is long \
        enough. FAIL: even the longest possible time is too short. Code 0 is 655.36 ms, 31 is 491.52 ms.",
    statements: &[INTERVAL, RETRY, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[Parameter {
        name: "least_interval_us",
        about: "the test leaves out codes of a shorter interval, in microseconds; 0: twice the longest round trip",
        range: (0, 655_360),
        simulated: 0,
        default: 0,
    }],
    procedure,
    judge,
};

/// Returns the codes to try and the codes to leave out.
fn codes(least_us: u64, round_trip: Duration) -> (Vec<RnrTimer>, Vec<RnrTimer>) {
    let least = match least_us {
        0 => 2 * round_trip,
        given => Duration::from_micros(given),
    };
    (0..32).map(RnrTimer).partition(|code| code.duration() >= least)
}

fn procedure(t: &mut Tester<'_>) -> Step {
    let mut dut = Requester::open(t, &ChannelOptions::default())?;
    t.measure_path(ROUND_TRIPS)?;
    let (tried, _) = codes(t.parameter("least_interval_us"), t.longest_round_trip());
    for code in tried {
        let patience = t.rc_silence(code.duration(), AckTimeout::OFF, 0);
        let sent = dut.post(t, Ask::send(64))?;
        if !dut.see(t, sent.first, patience)? {
            break;
        }
        let nak = dut.rnr_nak(sent.first, code, sent.msn - 1);
        let mut retried = true;
        for _ in 0..NAKS {
            retried = retried && dut.provoke(t, (NAK, NAK_AGAIN), &nak, (sent.first, patience))?;
        }
        let ack = dut.answers(t, &sent);
        if !retried || !dut.answer(t, (ACK, ACK_AGAIN), &ack, 1)? {
            break;
        }
    }
    t.measure_path(ROUND_TRIPS)?;
    dut.close(t)
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let cases = rc::cases(t)?;
    let case = cases.first().ok_or(Gap::Missing("a connection"))?;
    rc::sound_packets(f, &case.dialogue);
    let path = rc::path(t);
    // The longest round trip that the procedure knew when it chose the codes.
    let round_trip = t
        .timeline
        .round_trips
        .first()
        .map_or(Duration::ZERO, |trips| trips.longest);
    let (asked, left_out) = codes(t.parameter("least_interval_us").unwrap_or(0), round_trip);
    if !left_out.is_empty() {
        let list = |codes: &[RnrTimer]| {
            codes
                .iter()
                .map(|code| code.0.to_string())
                .collect::<Vec<_>>()
                .join(", ")
        };
        f.observe(
            format!(
                "RNR codes tried: {}; left out: {}: their intervals are shorter than twice the longest round trip \
                 before the test ({}) or than least_interval_us",
                list(&asked),
                list(&left_out),
                duration_words(round_trip)
            ),
            &[],
        );
    }
    for (at, (posted, code)) in case.posted.iter().zip(asked).enumerate() {
        let until = case.posted.get(at + 1).map_or(case.end(), |next| next.command.place);
        retries(t, f, case, (posted.command.place, until), code, path);
        let acks: Vec<_> = case
            .frames(t, ACK)
            .into_iter()
            .filter(|ack| ack.place < until)
            .collect();
        if let Some(ack) = acks.last().filter(|ack| ack.place > posted.command.place) {
            let expected: [(u64, &[WcStatus]); 1] = [(at as u64 + 1, &[WcStatus::SUCCESS])];
            let again = rc::asked_again(&case.frames(t, ACK_AGAIN), 1);
            let about = format!("{code}: after the ACK");
            case.completes(t, f, (RETRY, &about), (ack.place, until), (&expected, again));
        }
    }
    let _ = (case.frames(t, ACK), case.frames(t, ACK_AGAIN));
    Ok(())
}

/// Checks the retries of one request.
fn retries(
    t: &Trace,
    f: &mut Findings<'_>,
    case: &Case<'_>,
    (after, until): (usize, usize),
    code: RnrTimer,
    path: Option<Duration>,
) {
    let sent = case.sent(after, until);
    let mut naks = [case.frames(t, NAK), case.frames(t, NAK_AGAIN)].concat();
    naks.retain(|nak| nak.place > after && nak.place < until);
    naks.sort_by_key(|nak| nak.place);
    let transmissions: Vec<_> = sent.iter().map(|seen| seen.frame).collect();
    for (number, seen) in sent.iter().enumerate() {
        let statement = if number == 0 { rc::GENERATION } else { RETRY };
        case.is_posted(f, statement, &code.to_string(), seen);
        let Some((first, nak)) = rc::answered_by(&naks, &transmissions, number, path) else {
            continue;
        };
        let asked = asked_for(&nak.bytes).unwrap_or(code);
        let (least, most) = seen.frame.at.since(nak.at);
        let at_dut = least.saturating_sub(path.unwrap_or_default());
        let result = if at_dut >= asked.duration() && path.is_some() {
            Passed::Pass
        } else if seen.frame.at.since(first.at).1 < asked.duration() && path.is_none_or(|path| path < asked.duration())
        {
            // The round trip is shorter than the interval, so the NAK that caused this retry is known.
            Passed::Fail
        } else {
            Passed::Inconclusive
        };
        let words = (
            format!("no retry within the interval of {asked}"),
            format!(
                "retry {number} {}..{} after the RNR NAK{}",
                duration_words(at_dut),
                duration_words(most),
                rc::taken_off(path, result)
            ),
        );
        let evidence = [Evidence::from(nak), seen.frame.into()];
        let measured = ((at_dut, most), Some(asked.duration()), None);
        let about = format!("{code}: RNR NAK to retry");
        f.prove_time(INTERVAL, &evidence, &about, words, measured, result);
    }
    let result = match sent.len().cmp(&(1 + NAKS)) {
        core::cmp::Ordering::Equal => Passed::Pass,
        // A repeated RNR NAK may have crossed the retry, and the DUT then retries after both.
        core::cmp::Ordering::Greater if naks.len() > NAKS => Passed::Inconclusive,
        core::cmp::Ordering::Greater => Passed::Fail,
        core::cmp::Ordering::Less => rc::alive(t, case.end(), naks.len() >= 3),
    };
    let statement = if sent.is_empty() { rc::GENERATION } else { RETRY };
    let evidence: Vec<Evidence<'_>> = sent.iter().map(|seen| seen.frame.into()).collect();
    let words = ((1 + NAKS).to_string(), sent.len().to_string());
    f.prove(statement, &evidence, &format!("{code}: transmissions"), words, result);
}

/// Returns the RNR timer code of the peer's NAK.
fn asked_for(frame: &[u8]) -> Option<RnrTimer> {
    let packet = Packet::parse(Medium::Ethernet, frame).ok()?;
    match packet.aeth()?.syndrome().kind() {
        SyndromeKind::RnrNak(timer) => Some(timer),
        _ => None,
    }
}
