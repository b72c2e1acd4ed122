//! `c09-142-ack-timeout` (C09_142_01): a request without an answer is retried after T to 4 T, each time, retry_cnt times.
//!
//! Three connections. A READ that nobody answers, then two SENDs: each comes again between T and 4 T after the time
//! before, with the same PSN, the oldest first, exactly retry_cnt times; then IBV_WC_RETRY_EXC_ERR, and the queue pair is
//! in error. With the timeout 0 a SEND does not come again.
//! Reading: the public page sleeps T after each request; the architecture allows up to 4 T. Times are those between
//! arrivals at the tester; how far the path can shift them is the spread of its round trips.
//! False alarm: a lost retry looks like a late one, so a late one counts on hardware only when none is missing.

use core::time::Duration;

use verbatim_record::verbs::pb;
use verbatim_record::{Evidence, Findings, Gap, Label, Passed, Side, Trace, Wait, duration_words};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Parameter, Step, Test, Tester};
use verbatim_wire::packet::AckTimeout;

use super::c09_143_retry_count::spent;
use crate::transport::rc::{self, Ask, Case, Posted, Requester, Seen};

const TIMEOUT: &str = "C9-142";
const COUNT: &str = "C9-143";

const AFTER: Label<Wait> = Label::new("after the error completion");
const OFF: Label<Wait> = Label::new("unanswered, with the timeout off");

/// Exchanges by which the path is measured, before and after.
const ROUND_TRIPS: u32 = 110;
/// What the three connections post.
const REQUESTS: [&[Ask]; 3] = [
    &[Ask::new(pb::Operation::Read, 1024)],
    &[Ask::send(64), Ask::send(64).at(64)],
    &[Ask::send(64)],
];

/// Time-outs, counted and measured.
pub(super) static TEST: Test = Test {
    id: "c09-142-ack-timeout",
    aliases: &["C09_142_01"],
    revision: 1,
    about: "A request without an answer is retried after T to 4 T, retry_cnt times, and then fails; never with timeout 0.",
    reading: "Each transmission T to 4 T after the one before, give or take the spread of the path's round trips; the oldest \
        request first; exactly 1 + retry_cnt transmissions, then IBV_WC_RETRY_EXC_ERR; timeout 0 = never.",
    statements: &[TIMEOUT, COUNT, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[
        Parameter {
            name: "timeout_code",
            about: "local ACK timeout of the DUT's queue pair: T = 4.096 us times 2 to the power of it",
            range: (1, 20),
            simulated: 14,
            default: 14,
        },
        Parameter {
            name: "retry_cnt",
            about: "retries of the DUT's queue pair",
            range: (0, 7),
            simulated: 2,
            default: 2,
        },
    ],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let timeout = AckTimeout(t.parameter("timeout_code") as u8);
    let retry_cnt = t.parameter("retry_cnt") as u8;
    for (at, requests) in REQUESTS.iter().enumerate() {
        let timeout = if at == 2 { AckTimeout::OFF } else { timeout };
        let options = ChannelOptions {
            timeout,
            retry_cnt,
            ..ChannelOptions::default()
        };
        let mut dut = Requester::open(t, &options)?;
        if at == 0 {
            t.measure_path(ROUND_TRIPS)?;
        }
        for ask in *requests {
            dut.post(t, *ask)?;
        }
        let silence = t.rc_silence(Duration::ZERO, timeout, retry_cnt);
        if timeout == AckTimeout::OFF {
            t.wait_for(OFF, silence)?;
        } else {
            t.next_completion(Side::Dut, dut.channel.qp, t.now().after(silence))?;
            t.wait_for(AFTER, silence)?;
        }
        dut.close(t)?;
    }
    t.measure_path(ROUND_TRIPS)
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let number = |name| {
        t.parameter(name)
            .and_then(|value| u8::try_from(value).ok())
            .unwrap_or(0)
    };
    let once = AckTimeout(number("timeout_code")).duration().unwrap_or_default();
    let cases = rc::cases(t)?;
    for (at, case) in cases.iter().enumerate() {
        rc::sound_packets(f, &case.dialogue);
        if at == 2 {
            let (waited, about) = (case.waited(t, OFF)?, "timeout 0: a second transmission");
            let sent = case.sent(case.start(), waited.place);
            case.packets_are_those_posted(f, rc::GENERATION, "first transmission", (case.start(), waited.place));
            let Some(first) = sent.first() else {
                let result = rc::alive(t, waited.place, false);
                f.prove(
                    rc::GENERATION,
                    &[waited.into()],
                    "request",
                    ("a packet", "none"),
                    result,
                );
                continue;
            };
            rc::quiet(
                t,
                f,
                TIMEOUT,
                about,
                (&case.dialogue, first.frame.place, waited),
                Duration::ZERO,
            );
            rc::no_completion(f, TIMEOUT, about, &case.dialogue, (case.start(), waited.place));
        } else {
            unanswered(t, f, case, (once, number("retry_cnt")))?;
        }
    }
    Ok(())
}

/// What the path can add to, or take from, the time between two arrivals; none if the path was not measured.
fn spread(t: &Trace) -> Option<Duration> {
    let shortest = t.timeline.round_trips.iter().map(|trips| trips.shortest).min();
    Some(rc::path(t)?.saturating_sub(shortest.unwrap_or_default()))
}

/// A connection on which nothing was answered.
fn unanswered(t: &Trace, f: &mut Findings<'_>, case: &Case<'_>, (once, retry_cnt): (Duration, u8)) -> Result<(), Gap> {
    let waited = case.waited(t, AFTER)?;
    let (Some(oldest), sent) = (case.posted.first(), case.sent(case.start(), waited.place)) else {
        return Ok(());
    };
    for (at, seen) in sent.iter().enumerate() {
        let first = at < case.posted.len();
        let statement = if first { rc::GENERATION } else { TIMEOUT };
        case.is_posted(f, statement, if first { "first transmission" } else { "retry" }, seen);
    }
    let of_oldest: Vec<&Seen<'_>> = sent.iter().filter(|seen| seen.psn() == oldest.first).collect();
    if let Some(retry) = sent.get(case.posted.len()) {
        // On hardware one retry of the oldest may have been lost, not all of them.
        let never = of_oldest.len() == 1 && sent.len() >= case.posted.len() + 2;
        let result = if retry.psn() == oldest.first {
            Passed::Pass
        } else if t.begin.simulated || never {
            Passed::Fail
        } else {
            Passed::Inconclusive
        };
        let words = (oldest.first.to_string(), retry.psn().to_string());
        f.prove(
            TIMEOUT,
            &[retry.frame.into()],
            "the first retry is of the oldest request: PSN",
            words,
            result,
        );
    }
    let none_lost = t.begin.simulated || of_oldest.len() > usize::from(retry_cnt);
    for pair in of_oldest.windows(2) {
        interval(f, oldest, (pair[0], pair[1]), (once, spread(t)), none_lost);
    }
    if of_oldest.len() == 1 && retry_cnt > 0 && case.dialogue.completions.is_empty() {
        // No lost packet explains this: the host would have told of the error.
        let result = rc::alive(t, waited.place, true);
        let evidence = [Evidence::from(of_oldest[0].frame), waited.into()];
        let seen = format!(
            "neither in {}",
            duration_words(waited.until.since(of_oldest[0].frame.at.latest))
        );
        let words = ("a retry, or an error completion in the end", seen);
        f.prove(TIMEOUT, &evidence, &oldest.in_words(), words, result);
    }
    spent(t, f, case, 0, ((retry_cnt, once), false), waited);
    Ok(())
}

/// The time from one transmission to the next.
fn interval(
    f: &mut Findings<'_>,
    posted: &Posted<'_>,
    (earlier, later): (&Seen<'_>, &Seen<'_>),
    (once, spread): (Duration, Option<Duration>),
    none_lost: bool,
) {
    let (least, most) = later.frame.at.since(earlier.frame.at);
    let shift = spread.unwrap_or_default();
    let (least, most) = (least.saturating_sub(shift), most + shift);
    let result = if spread.is_none() {
        Passed::Inconclusive
    } else if most < once || (least > 4 * once && none_lost) {
        Passed::Fail
    } else if least >= once && most <= 4 * once {
        Passed::Pass
    } else {
        Passed::Inconclusive
    };
    let words = (
        format!(
            "{}..{} after the transmission before",
            duration_words(once),
            duration_words(4 * once)
        ),
        format!("{}..{}", duration_words(least), duration_words(most)),
    );
    let evidence = [Evidence::from(earlier.frame), later.frame.into()];
    f.prove(
        TIMEOUT,
        &evidence,
        &format!("{}: retry", posted.in_words()),
        words,
        result,
    );
}
