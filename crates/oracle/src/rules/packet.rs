//! Rules for every packet of a reliable connection, from either end at any time.
//!
//! Source: architecture 7.8.1 (ICRC), 9.2 (BTH), 9.3 (extended headers), 9.6.1 (header validation), 9.7.5.1 (AETH);
//! annex A17 (RoCEv2); Linux rxe.

use verbatim_wire::packet::SyndromeKind;
use verbatim_wire::{NakCode, Value};

use crate::parsed::{Parsed, Part, RequestKind};
use crate::rule::{Excuse, Outcome, Rule};

pub(crate) type PacketRule = fn(&Parsed<'_>) -> Outcome;

pub(crate) static RULES: &[(Rule, PacketRule)] = &[
    (Rule::Icrc, icrc),
    (Rule::Vcrc, vcrc),
    (Rule::IpChecksum, ip_checksum),
    (Rule::UdpLength, udp_length),
    (Rule::UdpChecksum, udp_checksum),
    (Rule::Opcode, opcode),
    (Rule::Tver, tver),
    (Rule::Reserved, reserved),
    (Rule::Format, format),
    (Rule::Padding, padding),
    (Rule::SolicitedEvent, solicited_event),
    (Rule::AckRequestOfResponse, ack_request),
    (Rule::Syndrome, syndrome),
];

fn icrc(parsed: &Parsed<'_>) -> Outcome {
    if parsed.is_cut {
        return Outcome::NotAsked;
    }
    // If the packet is taken, parsing has checked its ICRC.
    Outcome::must(parsed.is_taken || parsed.packet.icrc_is_right(), || {
        let words =
            |icrc: Option<[u8; 4]>| icrc.map_or("none".into(), |icrc| format!("{:08x}", u32::from_be_bytes(icrc)));
        let mistake = mistake(parsed).map_or(String::new(), |mistake| format!(", {mistake}"));
        (
            words(parsed.packet.computed_icrc()),
            words(parsed.packet.icrc()) + &mistake,
        )
    })
}

/// Names the sender's mistake if it sent the right ICRC with reversed bytes or inverted bits. Damage on the way does
/// not produce such values.
pub(crate) fn mistake(parsed: &Parsed<'_>) -> Option<&'static str> {
    let (seen, right) = (parsed.packet.icrc()?, parsed.packet.computed_icrc()?);
    let reversed: [u8; 4] = core::array::from_fn(|at| right[3 - at]);
    match seen {
        _ if seen == right => None,
        _ if seen == reversed => Some("its bytes in reverse order"),
        _ if seen == right.map(|byte| !byte) => Some("its bits inverted"),
        _ if seen == reversed.map(|byte| !byte) => Some("its bits inverted and its bytes in reverse order"),
        _ => None,
    }
}

fn vcrc(parsed: &Parsed<'_>) -> Outcome {
    match parsed.packet.vcrc_is_right() {
        None => Outcome::NotAsked,
        Some(is_right) => {
            Outcome::must(is_right, || ("a VCRC that matches the packet", "a wrong VCRC")).unless(Excuse::Damaged)
        }
    }
}

fn ip_checksum(parsed: &Parsed<'_>) -> Outcome {
    match parsed.packet.ip_checksum_is_right() {
        None => Outcome::NotAsked,
        Some(is_right) => Outcome::must(is_right, || {
            ("a checksum that matches the IPv4 header", "a wrong checksum")
        }),
    }
}

fn udp_length(parsed: &Parsed<'_>) -> Outcome {
    let Some(udp) = parsed.packet.udp() else {
        return Outcome::NotAsked;
    };
    let offsets = parsed.packet.offsets();
    let length = offsets.end - offsets.udp.unwrap_or(offsets.bth);
    Outcome::must(usize::from(udp.length()) == length, || (length, udp.length()))
}

fn udp_checksum(parsed: &Parsed<'_>) -> Outcome {
    let Some(udp) = parsed.packet.udp() else {
        return Outcome::NotAsked;
    };
    if parsed.is_cut {
        return Outcome::NotAsked;
    }
    let is_right = parsed.packet.udp_checksum_is_right().unwrap_or(true);
    Outcome::must(is_right, || ("0 or the checksum of the datagram", udp.checksum()))
}

fn opcode(parsed: &Parsed<'_>) -> Outcome {
    Outcome::must(parsed.opcode.is_legal(), || ("a defined opcode of RC", parsed.opcode))
}

fn tver(parsed: &Parsed<'_>) -> Outcome {
    let tver = parsed.bth.tver();
    Outcome::must(tver == 0, || ("TVer 0", format!("TVer {tver}")))
}

fn reserved(parsed: &Parsed<'_>) -> Outcome {
    let (first, second) = (parsed.bth.reserved_34().to_bits(), parsed.bth.reserved_65().to_bits());
    Outcome::must(first == 0 && second == 0, || {
        (
            "0 in the reserved bits next to BECN and AckReq",
            format!("{first:#x} next to BECN, {second:#x} next to AckReq"),
        )
    })
}

fn format(parsed: &Parsed<'_>) -> Outcome {
    if let Some(missing) = parsed.packet.missing_header() {
        return Outcome::must(false, || (format!("a complete {missing}"), "too few bytes"));
    }
    let padded = parsed.packet.padded_payload().len();
    let may_have = parsed.opcode.headers().payload_allowed();
    Outcome::must(may_have || padded == 0, || ("no payload", format!("{padded} bytes")))
}

fn padding(parsed: &Parsed<'_>) -> Outcome {
    let (padding, padded) = (parsed.bth.pad_count(), parsed.packet.padded_payload().len());
    let is_whole_mtu = matches!(RequestKind::of(parsed.opcode).part(), Part::First | Part::Middle)
        || matches!(parsed.opcode.0, 0x0D | 0x0E);
    let most = if is_whole_mtu { 0 } else { padded.min(3) };
    Outcome::must(usize::from(padding) <= most && padded % 4 == 0, || {
        let expected = format!("PadCnt at most {most}; payload plus padding a multiple of 4 bytes");
        (
            expected,
            format!("PadCnt {padding}; payload plus padding {padded} bytes"),
        )
    })
}

/// Checks that SE is 0 in a packet that completes no receive. This is our reading of the architecture, which gives
/// SE no effect in these packets.
fn solicited_event(parsed: &Parsed<'_>) -> Outcome {
    let may_have_se = matches!(parsed.opcode.0, 0x02..=0x05 | 0x09 | 0x0B | 0x16 | 0x17);
    if may_have_se {
        return Outcome::NotAsked;
    }
    Outcome::must(!parsed.bth.solicited_event(), || {
        ("SE 0", format!("SE 1 in {}", parsed.opcode))
    })
}

fn ack_request(parsed: &Parsed<'_>) -> Outcome {
    if !parsed.opcode.is_response() {
        return Outcome::NotAsked;
    }
    Outcome::must(!parsed.bth.ack_request(), || ("AckReq 0", "AckReq 1"))
}

fn syndrome(parsed: &Parsed<'_>) -> Outcome {
    let Some(syndrome) = parsed.syndrome() else {
        return Outcome::NotAsked;
    };
    let carries_data = parsed.opcode != verbatim_wire::Opcode::RC_ACKNOWLEDGE;
    let (expected, is_right) = match syndrome.kind() {
        SyndromeKind::Ack(_) => return Outcome::Holds,
        SyndromeKind::RnrNak(_) | SyndromeKind::Nak(_) if carries_data => ("an ACK", false),
        SyndromeKind::RnrNak(_) => return Outcome::Holds,
        SyndromeKind::Nak(code) => (
            "a NAK code that is defined for RC",
            code.is_legal() && code != NakCode::INVALID_RD_REQUEST,
        ),
        SyndromeKind::Reserved(_) => ("a defined syndrome", false),
    };
    Outcome::must(is_right, || (expected, syndrome))
}
