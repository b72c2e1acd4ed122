//! What every packet of a reliable connection must be, whoever sends it and whenever.
//!
//! Source: architecture 7.8.1 (ICRC), 9.2 (BTH), 9.3 (extended headers), 9.6.1 (header validation), 9.7.5.1 (AETH); annex
//! A17 (RoCEv2); Linux rxe.

use verbatim_wire::packet::SyndromeKind;
use verbatim_wire::{NakCode, Value};

use crate::heard::{Asks, Heard, Part};
use crate::rule::{Excuse, Held, Rule};

pub(crate) type PacketRule = fn(&Heard<'_>) -> Held;

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

fn icrc(heard: &Heard<'_>) -> Held {
    if heard.is_cut {
        return Held::NotAsked;
    }
    // Where all else let the packet in, it was computed already.
    Held::must(heard.is_taken || heard.packet.icrc_is_right(), || {
        let words =
            |icrc: Option<[u8; 4]>| icrc.map_or("none".into(), |icrc| format!("{:08x}", u32::from_be_bytes(icrc)));
        let mistake = mistake(heard).map_or(String::new(), |mistake| format!(", {mistake}"));
        (
            words(heard.packet.computed_icrc()),
            words(heard.packet.icrc()) + &mistake,
        )
    })
}

/// How the sender made a wrong ICRC of the right one, where that shows: no damage on the way does this.
pub(crate) fn mistake(heard: &Heard<'_>) -> Option<&'static str> {
    let (seen, right) = (heard.packet.icrc()?, heard.packet.computed_icrc()?);
    let reversed: [u8; 4] = core::array::from_fn(|at| right[3 - at]);
    match seen {
        _ if seen == right => None,
        _ if seen == reversed => Some("its bytes in reverse order"),
        _ if seen == right.map(|byte| !byte) => Some("its bits inverted"),
        _ if seen == reversed.map(|byte| !byte) => Some("its bits inverted and its bytes in reverse order"),
        _ => None,
    }
}

fn vcrc(heard: &Heard<'_>) -> Held {
    match heard.packet.vcrc_is_right() {
        None => Held::NotAsked,
        Some(is_right) => Held::must(is_right, || ("the VCRC of the packet", "another")).unless(Excuse::Damaged),
    }
}

fn ip_checksum(heard: &Heard<'_>) -> Held {
    match heard.packet.ip_checksum_is_right() {
        None => Held::NotAsked,
        Some(is_right) => Held::must(is_right, || ("the checksum of the IPv4 header", "another")),
    }
}

fn udp_length(heard: &Heard<'_>) -> Held {
    let Some(udp) = heard.packet.udp() else {
        return Held::NotAsked;
    };
    let offsets = heard.packet.offsets();
    let length = offsets.end - offsets.udp.unwrap_or(offsets.bth);
    Held::must(usize::from(udp.length()) == length, || (length, udp.length()))
}

fn udp_checksum(heard: &Heard<'_>) -> Held {
    let Some(udp) = heard.packet.udp() else {
        return Held::NotAsked;
    };
    if heard.is_cut {
        return Held::NotAsked;
    }
    let is_right = heard.packet.udp_checksum_is_right().unwrap_or(true);
    Held::must(is_right, || ("0 or the checksum of the datagram", udp.checksum()))
}

fn opcode(heard: &Heard<'_>) -> Held {
    Held::must(heard.opcode.is_legal(), || {
        ("an opcode of RC with a meaning", heard.opcode)
    })
}

fn tver(heard: &Heard<'_>) -> Held {
    let tver = heard.bth.tver();
    Held::must(tver == 0, || ("TVer 0", format!("TVer {tver}")))
}

fn reserved(heard: &Heard<'_>) -> Held {
    let (first, second) = (heard.bth.reserved_34().to_bits(), heard.bth.reserved_65().to_bits());
    Held::must(first == 0 && second == 0, || {
        ("0 and 0", format!("{first:#x} beside BECN, {second:#x} beside AckReq"))
    })
}

fn format(heard: &Heard<'_>) -> Held {
    if let Some(missing) = heard.packet.missing_header() {
        return Held::must(false, || (format!("a whole {missing}"), "too few bytes for it"));
    }
    let padded = heard.packet.padded_payload().len();
    let may_have = heard.opcode.headers().payload_allowed();
    Held::must(may_have || padded == 0, || ("no payload", format!("{padded} bytes")))
}

fn padding(heard: &Heard<'_>) -> Held {
    let (padding, padded) = (heard.bth.pad_count(), heard.packet.padded_payload().len());
    let is_whole_mtu =
        matches!(Asks::of(heard.opcode).part(), Part::First | Part::Middle) || matches!(heard.opcode.0, 0x0D | 0x0E);
    let most = if is_whole_mtu { 0 } else { padded.min(3) };
    Held::must(usize::from(padding) <= most && padded % 4 == 0, || {
        let expected = format!("at most {most}, and a multiple of 4 with it");
        (expected, format!("PadCnt {padding}, {padded} bytes with it"))
    })
}

/// That it stands nowhere else is our reading; a receiver does not look at it elsewhere.
fn solicited_event(heard: &Heard<'_>) -> Held {
    let may_be = matches!(heard.opcode.0, 0x02..=0x05 | 0x09 | 0x0B | 0x16 | 0x17);
    if may_be {
        return Held::NotAsked;
    }
    Held::must(!heard.bth.solicited_event(), || {
        ("SE 0", format!("SE 1 in {}", heard.opcode))
    })
}

fn ack_request(heard: &Heard<'_>) -> Held {
    if !heard.opcode.is_response() {
        return Held::NotAsked;
    }
    Held::must(!heard.bth.ack_request(), || ("AckReq 0", "AckReq 1"))
}

fn syndrome(heard: &Heard<'_>) -> Held {
    let Some(syndrome) = heard.syndrome() else {
        return Held::NotAsked;
    };
    let carries_data = heard.opcode != verbatim_wire::Opcode::RC_ACKNOWLEDGE;
    let (expected, is_so) = match syndrome.kind() {
        SyndromeKind::Ack(_) => return Held::Holds,
        SyndromeKind::RnrNak(_) | SyndromeKind::Nak(_) if carries_data => ("an ACK", false),
        SyndromeKind::RnrNak(_) => return Held::Holds,
        SyndromeKind::Nak(code) => (
            "a NAK code of RC",
            code.is_legal() && code != NakCode::INVALID_RD_REQUEST,
        ),
        SyndromeKind::Reserved(_) => ("a syndrome with a meaning", false),
    };
    Held::must(is_so, || (expected, syndrome))
}
