//! `c09-nak-sequence`: a sequence NAK acknowledges the packets before its PSN; the DUT retransmits from that PSN on.
//!
//! The test uses three connections:
//! - The second of three SENDs gets the NAK. The first completes, and the DUT retransmits the second and third. A later
//!   NAK of the first causes no retransmission.
//! - The third packet of a SEND of four packets gets the NAK. The DUT retransmits the third and fourth packet.
//! - With retry_cnt 2 every transmission of a SEND gets the NAK. After two retries the request fails with
//!   IBV_WC_RETRY_EXC_ERR.
//!
//! Reading: a sequence NAK consumes a retry of retry_cnt, as a time-out does. A DUT may retransmit from an earlier PSN
//! than the NAK requests; the test does not judge this.
//!
//! False alarm: if a NAK may have been lost, a missing retry is INCONCLUSIVE.

use core::time::Duration;

use verbatim_oracle::Rule;
use verbatim_record::{Findings, Frames, Gap, Label, Trace, Wait};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, NakCode};

use crate::transport::rc::{self, Ask, Requester};

const COUNT: &str = "C9-143";
const COMPLETION: &str = "C9-60";
const RETRY: &str = "C9-142";

const NAK: Label<Frames> = Label::new("sequence NAK");
const NAK_AGAIN: Label<Frames> = Label::new("sequence NAK, again");
const STALE: Label<Frames> = Label::new("sequence NAK of the first, which is done");
const ACK: Label<Frames> = Label::new("ACK of all");
const ACK_AGAIN: Label<Frames> = Label::new("ACK of all, again");
const LAST: Label<Frames> = Label::new("the last sequence NAK");
const LAST_AGAIN: Label<Frames> = Label::new("the last sequence NAK, again");
const AFTER: Label<Wait> = Label::new("after the last sequence NAK");

/// Wait for a retransmission that must not come.
const MOMENT: Duration = Duration::from_millis(100);
/// retry_cnt of the connection whose retries are exhausted.
const RETRY_CNT: u8 = 2;

pub(super) static TEST: Test = Test {
    id: "c09-nak-sequence",
    aliases: &[],
    revision: 2,
    about: "A sequence NAK acknowledges earlier requests, causes a retry from its PSN on, and consumes a retry of \
        retry_cnt.",
    reading: "Requests before the NAK's PSN complete. The DUT repeats the packet with that PSN before any later \
        packet, then the rest. After 1 + retry_cnt transmissions the request fails with IBV_WC_RETRY_EXC_ERR.",
    statements: &[rc::NAKS, COMPLETION, COUNT, RETRY, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    several(t)?;
    within(t)?;
    without_end(t)
}

fn patience(t: &Tester<'_>) -> Duration {
    t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0)
}

/// Sends the NAK between requests.
fn several(t: &mut Tester<'_>) -> Step {
    let mut dut = Requester::open(t, &ChannelOptions::default())?;
    let asks = [Ask::send(64), Ask::send(64).at(64), Ask::send(8)];
    let (sent, all_seen) = dut.post_and_see(t, asks)?;
    if all_seen {
        let nak = dut.nak(sent[1].first, NakCode::PSN_SEQUENCE_ERROR, 1);
        let wait = patience(t);
        dut.provoke(t, (NAK, NAK_AGAIN), &nak, (sent[1].first, wait))?;
        dut.see_all(t, &sent[2])?;
        let came = dut.completions(t, 1)?;
        // The first request is done: a NAK of it must cause no retransmission.
        let stale = dut.nak(sent[0].first, NakCode::PSN_SEQUENCE_ERROR, 1);
        t.send_frame(STALE, &stale)?;
        dut.see(t, sent[1].first, MOMENT)?;
        let ack = dut.answers(t, &sent[2]);
        dut.answer(t, (ACK, ACK_AGAIN), &ack, 3 - came)?;
    }
    dut.close(t)
}

/// Sends the NAK within a message.
fn within(t: &mut Tester<'_>) -> Step {
    let mut dut = Requester::open(t, &ChannelOptions::default())?;
    let sent = dut.post(t, Ask::send(4 * dut.mtu))?;
    if dut.see_all(t, &sent)? {
        let third = sent.first.plus(2);
        let nak = dut.nak(third, NakCode::PSN_SEQUENCE_ERROR, 0);
        let wait = patience(t);
        dut.provoke(t, (NAK, NAK_AGAIN), &nak, (third, wait))?;
        dut.see_all(t, &sent)?;
        let ack = dut.answers(t, &sent);
        dut.answer(t, (ACK, ACK_AGAIN), &ack, 1)?;
    }
    dut.close(t)
}

/// Sends NAKs until the retries are exhausted.
fn without_end(t: &mut Tester<'_>) -> Step {
    let options = ChannelOptions {
        retry_cnt: RETRY_CNT,
        ..ChannelOptions::default()
    };
    let mut dut = Requester::open(t, &options)?;
    let sent = dut.post(t, Ask::send(64))?;
    let wait = patience(t);
    let mut retried = dut.see_all(t, &sent)?;
    let nak = dut.nak(sent.first, NakCode::PSN_SEQUENCE_ERROR, 0);
    for _ in 0..RETRY_CNT {
        retried = retried && dut.provoke(t, (NAK, NAK_AGAIN), &nak, (sent.first, wait))?;
    }
    if retried {
        dut.answer(t, (LAST, LAST_AGAIN), &[nak], 1)?;
        t.wait_for(AFTER, wait)?;
    }
    dut.close(t)
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    f.exercises(&[
        Rule::NakRetried,
        Rule::NakResendsAll,
        Rule::NakFails,
        Rule::NakCount,
        Rule::UnaskedRetry,
        Rule::AnsweredCompletes,
        Rule::ErrorState,
    ]);
    rc::came_on_each(t, &[NAK])?;
    rc::came(t, &[LAST, ACK])
}
