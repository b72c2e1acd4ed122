//! Packets inside tunnels, and packets without an Ethernet header.

use std::net::IpAddr;

use proptest::prelude::*;
use verbatim_wire::packet::packet;
use verbatim_wire::{MacAddress, Medium, Network, Opcode, Packet, Station, Transport};

use super::files::LITTLE;
use super::{Seen, packets, read};
use crate::read::{Content, Tunnel, Unread};

const ETHERNET: usize = 14;

/// Builds valid RoCE frames of each version with several payload sizes.
fn frames() -> Vec<Vec<u8>> {
    let v4 = |last| IpAddr::from([10, 0, 0, last]);
    let v6 = |last: u8| IpAddr::from([0xFD00, 0, 0, 0, 0, 0, 0, u16::from(last)]);
    let station = |ip, last: u8| Station {
        mac: MacAddress([2, 0, 0, 0, 0, last]),
        ip,
        udp_port: 0xC001,
    };
    let networks = [
        Network::roce_v2(&station(v4(1), 1), &station(v4(2), 2)),
        Network::roce_v2(&station(v6(1), 1), &station(v6(2), 2)),
        Network::roce_v1(&station(v6(1), 1), &station(v6(2), 2)),
    ];
    let sized = |network: &Network, payload: usize| {
        let mut transport = Transport {
            payload: vec![0xA5; payload],
            ..Transport::default()
        };
        transport.bth = transport.bth.with_opcode(Opcode::RC_SEND_ONLY);
        packet(network, &transport)
    };
    let of = |network: &Network| [0, 64, 1024].map(|payload| sized(network, payload));
    networks.iter().flat_map(of).collect()
}

fn ethertype(frame: &[u8]) -> u16 {
    u16::from_be_bytes([frame[12], frame[13]])
}

/// Reads the only packet of a capture with this link type.
fn one(link_type: u32, bytes: &[u8]) -> Seen {
    let length = u32::try_from(bytes.len()).unwrap();
    let file = [
        LITTLE.pcap(0xA1B2_C3D4, link_type),
        LITTLE.packet((0, 0), bytes, length),
    ];
    packets(&file.concat()).remove(0)
}

fn ethernet(ethertype: u16, rest: &[u8]) -> Vec<u8> {
    [
        &[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8][..],
        &ethertype.to_be_bytes(),
        rest,
    ]
    .concat()
}

fn ipv4(protocol: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(20 + rest.len()).unwrap().to_be_bytes();
    let head = [
        0x45, 0, length[0], length[1], 0, 1, 0x40, 0, 64, protocol, 0, 0, 192, 168, 0, 1, 192, 168, 0, 2,
    ];
    ethernet(0x0800, &[&head, rest].concat())
}

fn udp(port: u16, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(8 + rest.len()).unwrap().to_be_bytes();
    let port = port.to_be_bytes();
    ipv4(
        17,
        &[&[0xC3, 0x50, port[0], port[1], length[0], length[1], 0, 0][..], rest].concat(),
    )
}

/// The headers before a tunnel's header.
enum Outer {
    Udp(u16),
    Gre,
    Mpls,
}

impl Outer {
    fn around(&self, rest: &[u8]) -> Vec<u8> {
        match self {
            Self::Udp(port) => udp(*port, rest),
            Self::Gre => ipv4(47, rest),
            Self::Mpls => ethernet(0x8847, rest),
        }
    }
}

fn is_sound(seen: &Seen) -> bool {
    let parsed = Packet::parse(Medium::Ethernet, &seen.bytes);
    seen.content == Content::Ethernet && parsed.is_ok_and(|packet| packet.icrc_is_right())
}

#[test]
fn cooked_and_raw_ip_captures_are_read() {
    for frame in frames() {
        let [high, low] = ethertype(&frame).to_be_bytes();
        let first = [0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, high, low];
        let second = [high, low, 0, 0, 0, 0, 0, 2, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0];
        let network = &frame[ETHERNET..];
        let mut seen = vec![
            one(113, &[&first[..], network].concat()),
            one(276, &[&second[..], network].concat()),
        ];
        // The SLL2 header has the EtherType of the VLAN tag, and the tag follows the header.
        let tagged = [&[0x81, 0][..], &second[2..], &[0, 5, high, low], network].concat();
        seen.push(one(276, &tagged));
        if ethertype(&frame) != 0x8915 {
            seen.extend([101, 12].map(|link_type| one(link_type, network)));
        }
        for seen in seen {
            assert!(seen.is_bare && is_sound(&seen), "{seen:?}");
            assert_eq!(&seen.bytes[ETHERNET..], network);
        }
    }
}

#[test]
fn frames_are_taken_out_of_tunnels() {
    let geneve = |options: u8| {
        [
            &[options, 0, 0x65, 0x58, 0, 0, 7, 0][..],
            &vec![0; 4 * usize::from(options)],
        ]
        .concat()
    };
    let vxlan = vec![8, 0, 0, 0, 0, 0, 42, 0];
    let sequence = [0, 0, 0, 1];
    let tunnels = [
        (Tunnel::Vxlan, Outer::Udp(4789), vxlan.clone()),
        (Tunnel::Vxlan, Outer::Udp(8472), vxlan),
        (Tunnel::Vxlan, Outer::Udp(4790), vec![0x0C, 0, 0, 3, 0, 0, 42, 0]),
        (Tunnel::Geneve, Outer::Udp(6081), geneve(0)),
        (Tunnel::Geneve, Outer::Udp(6081), geneve(3)),
        (Tunnel::Gre, Outer::Gre, vec![0, 0, 0x65, 0x58]),
        (Tunnel::Gre, Outer::Gre, vec![0x20, 0, 0x65, 0x58, 0, 0, 1, 0]),
        (Tunnel::Erspan, Outer::Gre, vec![0, 0, 0x88, 0xBE]),
        (
            Tunnel::Erspan,
            Outer::Gre,
            [&[0x10, 0, 0x88, 0xBE], &sequence[..], &[0x10, 0, 0, 1, 0, 0, 0, 0]].concat(),
        ),
        (
            Tunnel::Erspan,
            Outer::Gre,
            [
                &[0x10, 0, 0x22, 0xEB],
                &sequence[..],
                &[0x20, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0],
            ]
            .concat(),
        ),
        (Tunnel::Mpls, Outer::Mpls, vec![0, 1, 0, 64, 0, 2, 1, 64, 0, 0, 0, 0]),
        (Tunnel::Mpls, Outer::Mpls, vec![0, 2, 1, 64]),
    ];
    for frame in frames() {
        for (tunnel, outer, head) in &tunnels {
            let wrapped = outer.around(&[head, &frame[..]].concat());
            let seen = one(1, &wrapped);
            assert_eq!((seen.tunnel, &seen.bytes), (Some(*tunnel), &frame), "{tunnel}");
            let twice = one(1, &Outer::Udp(4789).around(&[&tunnels[0].2, &wrapped[..]].concat()));
            assert_eq!(
                (twice.tunnel, &twice.bytes),
                (Some(*tunnel), &frame),
                "{tunnel} in VXLAN"
            );
        }
    }
}

#[test]
fn ip_packets_are_taken_out_of_tunnels() {
    for frame in frames().iter().filter(|frame| ethertype(frame) != 0x8915) {
        let network = &frame[ETHERNET..];
        let is_6 = ethertype(frame) == 0x86DD;
        let gre = [&[0, 0][..], &ethertype(frame).to_be_bytes(), network].concat();
        for (tunnel, bytes) in [
            (Tunnel::Gre, ipv4(47, &gre)),
            (Tunnel::Mpls, ethernet(0x8847, &[&[0, 2, 1, 64], network].concat())),
            (Tunnel::Ip, ipv4(if is_6 { 41 } else { 4 }, network)),
        ] {
            let seen = one(1, &bytes);
            assert!(seen.is_bare && is_sound(&seen), "{tunnel}: {seen:?}");
            assert_eq!((seen.tunnel, &seen.bytes[ETHERNET..]), (Some(tunnel), network));
        }
    }
}

#[test]
fn more_than_two_vlan_tags_are_removed() {
    for frame in frames() {
        let mut tagged = frame.clone();
        tagged.splice(12..12, [0x91, 0, 0, 5, 0x88, 0xA8, 0, 5, 0x81, 0, 0, 5]);
        assert!(is_sound(&one(1, &tagged)));
        let mut two = frame;
        two.splice(12..12, [0x88, 0xA8, 0, 5, 0x81, 0, 0, 5]);
        let seen = one(1, &two);
        assert_eq!((&seen.bytes, seen.is_bare), (&two, false));
    }
}

#[test]
fn ipv6_extensions_are_removed_if_icrc_fits() {
    for mut frame in frames().into_iter().filter(|frame| ethertype(frame) == 0x86DD) {
        let sound = frame.clone();
        let options = [
            60, 0, 1, 4, 0, 0, 0, 0, 17, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ];
        let length = u16::from_be_bytes([frame[18], frame[19]]) + 24;
        frame[18..20].copy_from_slice(&length.to_be_bytes());
        frame[20] = 0;
        frame.splice(54..54, options);
        assert_eq!(one(1, &frame).bytes, sound);
        *frame.last_mut().unwrap() ^= 1;
        assert_eq!(one(1, &frame).content, Content::Unread(Unread::Extensions));
    }
}

#[test]
fn tunnels_of_other_payloads_are_named() {
    for (bytes, words) in [
        (
            ipv4(47, &[0, 0, 0x88, 0x0B, 0, 0, 0, 0]),
            "GRE with a payload other than Ethernet or IP",
        ),
        (
            ethernet(0x8847, &[0, 2, 1, 64, 0x99, 9, 9, 9]),
            "MPLS with a payload other than Ethernet or IP",
        ),
        (udp(4789, &[0; 8]), "VXLAN with a payload other than Ethernet or IP"),
    ] {
        let Content::Unread(what) = one(1, &bytes).content else {
            panic!("{words}");
        };
        assert_eq!(what.to_string(), words);
    }
}

proptest! {
    #[test]
    fn any_headers_are_read_without_panic(
        link_type in prop_oneof![Just(1_u32), Just(113), Just(276), Just(101), Just(229), Just(197)],
        head in prop_oneof![
            Just(Vec::new()), Just(ethernet(0x86DD, &[0x60, 0, 0, 0, 0, 0, 0, 0])), Just(ethernet(0x8847, &[])),
            Just(ipv4(47, &[])), Just(udp(4789, &[8, 0, 0, 0, 0, 0, 0, 0])), Just(udp(6081, &[])), Just(vec![0x60; 40])
        ],
        tail in proptest::collection::vec(any::<u8>(), 0..120),
    ) {
        let bytes = [head, tail].concat();
        let length = u32::try_from(bytes.len()).unwrap();
        let file = [LITTLE.pcap(0xA1B2_C3D4, link_type), LITTLE.packet((0, 0), &bytes, length)].concat();
        let (seen, error) = read(&file);
        prop_assert!(seen.len() == 1 && error.is_none());
        prop_assert!(seen[0].bytes.len() <= bytes.len() + ETHERNET);
    }
}
