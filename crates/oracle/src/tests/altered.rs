//! Flips every bit of every packet in a valid conversation, one at a time, and recomputes the ICRC. Either a rule finds
//! the change, or the list below states why no check can.

use std::collections::BTreeSet;

use verbatim_wire::ether::Udp;
use verbatim_wire::packet::mend_icrc;
use verbatim_wire::{Bth, Layout, Medium, Opcode, Packet, edit};

use super::super::Loss;
use super::broken;
use super::qp_trace::QpTrace;

/// Fields whose errors a capture alone does not show: field, packets, reason.
const UNOBSERVABLE: &[(&str, &str, &str)] = &[
    (
        "SE",
        "",
        "whether a SEND or immediate data raises an event is the application's choice",
    ),
    ("M", "", "a queue pair may migrate to another path at any time"),
    ("FECN", "", "set by the network"),
    ("BECN", "", "set by the network"),
    (
        "A",
        "",
        "a requester may ask for an acknowledgement of any packet, or leave it to a later one",
    ),
    ("ImmDt", "", "data of the application"),
    ("payload", "", "data of the application, when it comes once"),
    ("VA", "", "the application's choice, when the request comes once"),
    ("R_Key", "", "the application's choice, when the request comes once"),
    ("SwapDt", "", "the application's choice, when the request comes once"),
    ("CmpDt", "", "the application's choice, when the request comes once"),
    ("OrigRemDt", "", "what the memory held, when the response comes once"),
    (
        "Syndrome",
        "",
        "credits are the responder's choice, as is the time of an RNR NAK",
    ),
    ("PadCnt", "SEND", "a SEND may be shorter"),
    (
        "OpCode",
        "SEND",
        "another operation of the same form; before the first packet any may have been",
    ),
    (
        "OpCode",
        "Acknowledge",
        "a packet of another service is none of the connection: as if it was lost, where another one says as much",
    ),
    ("DestQP", "", "a packet to another queue pair is of another connection"),
    (
        "PSN",
        "RC Acknowledge",
        "a response before any that fits may be another connection's",
    ),
    (
        "MSN",
        "RC RDMA READ Response First",
        "a READ counts when it is accepted, or when it is answered",
    ),
    (
        "MSN",
        "RC Acknowledge",
        "of one response alone nobody knows what the responder had counted before",
    ),
];

/// Returns the name of the field that contains a bit of a packet.
fn field(packet: &Packet<'_>, bit: usize) -> &'static str {
    fn of<L: Layout>(bit: usize) -> &'static str {
        let has = |field: &&verbatim_wire::Field| (field.offset..field.offset + field.width).contains(&bit);
        L::FIELDS.iter().find(has).map_or("payload", |field| field.name)
    }
    let offsets = packet.offsets();
    let (byte, within) = (bit / 8, |at: usize| bit - 8 * at);
    type Named = (Option<usize>, usize, fn(usize) -> &'static str);
    let headers: [Named; 6] = [
        (Some(offsets.bth), Bth::SIZE, of::<Bth>),
        (offsets.reth, 16, of::<verbatim_wire::Reth>),
        (offsets.atomic, 28, of::<verbatim_wire::AtomicEth>),
        (offsets.aeth, 4, of::<verbatim_wire::Aeth>),
        (offsets.atomic_ack, 8, of::<verbatim_wire::AtomicAckEth>),
        (offsets.imm, 4, of::<verbatim_wire::ImmDt>),
    ];
    headers
        .into_iter()
        .filter_map(|(at, size, name)| {
            at.filter(|at| (*at..*at + size).contains(&byte))
                .map(|at| name(within(at)))
        })
        .next()
        .unwrap_or("payload")
}

/// Returns whether no check can find an error in this bit of a packet.
pub(super) fn is_listed(packet: &Packet<'_>, bit: usize) -> bool {
    let (name, whole) = (field(packet, bit), packet.opcode().to_string());
    UNOBSERVABLE
        .iter()
        .any(|(listed, of, _)| *listed == name && whole.contains(of))
}

#[test]
fn bit_flip_is_found_or_listed() {
    let qp = QpTrace::of_everything();
    let mut unfound = BTreeSet::new();
    let mut found = BTreeSet::new();
    for number in 0..qp.frames.len() {
        let whole = Packet::parse(Medium::Ethernet, &qp.frames[number].1).unwrap();
        let offsets = whole.offsets();
        // Two bytes stand for the whole payload.
        let end = offsets.icrc.unwrap().min(offsets.payload + 2);
        for bit in 8 * offsets.bth..8 * end {
            let name = field(&whole, bit);
            let mut altered = qp.clone();
            let bytes = &mut altered.frames[number].1;
            bytes[bit / 8] ^= 0x80 >> (bit % 8);
            mend_icrc(Medium::Ethernet, bytes).unwrap();
            if broken(Loss::Possible, &altered).is_empty() {
                unfound.insert((name, whole.opcode().to_string()));
            } else {
                found.insert(name);
            }
        }
    }
    let unlisted: Vec<_> = unfound
        .iter()
        .filter(|(name, whole)| {
            UNOBSERVABLE
                .iter()
                .all(|(listed, of, _)| listed != name || !whole.contains(of))
        })
        .collect();
    assert!(unlisted.is_empty(), "neither found nor listed: {unlisted:#?}");
    for (name, ..) in UNOBSERVABLE {
        assert!(
            unfound.iter().any(|(unfound, _)| unfound == name),
            "{name} is listed and always found"
        );
    }
    for name in [
        "OpCode",
        "PSN",
        "MSN",
        "TVer",
        "P_Key",
        "PadCnt",
        "DMALen",
        "R_Key",
        "Syndrome",
        "OrigRemDt",
    ] {
        assert!(found.contains(name), "{name}");
    }
}

#[test]
fn missing_packet_is_no_violation() {
    let qp = QpTrace::of_everything();
    for missing in 0..qp.frames.len() {
        let mut rest = qp.clone();
        rest.frames.remove(missing);
        for name in broken(Loss::Possible, &rest) {
            assert!(name.ends_with('?'), "without packet {}: {name}", missing + 1);
        }
    }
}

#[test]
fn missing_packet_is_found_without_loss() {
    let qp = QpTrace::of_everything();
    let harmless: Vec<usize> = (0..qp.frames.len())
        .filter(|missing| {
            let mut rest = qp.clone();
            rest.frames.remove(*missing);
            broken(Loss::Excluded, &rest).is_empty()
        })
        .map(|missing| missing + 1)
        .collect();
    // These packets may be missing without a violation: the first and the last packets, an ACK that a later response
    // replaces, one of two requests for the same atomic, and an RNR NAK (a timeout may also cause the retry).
    assert_eq!(harmless, [1, 4, 8, 22, 23, 25, 27, 29, 30, 31]);
}

#[test]
fn swapped_packets_are_found_without_loss() {
    let qp = QpTrace::of_everything();
    let mut unfound = Vec::new();
    for first in 1..qp.frames.len() {
        let mut moved = qp.clone();
        let (before, after) = (moved.frames[first - 1].clone(), moved.frames[first].clone());
        if before.1 == after.1 {
            continue;
        }
        moved.frames[first - 1].1 = after.1;
        moved.frames[first].1 = before.1;
        for name in broken(Loss::Possible, &moved) {
            assert!(name.ends_with('?'), "packets {first} and {}: {name}", first + 1);
        }
        if broken(Loss::Excluded, &moved).is_empty() {
            unfound.push(first);
        }
    }
    // A response may come after a later request. Swaps 3 and 30 put the first response of their direction before its
    // request. That response may answer a request from before the capture.
    assert_eq!(unfound, [3, 4, 8, 10, 14, 19, 23, 25, 29, 30]);
}

#[test]
fn names_udp_length_and_undefined_opcode() {
    let qp = QpTrace::of_everything();
    let bth = Packet::parse(Medium::Ethernet, &qp.frames[1].1).unwrap().offsets().bth;
    let length = |frame: &mut [u8]| edit::<Udp>(frame, bth - Udp::SIZE, |udp| udp.with_length(udp.length() - 4));
    let opcode = |frame: &mut [u8]| edit::<Bth>(frame, bth, |bth| bth.with_opcode(Opcode(0x1F)));
    let is_told = |rule: &str, alter: &dyn Fn(&mut [u8])| {
        let mut altered = qp.clone();
        let frame = &mut altered.frames[1].1;
        alter(frame);
        mend_icrc(Medium::Ethernet, frame).unwrap();
        let found = broken(Loss::Possible, &altered);
        assert!(found.contains(&format!("#2 {rule}")), "{rule}: {found:?}");
    };
    is_told("udp-length", &length);
    is_told("opcode", &opcode);
}
