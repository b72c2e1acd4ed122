//! `c09-142-progress`: after a time-out the DUT continues a partly answered request. Packets without progress do not
//! reload the retry counter.
//!
//! Each case has its own connection:
//! - The peer acknowledges two of the four packets of a SEND and a WRITE, and the rest after its retransmission.
//! - The peer answers each transmission of a READ of five responses with one more response. The DUT may request the
//!   rest or the whole READ.
//! - The peer leaves a SEND unanswered. After each transmission it repeats the ACK of an earlier SEND and sends a CNP.
//! - The peer acknowledges only the first of the two packets of a SEND, after each transmission.
//! - The peer sends a sequence NAK of the first of three SENDs, and then an ACK of all.
//!
//! Reading: after a time-out the DUT retransmits the same packets. It may request a READ again from any response on,
//! with the address and length of the rest. An acknowledgement of acknowledged packets is no progress, and a CNP is no
//! response.
//!
//! False alarm: none known.

use core::time::Duration;

use verbatim_oracle::Rule;
use verbatim_record::verbs::pb::Operation;
use verbatim_record::{Findings, Frames, Gap, Label, Trace, Wait};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, NakCode};

use crate::transport::rc::{self, Ask, Requester, Sent, ask, offers, read_response, response_data};

const COMPLETION: &str = "C9-60";
const TIMEOUT: &str = "C9-142";
const COUNT: &str = "C9-143";

const PART: Label<Frames> = Label::new("ACK of a part");
const PART_AGAIN: Label<Frames> = Label::new("ACK of a part, again");
const RESPONSE: Label<Frames> = Label::new("responses to a part of the READ");
const ACK: Label<Frames> = Label::new("ACK");
const ACK_AGAIN: Label<Frames> = Label::new("ACK, again");
const STALE: Label<Frames> = Label::new("ACK of an earlier request, and a CNP");
const NAK: Label<Frames> = Label::new("sequence NAK of the first of three");
const NAK_AGAIN: Label<Frames> = Label::new("sequence NAK of the first of three, again");
const ENDS: Label<Wait> = Label::new("until all retries are over");

const T: AckTimeout = AckTimeout(14);
/// retry_cnt of the connections that exhaust their retries.
const RETRY_CNT: u8 = 2;
/// Time beyond 4 T that a retry may take on a busy host.
const BUSY: Duration = Duration::from_millis(330);
const PACKETS: u32 = 4;
const RESPONSES: u32 = 5;

pub(super) static TEST: Test = Test {
    id: "c09-142-progress",
    aliases: &[],
    revision: 3,
    about: "After a time-out the DUT continues a partly acknowledged message, or a partly answered READ, with the \
        rest.",
    reading: "The DUT retransmits the same packets; it may request the rest of a READ, or the whole READ. A stale ACK, \
        a CNP, or a repeated ACK of a part allows no further retries: after retry_cnt retries comes \
        IBV_WC_RETRY_EXC_ERR.",
    statements: &[TIMEOUT, COUNT, COMPLETION, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let options = ChannelOptions {
        timeout: T,
        ..ChannelOptions::default()
    };
    let mut dut = Requester::open(t, &options)?;
    for operation in [Operation::Send, Operation::Write] {
        let sent = dut.post(t, Ask::new(operation, (PACKETS - 1) * dut.mtu + 40))?;
        if !in_part(t, &dut, &sent)? {
            break;
        }
    }
    dut.close(t)?;
    if t.offers(Operation::Read) {
        let mut dut = Requester::open(t, &options)?;
        let sent = dut.post(t, Ask::new(Operation::Read, RESPONSES * dut.mtu))?;
        one_by_one(t, &dut, &sent)?;
        dut.read_memory(t)?;
        dut.close(t)?;
    }
    unanswered(t)?;
    never_whole(t)?;
    late(t)
}

/// Returns how long a retry may take.
fn retried(t: &Tester<'_>) -> Duration {
    4 * t.nearest_timeout(T).duration().unwrap_or_default() + BUSY
}

/// Sends a sequence NAK, waits for the first retransmission, and acknowledges all requests. The DUT must accept
/// this ACK although it has not yet retransmitted them all.
fn late(t: &mut Tester<'_>) -> Step {
    let mut dut = Requester::open(t, &ChannelOptions::default())?;
    let asks = [Ask::send(64), Ask::send(64).at(64), Ask::send(8)];
    let (sent, all_seen) = dut.post_and_see(t, asks)?;
    if all_seen {
        let nak = dut.nak(sent[0].first, NakCode::PSN_SEQUENCE_ERROR, 0);
        dut.provoke(t, (NAK, NAK_AGAIN), &nak, (sent[0].first, retried(t)))?;
        let ack = dut.answers(t, &sent[2]);
        dut.answer(t, (ACK, ACK_AGAIN), &ack, 3)?;
    }
    dut.close(t)
}

/// Acknowledges only the first packet of a message, after each transmission. Only the first ACK is progress.
fn never_whole(t: &mut Tester<'_>) -> Step {
    let options = ChannelOptions {
        timeout: T,
        retry_cnt: RETRY_CNT,
        ..ChannelOptions::default()
    };
    let mut dut = Requester::open(t, &options)?;
    let sent = dut.post(t, Ask::send(dut.mtu + 40))?;
    let ack = dut.ack(sent.first, 0);
    for _ in 0..=2 * RETRY_CNT + 1 {
        if dut.next_psn(t)?.is_none() {
            break;
        }
        t.send_frame(PART, &ack)?;
    }
    t.wait_for(ENDS, t.rc_silence(Duration::ZERO, t.nearest_timeout(T), RETRY_CNT))?;
    dut.close(t)
}

/// Acknowledges the second packet, and the rest after the retransmission of the rest. Returns whether the request
/// completed.
fn in_part(t: &mut Tester<'_>, dut: &Requester, sent: &Sent) -> Step<bool> {
    let ack = |at: u32| dut.ack(sent.first.plus(at), sent.msn - 1);
    for at in 0..2 {
        if !dut.comes(t, (PART, PART_AGAIN), sent, at)? {
            return Ok(false);
        }
    }
    t.send_frame(PART, &ack(1))?;
    // Wait for the first transmission, and for the retransmission after a time-out.
    for _ in 0..2 {
        dut.see(t, sent.first.plus(2), retried(t))?;
    }
    for at in 3..PACKETS {
        if !dut.comes(t, (PART, PART_AGAIN), sent, at)? {
            return Ok(false);
        }
    }
    let answers = dut.answers(t, sent);
    dut.answer(t, (ACK, ACK_AGAIN), &answers, 1)
}

/// Answers each transmission of a READ with one more response.
fn one_by_one(t: &mut Tester<'_>, dut: &Requester, sent: &Sent) -> Step {
    let data = response_data(t, sent);
    let mtu = dut.mtu as usize;
    for until in 1..=RESPONSES {
        let Some(psn) = dut.next_psn(t)? else {
            // Within this time the DUT retries or fails the READ.
            t.wait_for(ENDS, t.rc_silence(Duration::ZERO, t.nearest_timeout(T), RETRY_CNT))?;
            return Ok(());
        };
        let from = psn.since(sent.first);
        for at in from.min(until - 1)..until {
            let opcode = read_response(at.saturating_sub(from), RESPONSES.saturating_sub(from).max(1));
            let payload = &data[at as usize * mtu..(at as usize + 1) * mtu];
            t.send_frame(RESPONSE, &dut.response(sent, at, opcode, payload))?;
        }
    }
    dut.completions(t, 1).map(drop)
}

/// Leaves a SEND unanswered: the peer sends only stale ACKs and CNPs.
fn unanswered(t: &mut Tester<'_>) -> Step {
    let options = ChannelOptions {
        timeout: T,
        retry_cnt: RETRY_CNT,
        ..ChannelOptions::default()
    };
    let mut dut = Requester::open(t, &options)?;
    let earlier = dut.post(t, Ask::send(64))?;
    let answers = dut.answers(t, &earlier);
    if dut.see_all(t, &earlier)? && dut.answer(t, (ACK, ACK_AGAIN), &answers, 1)? {
        let sent = dut.post(t, Ask::send(64))?;
        // Allow for twice the retries: on a link that delays responses, the ACK of the first SEND may reload the
        // retry counter late.
        for _ in 0..=2 * RETRY_CNT + 1 {
            if !dut.see_all(t, &sent)? {
                break;
            }
            t.send_frame(STALE, &answers[0])?;
            t.send_frame(STALE, &ask::cnp(&dut.channel))?;
        }
        t.wait_for(ENDS, t.rc_silence(Duration::ZERO, t.nearest_timeout(T), RETRY_CNT))?;
    }
    dut.close(t)
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    f.exercises(&[
        Rule::TimeoutRetried,
        Rule::RetryCount,
        Rule::RetryFails,
        Rule::AnsweredCompletes,
    ]);
    offers::was_posted(t, Operation::Read)?;
    t.not_judged(RESPONSE);
    t.not_judged(NAK);
    t.not_judged(NAK_AGAIN);
    t.waits(ENDS).next().ok_or(Gap::Missing(ENDS.name))?;
    rc::came(t, &[PART, ACK, STALE])
}
