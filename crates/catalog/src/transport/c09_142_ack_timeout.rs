//! `c09-142-ack-timeout` (C09_142_01): a requester retries an unanswered request after T to 4 T, retry_cnt times. T is
//! the local ACK timeout.
//!
//! Each case has its own connection:
//! - The peer leaves the requests of three connections unanswered: a READ, two SENDs, and a long SEND. A WRITE
//!   replaces the READ if the device has no READs. The DUT retransmits the oldest request T to 4 T after its
//!   previous transmission, with the same PSN, exactly retry_cnt times. Then it completes the request with
//!   IBV_WC_RETRY_EXC_ERR, and the queue pair is in error. A CNP stops no timer.
//! - With timeout 0 the DUT does not retransmit a SEND.
//! - The peer acknowledges a SEND. Then nothing is outstanding for longer than all retries would take. The DUT sends
//!   another SEND, and the peer acknowledges it.
//!
//! Reading: the public description of C09_142_01 waits T after each request; the architecture allows up to 4 T.
//! The test measures times between arrivals at the tester. The spread of the round trips limits how far the path
//! can shift these times.
//!
//! False alarm: a lost retry makes the next retry look late. On hardware a late retry counts only if no retry is
//! missing.

use core::time::Duration;

use verbatim_oracle::Rule;
use verbatim_record::verbs::pb;
use verbatim_record::{Findings, Frames, Gap, Label, Side, Trace, Wait};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Parameter, Step, Test, Tester};
use verbatim_wire::packet::AckTimeout;

use crate::transport::rc::{self, Ask, Requester, ask, offers};

const TIMEOUT: &str = "C9-142";
const COUNT: &str = "C9-143";
const COMPLETION: &str = "C9-60";

const AFTER: Label<Wait> = Label::new("after the error completion");
const ACK: Label<Frames> = Label::new("ACK");
const ACK_AGAIN: Label<Frames> = Label::new("ACK, again");
const IDLE: Label<Wait> = Label::new("with nothing outstanding");
const CNP: Label<Frames> = Label::new("CNP while a request is outstanding");
const OFF: Label<Wait> = Label::new("unanswered, with the timeout off");

/// Number of round trips that the test measures before and after its steps.
const ROUND_TRIPS: u32 = 110;
/// Length in bytes of a long message. Most adapters do not send all of it before the first ACK.
const LONG: u32 = 28 * 1024;
/// Requests of the unanswered connections. The last connection has the timeout off.
const REQUESTS: [&[Ask]; 4] = [
    &[Ask::new(pb::Operation::Read, 1024)],
    &[Ask::send(64), Ask::send(64).at(64)],
    &[Ask::send(LONG)],
    &[Ask::send(64)],
];

pub(super) static TEST: Test = Test {
    id: "c09-142-ack-timeout",
    aliases: &["C09_142_01"],
    revision: 4,
    about: "An unanswered request is retried after T to 4 T, retry_cnt times, and then fails. Timeout 0 allows no \
        retry.",
    reading: "Each transmission T to 4 T after the one before, give or take the spread of the path's round trips; the \
        oldest request first; exactly 1 + retry_cnt transmissions, then IBV_WC_RETRY_EXC_ERR; timeout 0 = never. While \
        no request is outstanding, no time-out uses up a retry: a request after a long idle time is sent, and \
        completes.",
    statements: &[TIMEOUT, COUNT, COMPLETION, rc::NAKS, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[
        Parameter {
            name: "timeout_code",
            about: "code of the local ACK timeout of the DUT's queue pair: T = 4.096 us times 2 to the power of the \
                    code",
            range: (1, 20),
            simulated: 14,
            default: 14,
        },
        Parameter {
            name: "retry_cnt",
            about: "retries of the DUT's queue pair",
            range: (0, 7),
            simulated: 4,
            default: 4,
        },
    ],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let timeout = t.nearest_timeout(AckTimeout(t.parameter("timeout_code") as u8));
    let retry_cnt = t.parameter("retry_cnt") as u8;
    for (at, requests) in REQUESTS.iter().enumerate() {
        let timeout = if at + 1 == REQUESTS.len() {
            AckTimeout::OFF
        } else {
            timeout
        };
        if !t.offers_timeout(timeout) {
            continue;
        }
        let options = ChannelOptions {
            timeout,
            retry_cnt,
            ..ChannelOptions::default()
        };
        let mut dut = Requester::open(t, &options)?;
        if at == 0 {
            t.measure_path(ROUND_TRIPS)?;
        }
        let mut first = None;
        for ask in *requests {
            let ask = if t.offers(ask.operation) || ask.operation != pb::Operation::Read {
                *ask
            } else {
                Ask::new(pb::Operation::Write, ask.length)
            };
            let sent = dut.post(t, ask)?;
            first.get_or_insert(sent.first);
        }
        if let (1, Some(psn)) = (at, first)
            && dut.see(t, psn, ask::RESPONSE_WAIT)?
        {
            // A CNP may slow the DUT down, but the timer continues to run.
            t.send_frame(CNP, &ask::cnp(&dut.channel))?;
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
    t.measure_path(ROUND_TRIPS)?;
    idle(t, timeout, retry_cnt)
}

/// Leaves a connection idle for longer than all retries take, then has the DUT post a request.
fn idle(t: &mut Tester<'_>, timeout: AckTimeout, retry_cnt: u8) -> Step {
    let options = ChannelOptions {
        timeout,
        retry_cnt,
        ..ChannelOptions::default()
    };
    let mut dut = Requester::open(t, &options)?;
    for at in 0..2 {
        let sent = dut.post(t, Ask::send(64))?;
        if !dut.see_all(t, &sent)? {
            break;
        }
        let ack = dut.answers(t, &sent);
        if !dut.answer(t, (ACK, ACK_AGAIN), &ack, 1)? {
            break;
        }
        if at == 0 {
            t.wait_for(IDLE, t.rc_silence(Duration::ZERO, timeout, retry_cnt))?;
        }
    }
    dut.close(t)
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    f.exercises(&[
        Rule::RetryFails,
        Rule::RetryError,
        Rule::Flushed,
        Rule::ErrorState,
        Rule::AfterError,
    ]);
    if t.parameter("retry_cnt").is_some_and(|retry_cnt| retry_cnt > 0) {
        f.exercises(&[Rule::TimeoutRetried, Rule::AckTimeout, Rule::RetryCount]);
    }
    f.exercises(&[Rule::AnsweredCompletes]);
    if offers::timeout(t, AckTimeout::OFF) {
        f.exercises(&[Rule::TimeoutOff]);
    } else {
        f.observe(
            "no request was sent with timeout 0: the device cannot switch off its ACK timeout, as its agent says",
            &[],
        );
    }
    offers::was_posted(t, pb::Operation::Read)?;
    rc::came(t, &[ACK])?;
    t.waited(IDLE).map(drop)
}
