//! `c09-header-validation`: the DUT drops packets with an invalid header, and sends no response.
//!
//! For each case the peer sends one or more WRITEs with an invalid header and a correct ICRC. It sends each WRITE
//! three times, because a packet may be lost. Then it sends a valid WRITE with the same PSN to an adjacent
//! address. The DUT sends no response to the invalid WRITEs and acknowledges the valid WRITE. The memory shows
//! only the valid WRITE. Afterwards the DUT delivers a padded SEND without the padding, and executes a WRITE from
//! another UDP port. If the DUT is a full member, it also executes the WRITE of a limited member.
//!
//! Reading: P_Keys match if their low 15 bits are equal and not 0, and at least one side is a full member. The DUT's
//! own packets show whether it is a full member; a limited member drops the WRITE of a limited member. Verbs cannot
//! read the counter of P_Key violations, so the test does not judge it. A peer may use any source UDP port.
//!
//! False alarm: a switch or host firewall may drop packets with a spoofed source address. Such a drop hides a fault,
//! but never causes a failure.

use core::net::IpAddr;
use core::time::Duration;

use verbatim_record::{Evidence, Findings, FrameSeen, Frames, Gap, Label, Passed, Trace, Verbs, Wait};
use verbatim_tester::peer::{Channel, ChannelOptions};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::PKey;
use verbatim_wire::packet::{
    AckTimeout, Bth, Deth, Medium, Opcode, Packet, Psn, QKey, Qpn, Service, Station, Transport, Xrceth,
};

use crate::transport::rc;
use crate::transport::rc::answer::{self, MSN, Turn, is_repeated};
use crate::transport::rc::ask::{self, Message};
use crate::transport::rc::effect::{self, Received};

const HEADERS: &str = "9.6.1 header validation";

const FILL: Label<Verbs> = Label::new("fill the memory");
const RECEIVE: Label<Verbs> = Label::new("post a receive");
const PADDED: Label<Frames> = Label::new("SEND with padding");
const OTHER_PORT: Label<Frames> = Label::new("WRITE from another UDP port");
const LIMITED: Label<Frames> = Label::new("WRITE of a limited member");
const LAST: Label<Frames> = Label::new("WRITE behind all of them");
const AFTER: Label<Wait> = Label::new("after all packets");
const RESULT: Label<Verbs> = Label::new("read the memory");
const STATE: Label<Verbs> = Label::new("is the host still there");

/// A case of packets with an invalid header.
struct Case {
    wrong: Label<Frames>,
    sound: Label<Frames>,
    frames: fn(&Channel, Transport) -> Vec<Vec<u8>>,
}

macro_rules! cases {
    ($($name:literal $frames:expr;)*) => {
        &[$( Case {
            wrong: Label::new($name),
            sound: Label::new(concat!("sound WRITE after ", $name)),
            frames: $frames,
        }, )*]
    };
}

static CASES: &[Case] = cases! {
    "TVer 1" |c, packet| vec![with_bth(c, packet, |bth| bth.with_tver(1))];
    "TVer 15" |c, packet| vec![with_bth(c, packet, |bth| bth.with_tver(15))];
    "P_Key of another partition" |c, packet| vec![with_bth(c, packet, |bth| bth.with_p_key(PKey(0xDA5A)))];
    "P_Keys that differ in one bit" |c, packet| {
        let own = packet.bth.p_key();
        let others = (0..15).map(|bit| PKey(own.0 ^ 1 << bit));
        others.map(|other| with_bth(c, packet.clone(), |bth| bth.with_p_key(other))).collect()
    };
    "P_Key 0x0000" |c, packet| vec![with_bth(c, packet, |bth| bth.with_p_key(PKey(0)))];
    "P_Key 0x8000" |c, packet| vec![with_bth(c, packet, |bth| bth.with_p_key(PKey(0x8000)))];
    "opcode of UC" |c, packet| vec![with_bth(c, packet, |bth| bth.with_opcode(Opcode::UC_WRITE_ONLY))];
    "opcode of UD" |c, mut packet| {
        packet.reth = None;
        packet.deth = Some(Deth::default().with_q_key(QKey(0x1111_1111)).with_src_qp(c.own_qpn));
        vec![with_bth(c, packet, |bth| bth.with_opcode(Opcode::UD_SEND_ONLY))]
    };
    "opcode of XRC" |c, mut packet| {
        packet.xrceth = Some(Xrceth::default());
        vec![with_bth(c, packet, |bth| bth.with_opcode(Opcode::XRC_WRITE_ONLY))]
    };
    "opcode of no service" |c, packet| vec![with_bth(c, packet, |bth| bth.with_opcode(Opcode(0x8A)))];
    "DestQP that does not exist" |c, packet| vec![with_bth(c, packet, |bth| bth.with_dest_qp(no_qp(c)))];
    "DestQP that differs in its highest bit" |c, packet| vec![with_bth(c, packet, |bth| bth.with_dest_qp(other_qp(c, 23)))];
    "DestQP that differs in bit 16" |c, packet| vec![with_bth(c, packet, |bth| bth.with_dest_qp(other_qp(c, 16)))];
    "another source address" |c, packet| vec![elsewhere(c).frame(&packet)];
    "the source address in another network" |c, packet| vec![far(c).frame(&packet)];
    "frame that ends before its IP length" |c, packet| {
        let mut frame = c.frame(&packet);
        frame.truncate(frame.len() - 4);
        vec![frame]
    };
};

const LENGTH: u32 = 64;
/// Length of the memory that is filled before and compared afterwards, in bytes.
const LOOKED_AT: u32 = 4096;
/// Length of the padded SEND in bytes, and offset of its receive.
const ODD: u32 = 5;
const SLOT: u32 = 3072;
/// Wait for a response after the invalid packets of a case, before the packets of the next case.
const MOMENT: Duration = Duration::from_millis(20);

const fn place(n: u32) -> u32 {
    n * 128 + 8
}

pub(super) static TEST: Test = Test {
    id: "c09-header-validation",
    aliases: &[],
    revision: 5,
    about: "Packets with a wrong TVer, P_Key, opcode class, DestQP or source address are dropped in silence.",
    reading: "An invalid WRITE, three times, then a valid one with the same PSN to an adjacent address: no answer to \
        the invalid ones, an ACK of the valid one, and the memory shows only the valid one. P_Keys match if their low \
        15 bits are equal and not 0, and at least one side is a full member. Padding is no payload. Verbs cannot read \
        the counter of P_Key violations.",
    statements: &[HEADERS, MSN, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

/// Builds the frame of a packet with a changed BTH.
pub(super) fn with_bth(channel: &Channel, mut packet: Transport, change: impl FnOnce(Bth) -> Bth) -> Vec<u8> {
    packet.bth = change(packet.bth);
    channel.frame(&packet)
}

/// Returns the connection with a source address that is not the tester's.
pub(super) fn elsewhere(channel: &Channel) -> Channel {
    let other = |bits: u8| match channel.own.ip {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            IpAddr::from([a, b, c, d ^ bits])
        }
        IpAddr::V6(ip) => {
            let mut octets = ip.octets();
            octets[15] ^= bits;
            IpAddr::from(octets)
        }
    };
    let ip = if other(0x10) == channel.dut.ip {
        other(0x20)
    } else {
        other(0x10)
    };
    Channel {
        own: Station { ip, ..channel.own },
        ..*channel
    }
}

/// Returns the connection with a source address that differs from the tester's only in a high bit.
fn far(channel: &Channel) -> Channel {
    let ip = match channel.own.ip {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            IpAddr::from([a, b ^ 1, c, d])
        }
        IpAddr::V6(ip) => {
            let mut octets = ip.octets();
            octets[3] ^= 1;
            IpAddr::from(octets)
        }
    };
    Channel {
        own: Station { ip, ..channel.own },
        ..*channel
    }
}

/// Returns a queue pair number that the DUT probably does not use.
pub(super) fn no_qp(channel: &Channel) -> Qpn {
    Qpn(channel.dut_qpn.0 ^ 0x0055_5000)
}

/// Returns a queue pair number that differs from the DUT's in one bit. If this queue pair exists, it has another
/// connection.
fn other_qp(channel: &Channel, bit: u32) -> Qpn {
    Qpn(channel.dut_qpn.0 ^ 1 << bit)
}

fn procedure(t: &mut Tester<'_>) -> Step {
    let channel = t.open_channel(&ChannelOptions::default())?;
    let bytes = ask::random_bytes(t, "memory", LOOKED_AT);
    ask::fill(t, &channel, FILL, 0, bytes)?;
    ask::post_receive(t, &channel, RECEIVE, 1, (SLOT, LENGTH))?;
    let mut psn = channel.own_psn;
    let write = |t: &Tester<'_>, label: Label<Frames>, psn: Psn, n: u32| {
        Message::write(&channel, psn, place(n), &ask::random_bytes(t, label.name, LENGTH))
    };
    for (n, case) in (0u32..).zip(CASES) {
        // The valid WRITE goes elsewhere, so that it does not cover the bytes of an accepted invalid WRITE.
        let bytes = ask::random_bytes(t, case.wrong.name, LENGTH);
        let wrong = Message::write(&channel, psn, place(n) + LENGTH, &bytes);
        t.skip_packets();
        for wrong in (case.frames)(&channel, wrong.packets[0].clone()) {
            ask::insist(t, case.wrong, &wrong)?;
        }
        t.pause(MOMENT)?;
        let sound = write(t, case.sound, psn, n);
        ask::ask(t, &channel, case.sound, &sound)?;
        psn = psn.next();
    }
    let payload = ask::random_bytes(t, PADDED.name, ODD);
    ask::ask(t, &channel, PADDED, &Message::send(&channel, psn, &payload))?;
    psn = psn.next();
    let cases = CASES.len() as u32;
    let moved = Channel {
        own: Station {
            udp_port: channel.own.udp_port ^ 0x0155,
            ..channel.own
        },
        ..channel
    };
    let message = write(t, OTHER_PORT, psn, cases);
    ask::ask(t, &moved, OTHER_PORT, &message)?;
    psn = psn.next();
    let limited = write(t, LIMITED, psn, cases + 1).changed(|packets| {
        packets[0].bth = packets[0].bth.with_p_key(PKey(0x7FFF));
    });
    if ask::ask(t, &channel, LIMITED, &limited)? {
        psn = psn.next();
    }
    let last = write(t, LAST, psn, cases + 2);
    ask::ask(t, &channel, LAST, &last)?;
    t.wait_for(AFTER, t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0))?;
    ask::read_memory(t, &channel, RESULT, LOOKED_AT)?;
    ask::query(t, &channel, STATE)?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let all = rc::dialogues(t)?;
    let dialogue = &all[0];
    rc::sound_packets(f, dialogue);
    let mut memory = effect::written(t.command(FILL)?).to_vec();
    let mut put = |place: u32, turn: &Turn<'_>| effect::put(&mut memory, place, &turn.payload());
    let turn = |label: Label<Frames>| answer::turn(t, dialogue, label).ok_or(Gap::Missing(label.name));
    let mut msn = 0;
    for (n, case) in (0u32..).zip(CASES) {
        let sound = turn(case.sound)?;
        dropped(t, f, case, &sound)?;
        msn += 1;
        answer::acknowledged(
            t,
            f,
            (HEADERS, case.sound.name),
            (dialogue, &sound),
            (sound.last_sent(), msn),
        );
        put(place(n), &sound);
    }
    let cases = CASES.len() as u32;
    let (padded, moved, limited, last) = (turn(PADDED)?, turn(OTHER_PORT)?, turn(LIMITED)?, turn(LAST)?);
    for (label, turn) in [(PADDED, &padded), (OTHER_PORT, &moved)] {
        msn += 1;
        answer::acknowledged(t, f, (HEADERS, label.name), (dialogue, turn), (turn.last_sent(), msn));
    }
    put(SLOT, &padded);
    put(place(cases), &moved);
    let is_full = padded
        .answers
        .iter()
        .all(|seen| seen.packet.bth().p_key().0 & 0x8000 != 0);
    if is_full {
        msn += 1;
        answer::acknowledged(
            t,
            f,
            (HEADERS, LIMITED.name),
            (dialogue, &limited),
            (limited.last_sent(), msn),
        );
        if limited.answers.is_empty() {
            // The DUT may or may not have executed the WRITE, so the next MSN, PSN and memory contents are unknown.
            let _ = (
                t.waited(AFTER)?,
                t.command(RECEIVE)?,
                t.command(STATE)?,
                t.command(RESULT)?,
            );
            return Ok(());
        }
        put(place(cases + 1), &limited);
    } else {
        let result = if limited.answers.is_empty() {
            Passed::Pass
        } else {
            Passed::Fail
        };
        let words = ("no answer of a limited member", rc::in_words(&limited.answers));
        f.prove(
            HEADERS,
            &limited.evidence(&limited.answers),
            LIMITED.name,
            words,
            result,
        );
    }
    answer::acknowledged(
        t,
        f,
        (HEADERS, LAST.name),
        (dialogue, &last),
        (last.last_sent(), msn + 1),
    );
    put(place(cases + 2), &last);
    let after = t.waited(AFTER)?;
    let delivered = Received {
        wr_id: 1,
        byte_len: ODD,
        imm: None,
    };
    let _ = (t.command(RECEIVE)?, t.command(STATE)?);
    let places = (dialogue, dialogue.places.0, after.place);
    effect::received(
        t,
        f,
        (HEADERS, "SEND with padding: receive completion"),
        places,
        &[delivered],
    );
    let words = (
        "the payload of each valid WRITE at its address, all other bytes unchanged",
        memory.as_slice(),
    );
    effect::memory_is(f, (HEADERS, "memory of the DUT"), t.command(RESULT)?, words);
    Ok(())
}

/// Checks that no RC packet came between the invalid packets and the valid WRITE, to any queue pair of the tester.
fn dropped(t: &Trace, f: &mut Findings<'_>, case: &Case, sound: &Turn<'_>) -> Result<(), Gap> {
    let wrong: Vec<&FrameSeen> = t.frames(case.wrong).collect();
    let first = wrong.first().ok_or(Gap::Missing(case.wrong.name))?;
    let came = |frame: &&FrameSeen| {
        let between = frame.received && frame.place > first.place && frame.place < sound.places.0;
        let packet = Packet::parse(Medium::Ethernet, &frame.bytes);
        // Packets of other services and repeats of an earlier ACK are no responses to the invalid packets.
        let is_of_rc = packet.is_ok_and(|packet| packet.opcode().service() == Service::Rc);
        between && is_of_rc && !is_repeated(t, frame)
    };
    let came: Vec<&FrameSeen> = t.timeline.frames.iter().filter(came).collect();
    let shown = wrong.iter().chain(&came);
    let evidence: Vec<Evidence<'_>> = shown.map(|frame| Evidence::from(*frame)).collect();
    let result = if came.is_empty() { Passed::Pass } else { Passed::Fail };
    let seen = came
        .first()
        .map_or_else(|| "no answer".into(), |frame| frame.in_words());
    f.prove(HEADERS, &evidence, case.wrong.name, ("no answer", seen), result);
    Ok(())
}
