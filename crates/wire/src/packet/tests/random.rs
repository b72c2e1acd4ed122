//! Packets with random headers for each opcode.

use core::net::IpAddr;

use proptest::prelude::*;

use crate::ether::{Ethernet, Ipv4, Ipv6, MacAddress, Udp, Vlan};
use crate::layout::Layout;
use crate::packet::{Bth, Form, Grh, Link, Lrh, Network, Opcode, Station, Transport};

pub(super) fn opcodes() -> Vec<Opcode> {
    (0..=255).map(Opcode).filter(|opcode| opcode.name().is_some()).collect()
}

fn of<L: Layout>(bytes: [u8; 40]) -> L {
    L::from_bytes(&bytes)
}

/// Returns the headers before the BTH of a form, from random bytes, with a VLAN tag if `tagged`.
pub(super) fn network(form: Form, outer: [u8; 40], inner: [u8; 40], tagged: bool) -> Network {
    let link = Link {
        ethernet: of::<Ethernet>(outer),
        vlan: tagged.then(|| Vlan::from_bytes(&outer[20..])),
    };
    match form {
        Form::InfiniBandLocal => Network::InfiniBand {
            lrh: of::<Lrh>(outer),
            grh: None,
        },
        Form::InfiniBandGlobal => Network::InfiniBand {
            lrh: of::<Lrh>(outer),
            grh: Some(of::<Grh>(inner)),
        },
        Form::RoceV1 => Network::RoceV1 {
            link,
            grh: of::<Grh>(inner),
        },
        Form::RoceV2Ipv4 => Network::RoceV2Ipv4 {
            link,
            ip: of::<Ipv4>(inner),
            udp: Udp::from_bytes(&outer[30..]),
        },
        Form::RoceV2Ipv6 => Network::RoceV2Ipv6 {
            link,
            ip: of::<Ipv6>(inner),
            udp: Udp::from_bytes(&outer[30..]),
        },
    }
}

/// Returns the headers of an opcode from random bytes, with the payload if the opcode allows a payload.
pub(super) fn transport(opcode: Opcode, bytes: [u8; 40], payload: Vec<u8>) -> Transport {
    let there = opcode.headers();
    Transport {
        bth: of::<Bth>(bytes).with_opcode(opcode),
        rdeth: there.rdeth().then(|| of(bytes)),
        deth: there.deth().then(|| of(bytes)),
        xrceth: there.xrceth().then(|| of(bytes)),
        feth: there.feth().then(|| of(bytes)),
        reth: there.reth().then(|| of(bytes)),
        atomic: there.atomic().then(|| of(bytes)),
        aeth: there.aeth().then(|| of(bytes)),
        atomic_ack: there.atomic_ack().then(|| of(bytes)),
        imm: there.imm().then(|| of(bytes)),
        ieth: there.ieth().then(|| of(bytes)),
        payload: if there.payload_allowed() { payload } else { Vec::new() },
    }
}

/// Generates packets of any form, with any opcode and any field.
pub(super) fn packets() -> impl Strategy<Value = (Network, Transport)> {
    (
        prop::sample::select(&Form::ALL[..]),
        prop::sample::select(opcodes()),
        any::<([u8; 40], [u8; 40], [u8; 40], bool)>(),
        proptest::collection::vec(any::<u8>(), 0..200),
    )
        .prop_map(|(form, opcode, (outer, inner, headers, tagged), payload)| {
            (network(form, outer, inner, tagged), transport(opcode, headers, payload))
        })
}

pub(super) fn stations(from: &str, to: &str) -> (Station, Station) {
    let station = |ip: &str, last| Station {
        mac: MacAddress([2, 0, 0, 0, 0, last]),
        ip: ip.parse::<IpAddr>().unwrap(),
        udp_port: 49152 + u16::from(last),
    };
    (station(from, 2), station(to, 1))
}
