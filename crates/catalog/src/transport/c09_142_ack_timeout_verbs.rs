//! `c09-142-ack-timeout-verbs`: the weaker form of C09_142_01, with an adapter of the tester as the peer.
//!
//! The tester's queue pair is in error, so its adapter does not respond. The DUT's request must complete with
//! IBV_WC_RETRY_EXC_ERR after retry_cnt + 1 time-outs. Each time-out lasts T to 4 T, where T is the local ACK
//! timeout. The clock of the DUT's host measures the sum. The tester does not see how often the DUT sent the
//! request.

use core::time::Duration;

use verbatim_record::verbs::{Command, pb};
use verbatim_record::{Findings, Gap, Label, Passed, Side, Trace, Verbs, Wait, WcStatus, duration_words};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Parameter, Step, Test, Tester};
use verbatim_wire::packet::AckTimeout;

use crate::transport::rc::{self, offers};

const TIMEOUT: &str = "C9-142";
const COUNT: &str = "C9-143";

const DEAF: Label<Verbs> = Label::new("move the tester's queue pair to error");
const POST: Label<Verbs> = Label::new("post the RDMA READ");
const AFTER: Label<Wait> = Label::new("after the error completion");
const STATE: Label<Verbs> = Label::new("state of the queue pair at the end");

pub(super) static TEST: Test = Test {
    id: "c09-142-ack-timeout-verbs",
    aliases: &[],
    revision: 1,
    about: "An unanswered request ends in error after retry_cnt + 1 time-outs, each of T to 4 T.",
    reading: "The weaker procedure of C09_142_01: the tester sees no packets. It checks only the status, and that the \
        time from post to error completion is (retry_cnt + 1) T to (retry_cnt + 1) 4 T, by the clock of the DUT's \
        host.",
    statements: &[TIMEOUT, COUNT],
    needs: &[Need::Verbs],
    parameters: &[
        Parameter {
            name: "timeout_code",
            about: "code of the local ACK timeout of the DUT's queue pair: T = 4.096 us times 2 to the power of the \
                    code",
            range: (1, 20),
            simulated: 15,
            default: 15,
        },
        Parameter {
            name: "retry_cnt",
            about: "retries of the DUT's queue pair",
            range: (0, 7),
            simulated: 3,
            default: 3,
        },
    ],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let timeout = t.nearest_timeout(AckTimeout(t.parameter("timeout_code") as u8));
    let retry_cnt = t.parameter("retry_cnt") as u8;
    let dut = ChannelOptions {
        timeout,
        retry_cnt,
        ..ChannelOptions::default()
    };
    let pair = t.open_pair(&dut, &ChannelOptions::default())?;
    let deaf = Command::ModifyQp(pb::ModifyQp {
        qp: pair.own_qp,
        state: pb::QpState::Err.into(),
        attributes: None,
    });
    t.verbs_must(DEAF, Side::Tester, deaf)?;
    let post = Command::PostSend(pb::PostSend {
        qp: pair.dut_qp,
        wr_id: 1,
        operation: pb::Operation::Read.into(),
        local: Some(pair.dut_memory.slice(0, 64)),
        signaled: true,
        remote_address: pair.own_memory.address,
        r_key: pair.own_memory.r_key.0,
        ..pb::PostSend::default()
    });
    t.verbs_must(POST, Side::Dut, post)?;
    let silence = t.rc_silence(Duration::ZERO, timeout, retry_cnt);
    t.next_completion(Side::Dut, pair.dut_qp, t.now().after(2 * silence))?;
    t.wait_for(AFTER, Duration::from_secs(2))?;
    t.verbs(STATE, Side::Dut, Command::QueryQp(pb::QueryQp { qp: pair.dut_qp }))?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let number = |name| {
        t.parameter(name)
            .and_then(|value| u32::try_from(value).ok())
            .unwrap_or(0)
    };
    let retry_cnt = number("retry_cnt");
    let timeout = AckTimeout(offers::given(t, Side::Dut, |given| given.timeout).unwrap_or(0));
    let _ = (t.command(DEAF)?, t.command(STATE)?);
    let (posted, waited) = (t.command(POST)?, t.waited(AFTER)?);
    let done = rc::completions_of(t, Side::Dut, (posted.place, waited.place));
    let mut evidence = rc::evidence(&done);
    let words = (
        "one completion with IBV_WC_RETRY_EXC_ERR",
        rc::completions_in_words(&done),
    );
    let result = match done.as_slice() {
        [only] if only.status() == WcStatus::RETRY_EXC_ERR => Passed::Pass,
        [] => rc::alive(t, waited.place, true),
        _ => Passed::Fail,
    };
    f.prove(COUNT, &evidence, "completion", words, result);
    let (Some(first), Some((_, at_host, ..)), Some(once)) = (done.first(), &posted.answer, timeout.duration()) else {
        return Ok(());
    };
    evidence.insert(0, posted.into());
    let (least, most) = first.event.host_at.since(*at_host);
    let (low, high) = (once * (retry_cnt + 1), 4 * once * (retry_cnt + 1));
    let result = if most < low || least > high {
        Passed::Fail
    } else if least >= low && most <= high {
        Passed::Pass
    } else {
        Passed::Inconclusive
    };
    let words = (
        format!(
            "{}..{} ({} time-outs, {timeout})",
            duration_words(low),
            duration_words(high),
            retry_cnt + 1
        ),
        format!("{}..{}", duration_words(least), duration_words(most)),
    );
    let measured = ((least, most), Some(low), Some(high));
    f.prove_time(TIMEOUT, &evidence, "post to error completion", words, measured, result);
    f.observe(
        "weaker procedure: the tester saw no packets between post and completion",
        &[],
    );
    Ok(())
}
