//! `c09-143-retry-count`: a requester retries an unanswered request retry_cnt times, and then fails it.
//!
//! The peer leaves SENDs unanswered, with retry_cnt 0 to 7. The DUT sends each 1 + retry_cnt times and completes it
//! once, with IBV_WC_RETRY_EXC_ERR. The queue pair is then in error and sends nothing more. The value 7 means seven
//! retries: only rnr_retry has a value for retries without end.
//!
//! On another connection the peer acknowledges the first SEND after its only retry; the DUT then retries the
//! second SEND once. On the last connection, the peer sends an RNR NAK after the only retry, which allows no
//! further time-out retry. If too few transmissions arrive, the test repeats the case on new connections.
//!
//! Reading: the specification is clear.
//!
//! False alarm: if a retry may have been lost, too few retries are INCONCLUSIVE. The test fails if the error came
//! before the time-outs could be over, or if the only retry is missing on three connections.

use core::time::Duration;

use verbatim_oracle::Rule;
use verbatim_record::{Findings, Frames, Gap, Label, Side, TRIES, Trace, Wait};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Parameter, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, RnrTimer};

use crate::transport::rc::{self, Ask, Requester};

const COUNT: &str = "C9-143";

const ACK: Label<Frames> = Label::new("ACK of the first request");
const ACK_AGAIN: Label<Frames> = Label::new("ACK of the first request, again");
const RNR: Label<Frames> = Label::new("RNR NAK after a retry");
const AFTER: Label<Wait> = Label::new("after the error completion");

/// retry_cnt of each connection, and whether the peer acknowledges a first request after its retry.
const CASES: [(u8, bool); 9] = [
    (0, false),
    (1, false),
    (2, false),
    (3, false),
    (4, false),
    (5, false),
    (6, false),
    (7, false),
    (1, true),
];

/// Interval of the RNR NAK: 1.28 ms.
const TIMER: RnrTimer = RnrTimer(14);

pub(super) static TEST: Test = Test {
    id: "c09-143-retry-count",
    aliases: &[],
    revision: 3,
    about: "An unanswered request is retried retry_cnt times, 7 included, and then fails. Each request has its own \
        count.",
    reading: "Exactly 1 + retry_cnt transmissions, then one IBV_WC_RETRY_EXC_ERR and the queue pair in error; an ACK \
        reloads the retry counter, an RNR NAK does not.",
    statements: &[COUNT, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[Parameter {
        name: "timeout_code",
        about: "code of the local ACK timeout of the DUT's queue pair: T = 4.096 us times 2 to the power of the code",
        range: (1, 20),
        simulated: 14,
        default: 14,
    }],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let code = t.parameter("timeout_code") as u8;
    for (retry_cnt, reloads) in CASES {
        for _ in 0..TRIES {
            let timeout = t.nearest_timeout(timeout(code, reloads));
            if connection(t, (retry_cnt, reloads), timeout)? {
                break;
            }
        }
    }
    not_ready(t, t.nearest_timeout(AckTimeout(code)))
}

/// Sends an RNR NAK after a retry. The NAK acknowledges nothing, so consumed retries stay consumed.
fn not_ready(t: &mut Tester<'_>, timeout: AckTimeout) -> Step {
    let options = ChannelOptions {
        timeout,
        retry_cnt: 1,
        ..ChannelOptions::default()
    };
    let mut dut = Requester::open(t, &options)?;
    let silence = t.rc_silence(TIMER.duration(), timeout, 2);
    let sent = dut.post(t, Ask::send(64))?;
    if dut.see(t, sent.first, silence)? && dut.see(t, sent.first, silence)? {
        t.send_frame(RNR, &dut.rnr_nak(sent.first, TIMER, 0))?;
        t.next_completion(Side::Dut, dut.channel.qp, t.now().after(silence))?;
        t.wait_for(AFTER, silence)?;
    }
    dut.close(t)
}

/// Returns the ACK timeout of a connection. The timeout is doubled if the tester must acknowledge in time.
fn timeout(code: u8, reloads: bool) -> AckTimeout {
    AckTimeout(code + u8::from(reloads))
}

/// Runs one connection. Returns whether the last request was sent more than retry_cnt times.
fn connection(t: &mut Tester<'_>, (retry_cnt, reloads): (u8, bool), timeout: AckTimeout) -> Step<bool> {
    let options = ChannelOptions {
        timeout,
        retry_cnt,
        ..ChannelOptions::default()
    };
    let mut dut = Requester::open(t, &options)?;
    let silence = t.rc_silence(Duration::ZERO, timeout, retry_cnt);
    if reloads {
        let sent = dut.post(t, Ask::send(64))?;
        let retried = dut.see(t, sent.first, silence)? && dut.see(t, sent.first, silence)?;
        let ack = dut.answers(t, &sent);
        if retried {
            dut.answer(t, (ACK, ACK_AGAIN), &ack, 1)?;
        }
    }
    let sent = dut.post(t, Ask::send(64))?;
    t.next_completion(Side::Dut, dut.channel.qp, t.now().after(silence))?;
    t.wait_for(AFTER, silence)?;
    let mut came = 0;
    while dut.see(t, sent.first, Duration::ZERO)? {
        came += 1;
    }
    dut.close(t)?;
    Ok(came > u32::from(retry_cnt))
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    f.exercises(&[Rule::RetryCount, Rule::RetryError, Rule::RetryFails, Rule::AfterError]);
    rc::came(t, &[ACK])
}
