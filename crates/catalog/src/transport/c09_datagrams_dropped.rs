//! `c09-datagrams-dropped`: the DUT drops a datagram in INIT, without a receive, or with an error, without any
//! effect.
//!
//! The DUT's datagram queue pair has a receive. In INIT it must drop datagrams; in RTR a datagram must fill the
//! receive. In RTS it must drop datagrams that find no receive; the next datagram fills the next receive. Then the peer
//! sends packets of other services, of other partitions and with P_Key 0. It also sends a datagram with a wrong Q_Key
//! and immediate data, and a datagram with a wrong ICRC. A valid datagram follows. The last datagram finds a receive in
//! memory that the device may not write: the receive must not complete with success.
//!
//! Reading: a dropped datagram consumes no receive, completes nothing, and gets no response. The specification
//! leaves open the state of a queue pair after a failed receive, so this step is the last.
//!
//! False alarm: none known. A datagram lost on a real path proves nothing.

use core::time::Duration;

use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Findings, Frames, Gap, Label, Side, Trace, Verbs, Wait};
use verbatim_tester::peer::{Channel, ChannelOptions};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::PKey;
use verbatim_wire::packet::{AckTimeout, ImmDt, Opcode, Psn, QKey, Transport};

use super::datagrams::{self, DATAGRAMS, HEADER, HEADERS, datagram};
use crate::transport::rc::ask;
use verbatim_oracle::Rule;

const FILL: Label<Verbs> = Label::new("fill the memory");
const RECEIVE: Label<Verbs> = Label::new("post a receive");
const CLOSED: Label<Verbs> = Label::new("register memory that the device may not write");
const DROPPED: Label<Frames> = Label::new("datagram that must be dropped");
const TAKEN: Label<Frames> = Label::new("datagram that must be taken");
const NOWHERE: Label<Frames> = Label::new("datagram whose receive may not be written");
const AFTER: Label<Wait> = Label::new("after all datagrams");
const RESULT: Label<Verbs> = Label::new("read the memory");
const CLOSED_RESULT: Label<Verbs> = Label::new("read the memory that may not be written");
const STATE: Label<Verbs> = Label::new("is the host still there");

const Q_KEY: QKey = QKey(0x1357_9BDF);
const LENGTH: u32 = 64;
const SLOT: u32 = HEADER + LENGTH;
/// Length in bytes of a datagram to accept. It is shorter than a datagram to drop, so that it does not cover all
/// bytes of a wrongly accepted datagram.
const SOUND: u32 = LENGTH - 16;
/// Number of receives in the connection's memory. The receive in other memory has the next wr_id.
const RECEIVES: u64 = 3;
const LOOKED_AT: u32 = 4096;
/// Wait for a completion that must not come.
const MOMENT: Duration = Duration::from_millis(100);

pub(super) static TEST: Test = Test {
    id: "c09-datagrams-dropped",
    aliases: &[],
    revision: 3,
    about: "A datagram that is early, invalid or without a receive takes no receive; protected memory stays unchanged.",
    reading: "A datagram in INIT, without a receive, of another service or partition, with immediate data and another \
        Q_Key, or with a wrong ICRC takes no receive. In RTR and RTS the next sound datagram fills the next receive. A \
        receive in memory that the device may not write does not complete with success, and the memory stays \
        unchanged.",
    statements: &[DATAGRAMS, HEADERS],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

/// Builds a datagram with its own payload.
fn one(t: &Tester<'_>, channel: &Channel, of: &datagrams::Datagrams, name: &str) -> Transport {
    datagram(channel, of.qpn, Q_KEY, ask::random_bytes(t, name, LENGTH))
}

fn drop_all(t: &mut Tester<'_>, channel: &Channel, of: &datagrams::Datagrams, packets: &[Transport]) -> Step {
    for packet in packets {
        ask::insist(t, DROPPED, &channel.frame(packet))?;
    }
    t.next_completion(Side::Dut, of.channel.qp, t.now().after(MOMENT))?;
    Ok(())
}

fn take(t: &mut Tester<'_>, channel: &Channel, of: &datagrams::Datagrams, name: &str) -> Step {
    let packet = datagram(channel, of.qpn, Q_KEY, ask::random_bytes(t, name, SOUND));
    datagrams::deliver(t, of, TAKEN, &channel.frame(&packet)).map(drop)
}

fn procedure(t: &mut Tester<'_>) -> Step {
    let channel = t.open_channel(&ChannelOptions::default())?;
    let bytes = ask::random_bytes(t, "memory", LOOKED_AT);
    ask::fill(t, &channel, FILL, 0, bytes)?;
    let of = datagrams::begin(t, &channel, Q_KEY)?;
    let receive =
        |t: &mut Tester<'_>, at: u32| ask::post_receive(t, &of.channel, RECEIVE, u64::from(at) + 1, (at * SLOT, SLOT));
    receive(t, 0)?;
    let early = one(t, &channel, &of, "early");
    drop_all(t, &channel, &of, &[early])?;
    datagrams::settle(t)?;
    datagrams::step(t, &of, pb::QpState::Rtr, pb::QpAttributes::default())?;
    take(t, &channel, &of, "in RTR")?;
    let rts = pb::QpAttributes {
        sq_psn: Some(0),
        ..pb::QpAttributes::default()
    };
    datagrams::step(t, &of, pb::QpState::Rts, rts)?;
    let late = one(t, &channel, &of, "without a receive");
    drop_all(t, &channel, &of, &[late])?;
    receive(t, 1)?;
    take(t, &channel, &of, "in RTS")?;
    receive(t, 2)?;
    let others = [Opcode::RC_SEND_ONLY, Opcode::UC_SEND_ONLY].map(|opcode| {
        let mut packet = Transport {
            payload: ask::random_bytes(t, "of another service", SLOT),
            ..channel.transport(opcode, Psn(0))
        };
        packet.bth = packet.bth.with_dest_qp(of.qpn);
        packet
    });
    let keys = [PKey(0), PKey(0x8000), PKey(0xFFFE)].map(|key| {
        let mut packet = one(t, &channel, &of, "of another partition");
        packet.bth = packet.bth.with_p_key(key);
        packet
    });
    drop_all(t, &channel, &of, &others)?;
    drop_all(t, &channel, &of, &keys)?;
    // Immediate data must not bypass the check of the Q_Key. The next frame has one wrong bit, in its ICRC.
    let mut immediate = one(t, &channel, &of, "immediate data with another Q_Key");
    immediate.bth = immediate.bth.with_opcode(Opcode::UD_SEND_ONLY_IMM);
    immediate.deth = immediate.deth.map(|deth| deth.with_q_key(QKey(Q_KEY.0 ^ 1 << 16)));
    immediate.imm = Some(ImmDt::default());
    drop_all(t, &channel, &of, &[immediate])?;
    let mut frame = channel.frame(&one(t, &channel, &of, "with a wrong ICRC"));
    if let Some(last) = frame.last_mut() {
        *last ^= 1;
    }
    ask::insist(t, DROPPED, &frame)?;
    t.next_completion(Side::Dut, of.channel.qp, t.now().after(MOMENT))?;
    take(t, &channel, &of, "behind others")?;
    let closed = Command::RegisterMemory(pb::RegisterMemory {
        length: LOOKED_AT,
        access: Some(pb::Access::default()),
    });
    if let Reply::Memory(closed) = t.verbs(CLOSED, Side::Dut, closed)? {
        let slice = pb::Slice {
            memory: closed.memory,
            offset: 0,
            length: SLOT,
        };
        let post = Command::PostReceive(pb::PostReceive {
            qp: of.channel.qp,
            wr_id: RECEIVES + 1,
            local: Some(slice),
        });
        t.verbs(RECEIVE, Side::Dut, post)?;
        let packet = one(t, &channel, &of, NOWHERE.name);
        t.send_frame(NOWHERE, &channel.frame(&packet))?;
        t.next_completion(Side::Dut, of.channel.qp, t.now().after(ask::RESPONSE_WAIT))?;
        let read = Command::ReadMemory(pb::ReadMemory { from: Some(slice) });
        t.verbs(CLOSED_RESULT, Side::Dut, read)?;
    }
    t.wait_for(AFTER, t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0))?;
    ask::read_memory(t, &channel, RESULT, LOOKED_AT)?;
    ask::query(t, &of.channel, STATE)?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    datagrams::judged(
        t,
        f,
        &[Rule::DatagramDropped, Rule::DatagramReceived, Rule::DatagramStored],
    )
}
