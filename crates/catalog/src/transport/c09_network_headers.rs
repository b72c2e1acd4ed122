//! `c09-network-headers`: header fields that may differ between valid packets, or change on the path, have no effect.
//!
//! A network marks congestion, counts hops down, sets traffic classes, and spreads flows by their source port. UDP may
//! have a checksum. A receiver ignores reserved bits of the BTH. For each of these fields the peer sends a WRITE with a
//! changed field, and the DUT executes the WRITE. The peer also answers a SEND of the DUT with an ACK with the changed
//! field, and the ACK completes the SEND.
//!
//! Reading: header validation checks none of these fields. The ICRC covers the reserved bits of the BTH except the
//! first. A DUT may send CNPs for marked packets, and the test judges these CNPs.
//!
//! False alarm: a host's firewall may drop packets with few hops left, or with a mark.

use core::time::Duration;

use verbatim_oracle::Rule;
use verbatim_record::{Findings, Frames, Gap, Label, Passed, TRIES, Trace, Verbs, Wait};
use verbatim_tester::peer::{Channel, ChannelOptions};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, Bth, Medium, Network, Opcode, Packet, Psn, Qpn, Syndrome, Transport, packet};
use verbatim_wire::values::{Hex16, Hex32};
use verbatim_wire::{Aeth, Reserved, mend_udp_checksum};

use crate::transport::rc::ask::{self, Message};
use crate::transport::rc::{self, Ask, Requester};

const HEADERS: &str = "9.6.1 header validation";
const ACKNOWLEDGEMENT: &str = "9.7.5.1 acknowledgement";
const COMPLETION: &str = "C9-60";
const NOTIFICATION: &str = "A17.9 congestion notification";

const AFTER: Label<Wait> = Label::new("after all of them");
const RESULT: Label<Verbs> = Label::new("read the memory");
const STATE: Label<Verbs> = Label::new("is the host still there");

/// Length of each WRITE in bytes.
const LENGTH: u32 = 64;
/// Offset of the first WRITE, after the data that the DUT sends.
const PLACE: u32 = 4096;

/// Change of a packet's headers.
type Differs = fn(Network, Bth) -> (Network, Bth);

/// Changes one field, for IPv4 and for IPv6.
macro_rules! ip {
    (|$ip:ident, $udp:ident| $four:expr, $six:expr) => {
        |network, bth| {
            let network = match network {
                Network::RoceV2Ipv4 {
                    link,
                    ip: $ip,
                    udp: $udp,
                } => {
                    let (ip, udp) = $four;
                    Network::RoceV2Ipv4 { link, ip, udp }
                }
                Network::RoceV2Ipv6 {
                    link,
                    ip: $ip,
                    udp: $udp,
                } => {
                    let (ip, udp) = $six;
                    Network::RoceV2Ipv6 { link, ip, udp }
                }
                other => other,
            };
            (network, bth)
        }
    };
}

/// A header change, with the labels of the packets that have it.
struct Case {
    request: Label<Frames>,
    answer: Label<Frames>,
    again: Label<Frames>,
    differs: Differs,
    /// Whether the packet has a UDP checksum.
    summed: bool,
}

macro_rules! cases {
    ($($name:literal $differs:expr $(, $summed:literal)?;)*) => {
        &[$( Case {
            summed: false $(|| $summed)?,
            request: Label::new(concat!("WRITE with ", $name)),
            answer: Label::new(concat!("ACK with ", $name)),
            again: Label::new(concat!("ACK with ", $name, ", again")),
            differs: $differs,
        }, )*]
    };
}

/// The first cases have no ECN mark, so that a CNP before the first mark reveals a fault.
static CASES: &[Case] = cases! {
    "DSCP 0x2E" ip!(|ip, udp| (ip.with_dscp(0x2E), udp), (ip.with_dscp(0x2E), udp));
    "DSCP 0x11" ip!(|ip, udp| (ip.with_dscp(0x11), udp), (ip.with_dscp(0x11), udp));
    "ECN 1" ip!(|ip, udp| (ip.with_ecn(1), udp), (ip.with_ecn(1), udp));
    "ECN 2" ip!(|ip, udp| (ip.with_ecn(2), udp), (ip.with_ecn(2), udp));
    "ECN 3, congestion met" ip!(|ip, udp| (ip.with_ecn(3), udp), (ip.with_ecn(3), udp));
    "one hop left" ip!(|ip, udp| (ip.with_ttl(1), udp), (ip.with_hop_limit(1), udp));
    "255 hops left" ip!(|ip, udp| (ip.with_ttl(255), udp), (ip.with_hop_limit(255), udp));
    "an identification, or flow label, of ones" ip!(|ip, udp|
        (ip.with_identification(Hex16(0xFFFF)), udp),
        (ip.with_flow_label(Hex32(0xF_FFFF)), udp));
    "leave to be fragmented, or flow label 1" ip!(|ip, udp|
        (ip.with_dont_fragment(false), udp),
        (ip.with_flow_label(Hex32(1)), udp));
    "UDP source port 65535" ip!(|ip, udp| (ip, udp.with_src_port(0xFFFF)), (ip, udp.with_src_port(0xFFFF)));
    "UDP source port 4791" ip!(|ip, udp| (ip, udp.with_src_port(4791)), (ip, udp.with_src_port(4791)));
    "the UDP checksum" |network, bth| (network, bth), true;
    "FECN" |network, bth| (network, bth.with_fecn(true));
    "BECN" |network, bth| (network, bth.with_becn(true));
    "ones in the reserved bits before DestQP" |network, bth| (network, bth.with_reserved_34(Reserved(0x3F)));
    "ones in the reserved bits before the PSN" |network, bth| (network, bth.with_reserved_65(Reserved(0x7F)));
};

pub(super) static TEST: Test = Test {
    id: "c09-network-headers",
    aliases: &[],
    revision: 2,
    about: "ECN, DSCP, hop limit, source port, UDP checksum, FECN, BECN and reserved bits of requests and responses \
        have no effect.",
    reading: "A WRITE with each is executed and acknowledged, and an ACK with each completes a SEND.",
    statements: &[
        HEADERS,
        ACKNOWLEDGEMENT,
        COMPLETION,
        "9.5 transaction ordering",
        NOTIFICATION,
        rc::GENERATION,
        rc::ICRC,
    ],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn frame(channel: &Channel, case: &Case, mut transport: Transport) -> Vec<u8> {
    let (network, bth) = (case.differs)(Network::roce_v2(&channel.own, &channel.dut), transport.bth);
    transport.bth = bth;
    let mut frame = packet(&network, &transport);
    if case.summed {
        // The call cannot fail: the tester's own packet always has a UDP header.
        let _ = mend_udp_checksum(Medium::Ethernet, &mut frame);
    }
    frame
}

fn procedure(t: &mut Tester<'_>) -> Step {
    let mut dut = Requester::open(t, &ChannelOptions::default())?;
    let channel = dut.channel;
    for (psn, case) in (0u32..).map(|n| channel.own_psn.plus(n)).zip(CASES) {
        let place = PLACE + psn.since(channel.own_psn) * 2 * LENGTH;
        let payload = ask::random_bytes(t, &format!("payload {place}"), LENGTH);
        for transport in Message::write(&channel, psn, place, &payload).packets {
            asks(t, &channel, case, transport)?;
        }
        answers(t, &mut dut, case)?;
    }
    t.wait_for(AFTER, t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0))?;
    ask::read_memory(t, &channel, RESULT, PLACE + CASES.len() as u32 * 2 * LENGTH)?;
    ask::query(t, &channel, STATE)?;
    dut.close(t)
}

/// Sends a request until the DUT responds, three times at most.
fn asks(t: &mut Tester<'_>, channel: &Channel, case: &Case, request: Transport) -> Step {
    let frame = frame(channel, case, request);
    for _ in 0..TRIES {
        t.skip_packets();
        t.send_frame(case.request, &frame)?;
        if ask::listen(t, channel)? {
            break;
        }
    }
    Ok(())
}

/// Has the DUT post a SEND, and answers it with a changed ACK.
fn answers(t: &mut Tester<'_>, dut: &mut Requester, case: &Case) -> Step {
    let sent = dut.post(t, Ask::send(LENGTH))?;
    if dut.see_all(t, &sent)? {
        let ack = frame(&dut.channel, case, ack(&dut.channel, sent.last, sent.msn));
        dut.answer(t, (case.answer, case.again), &[ack], 1)?;
    }
    Ok(())
}

fn ack(channel: &Channel, psn: Psn, msn: u32) -> Transport {
    Transport {
        aeth: Some(Aeth::default().with_syndrome(Syndrome::ACK).with_msn(msn)),
        ..channel.transport(Opcode::RC_ACKNOWLEDGE, psn)
    }
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    f.exercises(&[Rule::RequestAnswered, Rule::MemoryContent, Rule::AnsweredCompletes]);
    for label in [RESULT, STATE] {
        t.not_judged(label);
    }
    let of_dut = t.timeline.frames.iter().filter(|frame| frame.received);
    let is_notice = |packet: &Packet<'_>| packet.opcode() == Opcode::CNP;
    let parsed = of_dut.filter_map(|frame| Some((frame, Packet::parse(Medium::Ethernet, &frame.bytes).ok()?)));
    let notices: Vec<_> = parsed.filter(|(_, packet)| is_notice(packet)).collect();
    let own: Vec<Qpn> = rc::dialogues(t)?.iter().map(|dialogue| dialogue.own_qpn).collect();
    // A CNP to an unknown queue pair belongs to no dialogue.
    if let Some((frame, packet)) = notices
        .iter()
        .find(|(_, packet)| !own.contains(&packet.bth().dest_qp()))
    {
        let expected: Vec<String> = own.iter().map(ToString::to_string).collect();
        let words = (format!("DestQP {}", expected.join(" or ")), packet.to_string());
        f.prove(NOTIFICATION, &[(*frame).into()], "DestQP of a CNP", words, Passed::Fail);
    }
    if notices.is_empty() {
        f.goes_without(&[NOTIFICATION], "the device sent no CNP, and CNPs are optional");
    }
    for case in CASES {
        rc::came(t, &[case.request, case.answer])?;
    }
    t.waited(AFTER).map(drop)
}
