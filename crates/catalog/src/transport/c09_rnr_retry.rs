//! `c09-rnr-retry`: a requester retries each request rnr_retry times after RNR NAKs.
//!
//! The DUT posts SENDs. The peer answers each transmission with an RNR NAK, or the last with an ACK. With
//! rnr_retry 0 to 6 the DUT sends each request 1 + rnr_retry times, then completes it with
//! IBV_WC_RNR_RETRY_EXC_ERR. The queue pair is then in error. With 7 the DUT still retries after 12 RNR NAKs. An
//! acknowledged request reloads the counter. retry_cnt is 0, so that an RNR NAK that wrongly consumes retry_cnt
//! ends the request at once. Every retry is the same packet.
//!
//! Further cases:
//! - A SEND posted during an interval waits, and does not bring the first retry forward.
//! - A time-out between two RNR NAKs does not reload the counter.
//! - An unanswered retry times out like a first transmission.
//!
//! Reading: the specification is clear. Except where a case needs it, the ACK timeout is off, so that nothing else
//! causes a retry.
//!
//! False alarm: none known. If an RNR NAK or a retry may have been lost, too few retries are INCONCLUSIVE. A loss
//! cannot explain that a request fails before it got 1 + rnr_retry RNR NAKs.

use core::time::Duration;

use verbatim_oracle::Rule;
use verbatim_record::verbs::pb;
use verbatim_record::{Findings, Frames, Gap, Label, Trace, Wait};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, RnrTimer};

use crate::transport::rc::{self, Ask, Requester};

const COMPLETION: &str = "C9-60";
const COUNT: &str = "C9-143";
const TIMEOUT: &str = "C9-142";
const INTERVAL: &str = "C9-130";
const RETRY: &str = "9.7.5.2.8 RNR retry";
const ERROR: &str = "9.7.5.2.8 RNR error completion";

const NAK: Label<Frames> = Label::new("RNR NAK");
const NAK_AGAIN: Label<Frames> = Label::new("RNR NAK, again");
const LAST: Label<Frames> = Label::new("the last RNR NAK");
const LAST_AGAIN: Label<Frames> = Label::new("the last RNR NAK, again");
const ACK: Label<Frames> = Label::new("ACK");
const ACK_AGAIN: Label<Frames> = Label::new("ACK, again");
const SILENCE: Label<Wait> = Label::new("after the retry, unanswered");
const AFTER: Label<Wait> = Label::new("after the last RNR NAK");

/// Interval of the RNR NAKs: 1.28 ms.
const TIMER: RnrTimer = RnrTimer(14);

/// Longer interval of 163.84 ms, in which a request can be posted or acknowledged.
const LONGER: RnrTimer = RnrTimer(28);

/// rnr_retry, the number of retries of each request, and whether the last request fails.
///
/// After its retries a request gets an ACK. The last request, if it fails, gets one more RNR NAK.
const CASES: &[(u8, &[usize], bool)] = &[
    (0, &[0], true),
    (1, &[1], true),
    (3, &[3], true),
    (2, &[2, 2], true),
    (4, &[4], true),
    (5, &[5], true),
    (6, &[6], true),
    (7, &[12], false),
];

pub(super) static TEST: Test = Test {
    id: "c09-rnr-retry",
    aliases: &[],
    revision: 6,
    about: "A requester retries after RNR NAKs rnr_retry times, counted for each request anew; 7 means without end.",
    reading: "The DUT sends a request exactly 1 + rnr_retry times, then completes it with IBV_WC_RNR_RETRY_EXC_ERR. \
        With rnr_retry 7 it still retries after 12 RNR NAKs. An acknowledged request reloads the counter. An RNR NAK \
        acknowledges earlier requests. retry_cnt is 0 and is not consumed. Even if the host posts another request, \
        the DUT sends nothing before the interval is over.",
    statements: &[
        INTERVAL,
        RETRY,
        ERROR,
        COMPLETION,
        COUNT,
        TIMEOUT,
        rc::NAKS,
        rc::GENERATION,
        rc::ICRC,
    ],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    for (rnr_retry, retries, fails) in CASES {
        case(t, *rnr_retry, retries, *fails)?;
    }
    posted_meanwhile(t)?;
    second_of_two(t)?;
    done_meanwhile(t)?;
    between_timeouts(t)?;
    then_silence(t)
}

/// Acknowledges a message within the interval of an RNR NAK for its second transmission. The next message must then
/// start at its first packet.
fn done_meanwhile(t: &mut Tester<'_>) -> Step {
    let options = ChannelOptions {
        timeout: TIMED,
        ..ChannelOptions::default()
    };
    let mut dut = Requester::open(t, &options)?;
    let patience = t.rc_silence(Duration::ZERO, TIMED, 1);
    let write = dut.post(t, Ask::new(pb::Operation::WriteImm, 4 * dut.mtu))?;
    let send = dut.post(t, Ask::send(2 * dut.mtu + 8).at(8))?;
    if dut.see(t, write.first, patience)? && dut.see(t, write.first, patience)? {
        t.send_frame(NAK, &dut.rnr_nak(write.last, LONGER, 0))?;
        // After this pause the NAK has arrived, but the interval is not over.
        t.pause(LONGER.duration() / 8)?;
        let acks = dut.answers(t, &write);
        dut.answer(t, (ACK, ACK_AGAIN), &acks, 1)?;
        if dut.see(t, send.last, patience)? {
            let acks = dut.answers(t, &send);
            dut.answer(t, (ACK, ACK_AGAIN), &acks, 1)?;
        }
    }
    dut.close(t)
}

/// Sends an RNR NAK of the second request. The NAK acknowledges the first request, which succeeds although the second
/// fails.
fn second_of_two(t: &mut Tester<'_>) -> Step {
    let options = ChannelOptions {
        rnr_retry: 0,
        ..ChannelOptions::default()
    };
    let mut dut = Requester::open(t, &options)?;
    dut.post(t, Ask::send(64))?;
    let second = dut.post(t, Ask::send(64).at(64))?;
    if dut.see_all(t, &second)? {
        let nak = dut.rnr_nak(second.first, TIMER, 1);
        dut.answer(t, (LAST, LAST_AGAIN), &[nak], 2)?;
        t.wait_for(AFTER, t.rc_silence(TIMER.duration(), AckTimeout::OFF, 0))?;
    }
    dut.close(t)
}

/// Lets the DUT time out between two RNR NAKs. The time-out must not reload the counter.
fn between_timeouts(t: &mut Tester<'_>) -> Step {
    let options = ChannelOptions {
        timeout: TIMED,
        rnr_retry: 1,
        ..ChannelOptions::default()
    };
    let mut dut = Requester::open(t, &options)?;
    let patience = t.rc_silence(TIMER.duration(), TIMED, 1);
    let sent = dut.post(t, Ask::send(64))?;
    if dut.see(t, sent.first, patience)? {
        t.send_frame(NAK, &dut.rnr_nak(sent.first, TIMER, 0))?;
        // Wait for the retry after the NAK, and for the retry after the time-out.
        if dut.see(t, sent.first, patience)? && dut.see(t, sent.first, patience)? {
            let nak = dut.rnr_nak(sent.first, TIMER, 0);
            dut.answer(t, (LAST, LAST_AGAIN), &[nak], 1)?;
        }
        t.wait_for(AFTER, t.rc_silence(TIMER.duration(), TIMED, 7))?;
    }
    dut.close(t)
}

/// ACK timeout of the connections with time-outs.
const TIMED: AckTimeout = AckTimeout(14);

/// Leaves the retry after an RNR NAK unanswered. The ACK timeout of the retry must run as for a first transmission.
fn then_silence(t: &mut Tester<'_>) -> Step {
    let options = ChannelOptions {
        timeout: TIMED,
        retry_cnt: 1,
        ..ChannelOptions::default()
    };
    let mut dut = Requester::open(t, &options)?;
    let patience = t.rc_silence(TIMER.duration(), TIMED, options.retry_cnt);
    let sent = dut.post(t, Ask::send(64))?;
    if dut.see(t, sent.first, patience)? {
        let nak = dut.rnr_nak(sent.first, TIMER, 0);
        dut.provoke(t, (NAK, NAK_AGAIN), &nak, (sent.first, patience))?;
        t.wait_for(SILENCE, patience)?;
    }
    dut.close(t)
}

/// Has the DUT post a SEND during the interval of an RNR NAK. The SEND must wait with the first request.
fn posted_meanwhile(t: &mut Tester<'_>) -> Step {
    let options = ChannelOptions {
        rnr_retry: 1,
        retry_cnt: 0,
        ..ChannelOptions::default()
    };
    let mut dut = Requester::open(t, &options)?;
    let patience = t.rc_silence(LONGER.duration(), AckTimeout::OFF, 0);
    let first = dut.post(t, Ask::send(64))?;
    if dut.see(t, first.first, patience)? {
        t.send_frame(NAK, &dut.rnr_nak(first.first, LONGER, 0))?;
        // After this pause the NAK has arrived, but the interval is not over.
        t.pause(LONGER.duration() / 4)?;
        let second = dut.post(t, Ask::send(64).at(64))?;
        if dut.see(t, second.first, patience)? {
            let acks = dut.answers(t, &second);
            dut.answer(t, (ACK, ACK_AGAIN), &acks, 2)?;
        }
    }
    dut.close(t)
}

fn case(t: &mut Tester<'_>, rnr_retry: u8, retries: &[usize], fails: bool) -> Step {
    let options = ChannelOptions {
        rnr_retry,
        retry_cnt: 0,
        ..ChannelOptions::default()
    };
    let mut dut = Requester::open(t, &options)?;
    let patience = t.rc_silence(TIMER.duration(), AckTimeout::OFF, 0);
    'requests: for (at, count) in retries.iter().enumerate() {
        let solicited = Ask {
            solicited: true,
            ..Ask::send(64)
        };
        let sent = dut.post(t, solicited)?;
        let nak = dut.rnr_nak(sent.first, TIMER, sent.msn - 1);
        if !dut.see(t, sent.first, patience)? {
            break;
        }
        for _ in 0..*count {
            if !dut.provoke(t, (NAK, NAK_AGAIN), &nak, (sent.first, patience))? {
                break 'requests;
            }
        }
        if fails && at + 1 == retries.len() {
            dut.answer(t, (LAST, LAST_AGAIN), &[nak], 1)?;
            t.wait_for(AFTER, patience)?;
        } else {
            let ack = dut.answers(t, &sent);
            dut.answer(t, (ACK, ACK_AGAIN), &ack, 1)?;
        }
    }
    dut.close(t)
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    f.exercises(&[
        Rule::RnrInterval,
        Rule::RnrRetried,
        Rule::RnrCount,
        Rule::RnrFails,
        Rule::RnrError,
        Rule::OutstandingEnds,
        Rule::ErrorState,
        Rule::AfterError,
        Rule::AnsweredCompletes,
    ]);
    rc::came_on_each(t, &[LAST, ACK, NAK])
}
