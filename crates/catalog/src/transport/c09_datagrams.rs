//! `c09-datagrams`: a datagram queue pair sends posted datagrams, and accepts datagrams that fit, with its Q_Key.
//!
//! The DUT posts datagrams of several lengths, with and without immediate data and solicited event, with its own Q_Key
//! and with another Q_Key. It must send each datagram as one packet with the next PSN, and complete each request once.
//! Then the peer sends datagrams of several lengths to the DUT. A receive holds the network header in its first 40
//! bytes, and the payload after it. A datagram longer than its receive must not complete with success.
//!
//! Reading: a Q_Key with the highest bit set stands for the queue pair's own Q_Key. Of the 40 bytes, the test
//! compares only the addresses, in the IPv6 header or in an IPv4 header in the last 20 bytes. The host must not
//! report a datagram longer than its receive as received; the test leaves its other effects open.
//!
//! False alarm: a datagram may be lost in either direction, so a missing datagram proves nothing on a real path.

use core::net::IpAddr;
use core::time::Duration;

use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{
    Evidence, Findings, FrameSeen, Frames, Gap, Label, Passed, Side, Trace, Verbs, VerbsDone, Wait, WcStatus,
};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, ImmDt, Medium, Opcode, Packet, Psn, QKey};
use verbatim_wire::values::Hex32;
use verbatim_wire::verbs::WcOpcode;

use super::datagrams::labels::{CREATE, MODIFY, OPEN};
use super::datagrams::{self, DATAGRAMS, HEADER, datagram};
use crate::transport::rc;
use crate::transport::rc::ask;

const FILL: Label<Verbs> = Label::new("fill the memory");
const POST: Label<Verbs> = Label::new("post a datagram");
const RECEIVE: Label<Verbs> = Label::new("post a receive");
const SENT: Label<Frames> = Label::new("datagram to the DUT");
const LONG: Label<Frames> = Label::new("datagram longer than its receive");
const AFTER: Label<Wait> = Label::new("after all datagrams");
const RESULT: Label<Verbs> = Label::new("read the memory");
const STATE: Label<Verbs> = Label::new("is the host still there");

/// Q_Key of the DUT's queue pair, and another Q_Key.
const Q_KEY: QKey = QKey(0x1357_9BDF);
const OTHER: QKey = QKey(0x0246_8ACE);
/// First PSN of the DUT, so that the PSNs wrap.
const FIRST: Psn = Psn(0xFF_FFFE);
/// The DUT's datagrams: length in bytes, immediate data, solicited event, Q_Key.
const POSTS: [(u32, bool, bool, QKey); 5] = [
    (0, false, false, OTHER),
    (1, true, false, OTHER),
    (63, false, true, OTHER),
    (256, true, true, QKey(0x8000_0001)),
    (64, false, false, OTHER),
];
/// Traffic class of each datagram. The two ECN bits are 0: congestion control owns them.
const CLASSES: [u32; 5] = [0, 0x54, 0xA8, 0, 0x54];

/// The peer's datagrams: length in bytes, immediate data.
const SENDS: [(u32, bool); 4] = [(0, false), (5, true), (256, false), (64, true)];
/// Length of a receive in bytes, and distance between receives.
const SLOT: u32 = HEADER + 256;
/// Offset of the receives, after the data to send.
const SLOTS: u32 = 4096;
/// Length in bytes of the receive that is too short for the last datagram.
const SHORT: u32 = HEADER + 63;
/// wr_id of the first receive.
const RECEIVES: u64 = 100;
const IMMEDIATE: u32 = 0xC0DE_0001;
/// Length of the memory that is filled before and compared afterwards, in bytes.
const LOOKED_AT: u32 = 8192;

pub(super) static TEST: Test = Test {
    id: "c09-datagrams",
    aliases: &[],
    revision: 3,
    about: "A datagram queue pair sends each datagram in one packet, and accepts the datagrams that fit its receives.",
    reading: "Each datagram of the DUT has the next PSN and completes once. It has the Q_Key of its request, or the \
        queue pair's own if the request's Q_Key has its highest bit set. A receive holds the addresses in its first 40 \
        bytes, then the payload; a receive that is too short does not complete with success.",
    statements: &[DATAGRAMS, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let channel = t.open_channel(&ChannelOptions::default())?;
    let bytes = ask::random_bytes(t, "memory", LOOKED_AT);
    ask::fill(t, &channel, FILL, 0, bytes)?;
    let of_dut = datagrams::open(t, &channel, Q_KEY, FIRST)?;
    let (ud, qpn) = (of_dut.channel, of_dut.qpn);
    t.skip_packets();
    for (at, (length, has_imm, solicited, q_key)) in (1u64..).zip(POSTS) {
        let operation = if has_imm {
            pb::Operation::SendImm
        } else {
            pb::Operation::Send
        };
        let post = Command::PostSend(pb::PostSend {
            qp: ud.qp,
            wr_id: at,
            operation: operation.into(),
            local: Some(channel.memory.slice(at as u32 * 3, length)),
            signaled: true,
            solicited,
            imm: IMMEDIATE,
            address: Some(pb::AddressVector {
                traffic_class: CLASSES[at as usize - 1],
                ..of_dut.peer.clone()
            }),
            remote_qpn: channel.own_qpn.0,
            remote_qkey: q_key.0,
            ..pb::PostSend::default()
        });
        t.verbs_must(POST, Side::Dut, post)?;
        t.next_completion(Side::Dut, ud.qp, t.now().after(ask::RESPONSE_WAIT))?;
    }
    let count = SENDS.len() as u32;
    for at in 0..=count {
        let length = if at == count { SHORT } else { SLOT };
        ask::post_receive(t, &ud, RECEIVE, RECEIVES + u64::from(at), (SLOTS + at * SLOT, length))?;
    }
    for (length, has_imm) in SENDS {
        let payload = ask::random_bytes(t, &format!("{length} bytes"), length);
        let mut packet = datagram(&channel, qpn, Q_KEY, payload);
        if has_imm {
            packet.bth = packet.bth.with_opcode(Opcode::UD_SEND_ONLY_IMM);
            packet.imm = Some(ImmDt::default().with_data(Hex32(IMMEDIATE)));
        }
        t.send_frame(SENT, &channel.frame(&packet))?;
        t.next_completion(Side::Dut, ud.qp, t.now().after(ask::RESPONSE_WAIT))?;
    }
    let payload = ask::random_bytes(t, LONG.name, SHORT - HEADER + 1);
    t.send_frame(LONG, &channel.frame(&datagram(&channel, qpn, Q_KEY, payload)))?;
    t.wait_for(AFTER, t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0))?;
    ask::read_memory(t, &channel, RESULT, LOOKED_AT)?;
    ask::query(t, &ud, STATE)?;
    Ok(())
}

/// Returns the result for a missing datagram. On a real path the datagram may have been lost.
fn absent(t: &Trace, place: usize) -> Passed {
    if t.begin.simulated {
        rc::alive(t, place, true)
    } else {
        Passed::Inconclusive
    }
}

fn is(holds: bool) -> Passed {
    if holds { Passed::Pass } else { Passed::Fail }
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let _ = (t.command(OPEN)?, t.commands(MODIFY).count(), t.command(STATE)?);
    let (created, after) = (t.command(CREATE)?, t.waited(AFTER)?);
    let Some(Reply::Qp(qp)) = rc::reply(created) else {
        return Err(Gap::Missing(CREATE.name));
    };
    let (filled, read) = (rc::effect::written(t.command(FILL)?), t.command(RESULT)?);
    let mut done = rc::completions_of(t, Side::Dut, (created.place, after.place));
    done.retain(|done| done.completion.qp == qp.qp);
    let (sends, receives): (Vec<_>, Vec<_>) = done.into_iter().partition(|done| done.completion.wr_id < RECEIVES);
    sent(t, f, qp.qpn, filled, &sends);
    received(t, f, read, filled, &receives)
}

/// Checks that the DUT sent each posted datagram as posted, and completed it.
fn sent(t: &Trace, f: &mut Findings<'_>, qpn: u32, filled: &[u8], done: &[rc::Done<'_>]) {
    let frames = datagrams::sent_by(t, qpn);
    datagrams::sound_packets(f, &frames);
    let posts: Vec<&VerbsDone> = t.commands(POST).collect();
    for (at, (posted, (length, has_imm, solicited, q_key))) in (0u32..).zip(posts.iter().zip(POSTS)) {
        let Command::PostSend(post) = &posted.command else {
            continue;
        };
        let q_key = if q_key.0 >> 31 == 1 { Q_KEY } else { q_key };
        let kind = if has_imm {
            Opcode::UD_SEND_ONLY_IMM
        } else {
            Opcode::UD_SEND_ONLY
        };
        let words = |opcode: Opcode, psn: Psn, se: bool, q_key: QKey, to: u32, imm: Option<u32>, bytes: &[u8]| {
            let imm = imm.map_or(String::new(), |imm| format!(" ImmDt {imm:#x}"));
            let se = if se { " SE" } else { "" };
            format!(
                "{opcode} PSN {psn}{se} Q_Key {q_key} to {to:#x}{imm}, {} bytes {bytes:02x?}",
                bytes.len()
            )
        };
        let imm = has_imm.then_some(IMMEDIATE);
        let from = post.local.map_or(0, |local| local.offset) as usize;
        let data = filled.get(from..from + length as usize).unwrap_or_default();
        // A switch may rewrite the traffic class.
        let with_class = |words: String, class: u32| match t.begin.simulated {
            true => format!("{words}, traffic class {class:#04x}"),
            false => words,
        };
        let expected = words(kind, FIRST.plus(at), solicited, q_key, post.remote_qpn, imm, data);
        let expected = with_class(expected, CLASSES[at as usize]);
        let about = format!("datagram {} of the DUT", at + 1);
        let frame = frames.iter().find(|(_, packet)| packet.bth().psn() == FIRST.plus(at));
        let seen = frame.map(|(_, packet)| {
            let (bth, q_key) = (packet.bth(), packet.deth().map(|deth| deth.q_key()).unwrap_or_default());
            let imm = packet.imm().map(|imm| imm.data().0);
            let to = bth.dest_qp().0;
            let sent = words(
                packet.opcode(),
                bth.psn(),
                bth.solicited_event(),
                q_key,
                to,
                imm,
                packet.payload(),
            );
            let dscp = packet.ipv4().map(|ip| ip.dscp()).or(packet.ipv6().map(|ip| ip.dscp()));
            with_class(sent, u32::from(dscp.unwrap_or_default()) << 2)
        });
        let result = match &seen {
            Some(seen) if *seen == expected => Passed::Pass,
            Some(_) => Passed::Fail,
            None => absent(t, posted.place),
        };
        let evidence = frame
            .map(|(frame, _)| (*frame).into())
            .into_iter()
            .chain([(*posted).into()]);
        let shown: Vec<Evidence<'_>> = evidence.collect();
        f.prove(
            DATAGRAMS,
            &shown,
            &about,
            (expected, seen.unwrap_or_else(|| "none".into())),
            result,
        );
        let told = done.get(at as usize);
        let is_so = told.is_some_and(|told| {
            let of = told.completion;
            of.wr_id == post.wr_id && told.status() == WcStatus::SUCCESS && of.opcode == WcOpcode::SEND.0
        });
        let result = if told.is_none() {
            rc::alive(t, posted.place, true)
        } else {
            is(is_so)
        };
        let seen = told.map_or("none".into(), rc::Done::in_words);
        let words = (format!("wr_id {} with {}", post.wr_id, WcStatus::SUCCESS), seen);
        f.prove(
            DATAGRAMS,
            &[(*posted).into()],
            &format!("completion of {about}"),
            words,
            result,
        );
    }
    let count = posts.len() as u32;
    let is_odd = |(frame, packet): &(&FrameSeen, Packet<'_>)| {
        let psn = packet.bth().psn();
        let is_used = |other: &(&FrameSeen, Packet<'_>)| other.1.bth().psn() == psn && other.0.bytes != frame.bytes;
        psn.since(FIRST) >= count || frames.iter().any(is_used)
    };
    let more = done.len() > posts.len() || frames.iter().any(is_odd);
    let seen = if more {
        "a further completion, or a PSN that is wrong or repeated"
    } else {
        "one of each"
    };
    let words = ("one PSN and one completion for each", seen);
    f.prove(DATAGRAMS, &[], "datagrams of the DUT", words, is(!more));
}

/// Checks that each datagram that fits is in its receive, and that the rest of the memory is unchanged.
fn received(
    t: &Trace,
    f: &mut Findings<'_>,
    read: &VerbsDone,
    filled: &[u8],
    done: &[rc::Done<'_>],
) -> Result<(), Gap> {
    t.commands(RECEIVE).count();
    let long = t.frames(LONG).next().ok_or(Gap::Missing(LONG.name))?;
    let Some(Reply::Bytes(found)) = rc::reply(read) else {
        return Err(Gap::Missing(RESULT.name));
    };
    let count = t.frames(SENT).count();
    // After a loss, the next datagram fills the receive of the lost datagram.
    let in_time = done.iter().filter(|done| done.event.place < long.place).count();
    if !t.begin.simulated && in_time < count {
        let words = ("all of them", "fewer: the others may have been lost");
        f.prove(
            DATAGRAMS,
            &rc::evidence(done),
            "datagrams to the DUT",
            words,
            Passed::Inconclusive,
        );
        return Ok(());
    }
    let mut memory = filled.to_vec();
    for (at, frame) in t.frames(SENT).enumerate() {
        let Ok(packet) = Packet::parse(Medium::Ethernet, &frame.bytes) else {
            continue;
        };
        let about = format!("datagram {} to the DUT", at + 1);
        let imm = packet.imm().map(|imm| imm.data().0);
        let length = HEADER + packet.payload().len() as u32;
        let Some(told) = done.get(at) else {
            f.prove(
                DATAGRAMS,
                &[frame.into()],
                &about,
                ("a completion of its receive", "none"),
                absent(t, frame.place),
            );
            return Ok(());
        };
        let words = |wr_id: u64, status: WcStatus, opcode: u32, bytes: u32, imm: Option<u32>| {
            let imm = imm.map_or(String::new(), |imm| format!(", ImmDt {imm:#x}"));
            format!("wr_id {wr_id} with {status}, {}, {bytes} bytes{imm}", WcOpcode(opcode))
        };
        let of = told.completion;
        let expected = words(RECEIVES + at as u64, WcStatus::SUCCESS, WcOpcode::RECV.0, length, imm);
        let seen = words(of.wr_id, told.status(), of.opcode, of.byte_len, of.imm);
        let result = is(expected == seen);
        f.prove(
            DATAGRAMS,
            &[frame.into(), told.event.into()],
            &about,
            (expected, seen),
            result,
        );
        let slot = (SLOTS + at as u32 * SLOT) as usize;
        addresses(f, read, &about, (&packet, &found.bytes[slot..]));
        // The device may fill the rest of the header with any bytes.
        datagrams::put(&mut memory, &found.bytes, slot as u32, packet.payload());
    }
    let told = done.get(SENDS.len());
    let seen = told.map_or("none".into(), rc::Done::in_words);
    let is_so = told.is_none_or(|told| told.status() != WcStatus::SUCCESS);
    f.prove(DATAGRAMS, &[long.into()], LONG.name, ("no success", seen), is(is_so));
    // A failed receive may hold any bytes.
    let last = (SLOTS + SENDS.len() as u32 * SLOT) as usize;
    let short = found.bytes[last..last + SHORT as usize].to_vec();
    rc::effect::put(&mut memory, last as u32, &short);
    let words = ("the payloads in their receives, the rest unchanged", memory.as_slice());
    rc::effect::memory_is(f, (DATAGRAMS, "memory of the DUT"), read, words);
    Ok(())
}

/// Checks that the network header before a payload has the packet's addresses.
fn addresses(f: &mut Findings<'_>, read: &VerbsDone, about: &str, (packet, slot): (&Packet<'_>, &[u8])) {
    let ip = |from: usize, bytes: usize| -> Option<IpAddr> {
        let bytes = slot.get(from..from + bytes)?;
        let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
        four.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
    };
    let (expected, found): ([IpAddr; 2], _) = match (packet.ipv4(), packet.ipv6()) {
        (Some(header), _) => ([header.src().into(), header.dst().into()], [ip(32, 4), ip(36, 4)]),
        (_, Some(header)) => ([header.src().into(), header.dst().into()], [ip(8, 16), ip(24, 16)]),
        _ => return,
    };
    let seen = found
        .map(|ip| ip.map_or("none".into(), |ip| ip.to_string()))
        .join(" to ");
    let is_so = expected.map(Some) == found;
    let expected = expected.map(|ip| ip.to_string()).join(" to ");
    let about = format!("network header of {about}");
    f.prove(DATAGRAMS, &[read.into()], &about, (expected, seen), is(is_so));
}
