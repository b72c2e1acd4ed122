//! `c09-flush`: a queue pair that moves to ERR flushes all posted requests, in order.
//!
//! A SEND of the peer consumes a receive; three receives are left. The first packet of another SEND fills the first of
//! them in part. Two SENDs of the DUT are outstanding and stay unanswered. All requests have a wr_id of more than 32
//! bits. Then the queue pair moves to ERR. The DUT flushes all five requests, each queue in posting order, and
//! retransmits nothing, although an ACK timeout was running. On another connection the DUT refuses a WRITE while its
//! own SEND is outstanding: the SEND is flushed, too.
//!
//! Reading: the partly filled receive is the first of the remaining receives.
//!
//! False alarm: none known.

use core::time::Duration;

use verbatim_oracle::Rule;
use verbatim_record::verbs::{Command, pb};
use verbatim_record::{Findings, Frames, Gap, Label, Side, Trace, Verbs, Wait};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::AckTimeout;

use crate::transport::rc::ask::{self, Message};
use crate::transport::rc::{self, Ask, Requester};

const IMMEDIATE: &str = "9.4.1 SEND and immediate";

const RECEIVE: Label<Verbs> = Label::new("post a receive");
const WHOLE: Label<Frames> = Label::new("SEND that takes a receive");
const HALF: Label<Frames> = Label::new("SEND First");
const AFTER: Label<Wait> = Label::new("after the step to ERR");
const WRONG: Label<Frames> = Label::new("WRITE longer than DMALen");
const AFTER_REFUSAL: Label<Wait> = Label::new("after the refusal");
const STATE: Label<Verbs> = Label::new("state after the refusal");
const STOP: Label<Verbs> = Label::new("modify to ERR");

/// First wr_id: a host must return all 64 bits.
const WR_IDS: u64 = 0x8000_0001_0000_0000;
/// Length of a receive in bytes.
const SLOT: u32 = 4096;

pub(super) static TEST: Test = Test {
    id: "c09-flush",
    aliases: &[],
    revision: 5,
    about: "In ERR all posted requests are flushed, each queue in its order, a partly filled receive first.",
    reading: "IBV_WC_WR_FLUSH_ERR for three receives and two SENDs, in the order in which they were posted.",
    statements: &[IMMEDIATE, rc::NAKS, "C9-143", rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    // With an ACK timeout, a timer that still runs in ERR causes retransmissions.
    let options = ChannelOptions {
        timeout: AckTimeout(14),
        ..ChannelOptions::default()
    };
    let mut dut = Requester::open(t, &options)?.numbered_from(WR_IDS);
    let channel = dut.channel;
    for (wr_id, at) in (WR_IDS + 101..).zip(0..4) {
        ask::post_receive(t, &channel, RECEIVE, wr_id, (32 * 1024 + at * SLOT, SLOT))?;
    }
    let bytes = ask::random_bytes(t, "payload", 2 * ask::mtu(&channel));
    let whole = Message::send(&channel, channel.own_psn, &bytes[..64]);
    ask::ask(t, &channel, WHOLE, &whole)?;
    let half = Message::send(&channel, whole.next(), &bytes).changed(|packets| {
        packets.truncate(1);
        packets[0].bth = packets[0].bth.with_ack_request(true);
    });
    ask::ask(t, &channel, HALF, &half)?;
    for _ in 0..2 {
        let sent = dut.post(t, Ask::send(64))?;
        dut.see_all(t, &sent)?;
    }
    let stop = pb::ModifyQp {
        qp: channel.qp,
        state: pb::QpState::Err.into(),
        attributes: Some(pb::QpAttributes::default()),
    };
    t.verbs_must(STOP, Side::Dut, Command::ModifyQp(stop))?;
    t.wait_for(AFTER, t.rc_silence(Duration::ZERO, options.timeout, 0))?;
    dut.close(t)?;
    refuses(t, &options, &bytes[..64])
}

/// Has the DUT refuse a request while one of its own is outstanding.
fn refuses(t: &mut Tester<'_>, options: &ChannelOptions, bytes: &[u8]) -> Step {
    let mut dut = Requester::open(t, options)?;
    let channel = dut.channel;
    let sent = dut.post(t, Ask::send(64))?;
    dut.see_all(t, &sent)?;
    let wrong = Message::write(&channel, channel.own_psn, 0, bytes)
        .changed(|packets| packets[0].reth = packets[0].reth.map(|reth| reth.with_dma_len(63)));
    ask::ask(t, &channel, WRONG, &wrong)?;
    // A host learns of its adapter's NAK later than the peer, and flushes only then.
    let flush = Duration::from_secs(1);
    t.wait_for(AFTER_REFUSAL, t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0) + flush)?;
    ask::query(t, &channel, STATE)?;
    dut.close(t)
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    f.exercises(&[Rule::ReceiveOrder, Rule::Flushed, Rule::AfterError]);
    t.waited(AFTER)?;
    t.waited(AFTER_REFUSAL)?;
    t.not_judged(STATE);
    rc::came(t, &[WHOLE, HALF, WRONG])
}
