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
use verbatim_record::{Evidence, Findings, Frames, Gap, Label, Passed, Side, Trace, Verbs, Wait, WcStatus};
use verbatim_tester::peer::{Channel, ChannelOptions};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::PKey;
use verbatim_wire::packet::{AckTimeout, ImmDt, Medium, Opcode, Packet, Psn, QKey, Transport};
use verbatim_wire::verbs::WcOpcode;

use super::datagrams::labels::{CREATE, MODIFY, OPEN};
use super::datagrams::{self, DATAGRAMS, HEADER, datagram};
use crate::transport::rc;
use crate::transport::rc::ask;

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
    statements: &[DATAGRAMS],
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
    t.send_frame(TAKEN, &channel.frame(&packet))?;
    t.next_completion(Side::Dut, of.channel.qp, t.now().after(ask::RESPONSE_WAIT))?;
    Ok(())
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

fn is(holds: bool) -> Passed {
    if holds { Passed::Pass } else { Passed::Fail }
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let _ = (t.command(OPEN)?, t.commands(MODIFY).count(), t.command(STATE)?);
    let _ = (
        t.commands(RECEIVE).count(),
        t.commands(CLOSED).count(),
        t.frames(NOWHERE).count(),
    );
    let (created, after, read) = (t.command(CREATE)?, t.waited(AFTER)?, t.command(RESULT)?);
    let Some(Reply::Qp(qp)) = rc::reply(created) else {
        return Err(Gap::Missing(CREATE.name));
    };
    let mut done = rc::completions_of(t, Side::Dut, (created.place, after.place));
    done.retain(|done| done.completion.qp == qp.qp);
    let dropped: Vec<Evidence<'_>> = t.frames(DROPPED).map(Evidence::from).collect();
    if dropped.is_empty() {
        return Err(Gap::Missing(DROPPED.name));
    }
    let taken: Vec<_> = t.frames(TAKEN).collect();
    let of_taken = |done: &&rc::Done<'_>| done.completion.wr_id <= RECEIVES;
    let filled: Vec<&rc::Done<'_>> = done.iter().filter(of_taken).collect();
    let words = |wr_id: u64, status: WcStatus, opcode: u32, bytes: u32, imm: Option<u32>| {
        let imm = imm.map_or(String::new(), |imm| format!(", ImmDt {imm:#x}"));
        format!("wr_id {wr_id} with {status}, {}, {bytes} bytes{imm}", WcOpcode(opcode))
    };
    let seen = |done: &rc::Done<'_>| {
        let of = done.completion;
        words(of.wr_id, done.status(), of.opcode, of.byte_len, of.imm)
    };
    let expected: Vec<String> = (1..=taken.len() as u64)
        .map(|wr_id| words(wr_id, WcStatus::SUCCESS, WcOpcode::RECV.0, HEADER + SOUND, None))
        .collect();
    let seen: Vec<String> = filled.iter().map(|done| seen(done)).collect();
    // After a loss, the next datagram fills the receive of the lost datagram.
    let sent_later = |place: usize| {
        let sent = t.timeline.frames.iter().filter(|frame| !frame.received);
        sent.map(|frame| frame.place)
            .find(|sent| *sent > place)
            .unwrap_or(usize::MAX)
    };
    let in_time = taken.iter().zip(&filled);
    let is_late = in_time
        .into_iter()
        .any(|(frame, done)| done.event.place > sent_later(frame.place));
    let comes_later = seen.len() < expected.len() && expected.starts_with(&seen);
    let result = match (seen == expected, comes_later) {
        _ if is_late && !t.begin.simulated => Passed::Inconclusive,
        (true, _) => Passed::Pass,
        (_, true) if t.begin.simulated => rc::alive(t, after.place, true),
        // A datagram may have been lost; then the next datagram fills the receive.
        (_, true) => Passed::Inconclusive,
        _ => Passed::Fail,
    };
    let about = "receives of datagrams";
    let evidence: Vec<Evidence<'_>> = filled.iter().map(|done| done.event.into()).chain(dropped).collect();
    let in_words = (expected.join("; "), seen.join("; "));
    if !f.prove(DATAGRAMS, &evidence, about, in_words, result) {
        return Ok(());
    }
    let mut memory = rc::effect::written(t.command(FILL)?).to_vec();
    let Some(Reply::Bytes(found)) = rc::reply(read) else {
        return Err(Gap::Missing(RESULT.name));
    };
    for (at, frame) in (0u32..).zip(&taken) {
        let Ok(packet) = Packet::parse(Medium::Ethernet, &frame.bytes) else {
            continue;
        };
        // `c09-datagrams` checks the header.
        datagrams::put(&mut memory, &found.bytes, at * SLOT, packet.payload());
    }
    let words = ("the payloads that were taken, the rest unchanged", memory.as_slice());
    rc::effect::memory_is(f, (DATAGRAMS, "memory of the DUT"), read, words);
    let failed = done.iter().find(|done| done.completion.wr_id > RECEIVES);
    let is_done = failed.is_some_and(|failed| failed.status() == WcStatus::SUCCESS);
    let seen = failed.map_or("none".into(), rc::Done::in_words);
    let about = "receive where the device may not write";
    let evidence: Vec<Evidence<'_>> = failed.iter().map(|failed| failed.event.into()).collect();
    f.prove(DATAGRAMS, &evidence, about, ("no success", seen), is(!is_done));
    if let Some(read) = t.commands(CLOSED_RESULT).next() {
        let words = ("as it was registered", [0; SLOT as usize].as_slice());
        rc::effect::memory_is(f, (DATAGRAMS, "memory that may not be written"), read, words);
    }
    Ok(())
}
