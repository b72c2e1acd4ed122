//! `c09-datagram-limits`: a datagram queue pair sends no message that it does not support, and completes each receive
//! once.
//!
//! The DUT posts three requests on a datagram queue pair: an MTU-sized datagram, a datagram one byte longer, and
//! an RDMA WRITE. The DUT sends the first datagram. The host refuses the other requests, or the DUT sends no
//! packet of them.
//!
//! Then the DUT posts three receives: a receive that is too short, a receive in memory that the device may not write,
//! and a receive without a datagram. The queue pair moves to ERR. Each receive must complete once, and not with
//! success.
//!
//! Reading: a host may refuse a datagram that is too long, fail it, or complete it as if it had been sent. The DUT must
//! not send it. A receive that cannot be filled may fail at once, or stay and be flushed.
//!
//! False alarm: none known.

use core::time::Duration;

use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Findings, Frames, Gap, Label, Side, TRIES, Trace, Verbs, Wait};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, Psn, QKey};

use super::datagrams::{self, DATAGRAMS, HEADER, datagram};
use crate::transport::rc;
use crate::transport::rc::ask;
use verbatim_oracle::Rule;

const FILL: Label<Verbs> = Label::new("fill the memory");
const FULL: Label<Verbs> = Label::new("post a datagram as long as the MTU");
const LONG: Label<Verbs> = Label::new("post a datagram longer than the MTU");
const WRITE: Label<Verbs> = Label::new("post a WRITE on a datagram queue pair");
const LAST: Label<Verbs> = Label::new("post a datagram behind them");
const CLOSED: Label<Verbs> = Label::new("register memory that the device may not write");
const RECEIVE: Label<Verbs> = Label::new("post a receive");
const SENT: Label<Frames> = Label::new("datagram that does not fit its receive");
const STOP: Label<Wait> = Label::new("in ERR");
const AFTER: Label<Wait> = Label::new("after what cannot be sent");
const STATE: Label<Verbs> = Label::new("is the host still there");

const Q_KEY: QKey = QKey(0x2468_ACE0);
const FIRST: Psn = Psn(0x12_3456);
/// Length of the DUT's memory in bytes: more than any MTU.
const MEMORY: u32 = 64 * 1024;
/// Largest MTU in bytes; this part of the memory is filled.
const MOST: u32 = 4096;
/// Length of a datagram in bytes.
const LENGTH: u32 = 64;
/// wr_ids of the receives: too short, in memory that the device may not write, and without a datagram.
const SHORT: u64 = 100;
const NOWHERE: u64 = 101;
const UNUSED: u64 = 102;

pub(super) static TEST: Test = Test {
    id: "c09-datagram-limits",
    aliases: &[],
    revision: 2,
    about: "A datagram queue pair sends no datagram longer than the MTU and no WRITE, and completes each receive once.",
    reading: "The DUT sends no packet of either, even if the host accepts the request; it sends the datagram posted \
        after them. A short receive, a receive in memory that the device may not write, and an unused receive each \
        complete once, without success, at the latest in ERR.",
    statements: &[DATAGRAMS, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let options = ChannelOptions {
        memory: MEMORY,
        ..ChannelOptions::default()
    };
    let channel = t.open_channel(&options)?;
    let bytes = ask::random_bytes(t, "memory", MOST);
    ask::fill(t, &channel, FILL, 0, bytes)?;
    let of_dut = datagrams::open(t, &channel, Q_KEY, FIRST)?;
    let (ud, qpn) = (of_dut.channel, of_dut.qpn);
    let Reply::Opened(facts) = &of_dut.opened else {
        return Ok(());
    };
    let mtu = u8::try_from(facts.active_mtu)
        .ok()
        .and_then(|code| verbatim_wire::Mtu(code).bytes());
    let post = |wr_id: u64, operation: pb::Operation, length: u32| {
        Command::PostSend(pb::PostSend {
            qp: ud.qp,
            wr_id,
            operation: operation.into(),
            local: Some(channel.memory.slice(0, length)),
            signaled: true,
            remote_address: channel.memory.address,
            r_key: channel.memory.r_key.0,
            address: Some(of_dut.peer.clone()),
            remote_qpn: channel.own_qpn.0,
            remote_qkey: Q_KEY.0,
            ..pb::PostSend::default()
        })
    };
    t.skip_packets();
    if let Some(mtu) = mtu {
        t.verbs(FULL, Side::Dut, post(4, pb::Operation::Send, mtu))?;
        t.next_completion(Side::Dut, ud.qp, t.now().after(ask::RESPONSE_WAIT))?;
    }
    // Post three times, because a lost packet would look like a packet that was not sent.
    for _ in 0..TRIES {
        if let Some(mtu) = mtu {
            t.verbs(LONG, Side::Dut, post(1, pb::Operation::Send, mtu + 1))?;
        }
        t.verbs(WRITE, Side::Dut, post(2, pb::Operation::Write, LENGTH))?;
    }
    t.wait_for(AFTER, t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0))?;
    // The earlier requests may have moved the queue pair to error, so this request may fail.
    t.verbs(LAST, Side::Dut, post(3, pb::Operation::Send, LENGTH))?;
    t.next_completion(Side::Dut, ud.qp, t.now().after(ask::RESPONSE_WAIT))?;
    ask::post_receive(t, &ud, RECEIVE, SHORT, (1024, HEADER + LENGTH - 1))?;
    let closed = Command::RegisterMemory(pb::RegisterMemory {
        length: MEMORY,
        access: Some(pb::Access::default()),
    });
    if let Reply::Memory(closed) = t.verbs(CLOSED, Side::Dut, closed)? {
        let receive = Command::PostReceive(pb::PostReceive {
            qp: ud.qp,
            wr_id: NOWHERE,
            local: Some(pb::Slice {
                memory: closed.memory,
                offset: 0,
                length: HEADER + LENGTH,
            }),
        });
        t.verbs(RECEIVE, Side::Dut, receive)?;
    }
    ask::post_receive(t, &ud, RECEIVE, UNUSED, (2048, HEADER))?;
    for at in 0..2 {
        let payload = ask::random_bytes(t, &format!("{} {at}", SENT.name), LENGTH);
        t.send_frame(SENT, &channel.frame(&datagram(&channel, qpn, Q_KEY, payload)))?;
        t.pause(ask::RESPONSE_WAIT)?;
    }
    datagrams::step(t, &of_dut, pb::QpState::Err, pb::QpAttributes::default())?;
    t.wait_for(STOP, t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0))?;
    ask::query(t, &ud, STATE)?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    datagrams::judged(t, f, &[Rule::DatagramSent, Rule::DatagramReceived])
}
