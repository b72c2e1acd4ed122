//! `c09-130-rnr-interval-verbs`: the weaker form of C09_130_01, with an adapter of the tester as the peer.
//!
//! The tester's queue pair has a min_rnr_timer and no posted receive. Its adapter therefore answers every
//! transmission of the DUT's SEND with an RNR NAK. The tester does not see these packets. The test claims only
//! that the error completion comes no earlier than rnr_retry intervals after the post. It does not find an early
//! retry if other retries are late enough. The clock of the DUT's host measures both times.

use core::time::Duration;

use verbatim_record::verbs::{Command, pb};
use verbatim_record::{Findings, Gap, Label, Passed, Side, Trace, Verbs, Wait, WcStatus, duration_words};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Parameter, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, RnrTimer};

use crate::transport::rc::{self, offers};

const INTERVAL: &str = "C9-130";
const ERROR: &str = "9.7.5.2.8 RNR error completion";

const POST: Label<Verbs> = Label::new("post the SEND");
const AFTER: Label<Wait> = Label::new("after the error completion");
const STATE: Label<Verbs> = Label::new("state of the queue pair at the end");

pub(super) static TEST: Test = Test {
    id: "c09-130-rnr-interval-verbs",
    aliases: &[],
    revision: 1,
    about: "A SEND that gets only RNR NAKs ends in error, but not before rnr_retry intervals have passed.",
    reading: "The weaker procedure of C09_130_01: the tester sees no packets. It checks only the status, \
        IBV_WC_RNR_RETRY_EXC_ERR, and that the time from post to error completion is at least rnr_retry intervals, by \
        the clock of the DUT's host.",
    statements: &[INTERVAL, ERROR],
    needs: &[Need::Verbs],
    parameters: &[
        Parameter {
            name: "rnr_code",
            about: "code of the interval that the RNR NAK asks for: 31 = 491.52 ms, 0 = 655.36 ms, 1 = 0.01 ms",
            range: (0, 31),
            simulated: 31,
            default: 31,
        },
        Parameter {
            name: "rnr_retry",
            about: "RNR retries of the DUT's queue pair",
            range: (1, 6),
            simulated: 3,
            default: 3,
        },
    ],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let code = RnrTimer(t.parameter("rnr_code") as u8);
    let rnr_retry = t.parameter("rnr_retry") as u8;
    let dut = ChannelOptions {
        rnr_retry,
        ..ChannelOptions::default()
    };
    let own = ChannelOptions {
        min_rnr_timer: code,
        ..ChannelOptions::default()
    };
    let pair = t.open_pair(&dut, &own)?;
    let post = Command::PostSend(pb::PostSend {
        qp: pair.dut_qp,
        wr_id: 1,
        operation: pb::Operation::Send.into(),
        local: Some(pair.dut_memory.slice(0, 64)),
        signaled: true,
        ..pb::PostSend::default()
    });
    t.verbs_must(POST, Side::Dut, post)?;
    let patience = 4 * code.duration() * (u32::from(rnr_retry) + 1) + Duration::from_secs(10);
    t.next_completion(Side::Dut, pair.dut_qp, t.now().after(patience))?;
    t.wait_for(AFTER, t.rc_silence(code.duration(), AckTimeout::OFF, 0))?;
    t.verbs(STATE, Side::Dut, Command::QueryQp(pb::QueryQp { qp: pair.dut_qp }))?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let number = |name| {
        t.parameter(name)
            .and_then(|value| u32::try_from(value).ok())
            .unwrap_or(0)
    };
    let rnr_retry = number("rnr_retry");
    let code = RnrTimer(offers::given(t, Side::Tester, |given| given.min_rnr_timer).unwrap_or(1));
    let (posted, waited) = (t.command(POST)?, t.waited(AFTER)?);
    let _ = t.command(STATE)?;
    let done = rc::completions_of(t, Side::Dut, (posted.place, waited.place));
    let evidence = rc::evidence(&done);
    let words = (
        "one completion with IBV_WC_RNR_RETRY_EXC_ERR",
        rc::completions_in_words(&done),
    );
    let result = match done.as_slice() {
        [only] if only.status() == WcStatus::RNR_RETRY_EXC_ERR => Passed::Pass,
        [] => rc::alive(t, waited.place, false),
        _ => Passed::Fail,
    };
    f.prove(ERROR, &evidence, "completion", words, result);
    let (Some(first), Some((_, at_host, ..))) = (done.first(), &posted.answer) else {
        return Ok(());
    };
    let (least, most) = first.event.host_at.since(*at_host);
    let bound = code.duration() * rnr_retry;
    let result = match (least >= bound, most < bound) {
        (true, _) => Passed::Pass,
        (_, true) => Passed::Fail,
        _ => Passed::Inconclusive,
    };
    let words = (
        format!("{} or more ({rnr_retry} times RNR NAK {code})", duration_words(bound)),
        format!("{}..{}", duration_words(least), duration_words(most)),
    );
    let mut evidence = evidence;
    evidence.insert(0, posted.into());
    let measured = ((least, most), Some(bound), None);
    f.prove_time(INTERVAL, &evidence, "post to error completion", words, measured, result);
    f.observe(
        "weaker procedure: the tester saw no packets between post and completion",
        &[],
    );
    Ok(())
}
