//! RoCE packets, and frames that are no RoCE packets.

use std::net::IpAddr;

use verbatim_wire::packet::packet;
use verbatim_wire::values::{Hex8, Hex16};
use verbatim_wire::{
    Bth, EtherType, Ethernet, Grh, Ipv4, Layout, MacAddress, Medium, Mtu, Network, Opcode, PKey, Packet, Qpn, Station,
    Transport, Udp, edit,
};

use super::link::{Action, Certainty, Check, Checks, Counter, Judgement, Kind, Port, Received, check};

fn judge(port: &Port, bytes: &[u8]) -> Judgement {
    let packet = Received {
        medium: Medium::Ethernet,
        bytes,
        delimiter: None,
        is_whole: true,
    };
    check(port, &packet)
}

fn station(ip: IpAddr) -> Station {
    Station {
        mac: MacAddress([2, 0, 0, 0, 0, 1]),
        ip,
        udp_port: 0xC001,
    }
}

fn networks() -> [Network; 3] {
    let v4 = station(IpAddr::from([10, 0, 0, 1]));
    let v6 = station(IpAddr::from([0xFD00, 0, 0, 0, 0, 0, 0, 1]));
    [
        Network::roce_v2(&v4, &v4),
        Network::roce_v2(&v6, &v6),
        Network::roce_v1(&v6, &v6),
    ]
}

fn made(network: &Network, payload: usize) -> Vec<u8> {
    let transport = Transport {
        bth: Bth::default()
            .with_opcode(Opcode::RC_SEND_ONLY)
            .with_dest_qp(Qpn(0x11))
            .with_p_key(PKey(0xFFFF)),
        payload: vec![0x5A; payload],
        ..Transport::default()
    };
    packet(network, &transport)
}

/// Edits a header and computes the ICRC again.
fn edited<L: Layout>(frame: &[u8], at: usize, change: fn(L) -> L) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let offsets = Packet::parse(Medium::Ethernet, &frame).unwrap().offsets();
    edit(&mut frame, at, change);
    offsets.mend_icrc(&mut frame);
    frame
}

#[test]
fn valid_packet_is_accepted_with_padding() {
    let port = Port::channel_adapter();
    for network in networks() {
        for payload in [0, 1, 16, 4096] {
            let frame = made(&network, payload);
            let judgement = judge(&port, &frame);
            assert_eq!(judgement.action, Action::Accept, "{judgement:?}");
            assert_eq!(judgement.absent, Checks::NONE, "Ethernet has no VCRC to lack");
            assert_eq!(judgement.untold, Checks::of(&[Check::PKey]));
            let padded = [&frame[..], &[0; 20]].concat();
            assert_eq!(judge(&port, &padded).action, Action::Accept);
        }
    }
}

#[test]
fn vlan_tags_change_nothing() {
    for network in networks() {
        let frame = made(&network, 16);
        let tag = |ethertype: EtherType| [&ethertype.0.to_be_bytes()[..], &[0, 5]].concat();
        for tags in [vec![EtherType::VLAN], vec![EtherType::SERVICE_VLAN, EtherType::VLAN]] {
            let tags: Vec<u8> = tags.into_iter().flat_map(tag).collect();
            let tagged = [&frame[..12], &tags, &frame[12..]].concat();
            assert_eq!(judge(&Port::channel_adapter(), &tagged).action, Action::Accept);
        }
    }
}

#[test]
fn each_single_failure_is_found() {
    let port = Port {
        mtu_cap: Mtu::B256,
        p_keys: Some(vec![PKey(0x8001), PKey(0xFFFF)]),
        ..Port::channel_adapter()
    };
    let alone = |frame: &[u8], what: Check| {
        let judgement = judge(&port, frame);
        assert_eq!(judgement.failed, Checks::of(&[what]));
        assert_eq!(judgement.first, Some((what, Certainty::Certain)));
        assert_eq!(judgement.action, Action::Discard);
        let counter = (what == Check::PKey).then_some(Counter::PKeyViolations);
        assert_eq!(judgement.counter, counter, "{what}");
    };
    for network in networks() {
        let frame = made(&network, 256);
        let at = Packet::parse(Medium::Ethernet, &frame).unwrap().offsets();
        let mut spoilt = frame.clone();
        spoilt[at.icrc.unwrap()] ^= 0x80;
        alone(&spoilt, Check::Icrc);
        alone(&made(&network, 260), Check::Mtu);
        alone(&frame[..frame.len() - 1], Check::Length);
        alone(
            &edited(&frame, at.bth, |bth: Bth| bth.with_tver(2)),
            Check::TransportVersion,
        );
        alone(
            &edited(&frame, at.bth, |bth: Bth| bth.with_p_key(PKey(0x8005))),
            Check::PKey,
        );
        if let Some(ip) = at.ipv4 {
            alone(
                &edited(&frame, ip, |ip: Ipv4| ip.with_checksum(Hex16(!ip.checksum().0))),
                Check::IpHeader,
            );
        }
        if let Some(udp) = at.udp {
            alone(
                &edited(&frame, udp, |udp: Udp| udp.with_length(udp.length() + 4)),
                Check::Length,
            );
        }
        if let Some(grh) = at.grh {
            alone(&edited(&frame, grh, |grh: Grh| grh.with_nxt_hdr(Hex8(17))), Check::Grh);
            alone(&edited(&frame, grh, |grh: Grh| grh.with_ip_ver(5)), Check::Grh);
        }
    }
}

#[test]
fn order_of_two_failures_is_assumed() {
    let frame = made(&networks()[0], 16);
    let mut frame = edited(&frame, 42, |bth: Bth| bth.with_tver(2));
    let last = frame.len() - 1;
    frame[last] ^= 1;
    let judgement = judge(&Port::channel_adapter(), &frame);
    assert_eq!(judgement.failed, Checks::of(&[Check::Icrc, Check::TransportVersion]));
    assert_eq!(judgement.first, Some((Check::Icrc, Certainty::Assumed)));
}

#[test]
fn frame_without_roce_is_not_judged() {
    let sound = made(&networks()[0], 16);
    let broken: [fn(&mut Vec<u8>); 8] = [
        |frame| edit(frame, 0, |link: Ethernet| link.with_ethertype(EtherType::ARP)),
        |frame| edit(frame, 14, |ip: Ipv4| ip.with_version(5)),
        |frame| edit(frame, 14, |ip: Ipv4| ip.with_ihl(6)),
        |frame| {
            edit(frame, 14, |ip: Ipv4| {
                ip.with_protocol(verbatim_wire::ether::IpProtocol::TCP)
            })
        },
        |frame| edit(frame, 14, |ip: Ipv4| ip.with_more_fragments(true)),
        |frame| edit(frame, 14, |ip: Ipv4| ip.with_fragment_offset(1)),
        |frame| edit(frame, 34, |udp: Udp| udp.with_dst_port(53)),
        |frame| frame.truncate(38),
    ];
    for change in broken {
        let mut frame = sound.clone();
        change(&mut frame);
        let judgement = judge(&Port::channel_adapter(), &frame);
        assert!(matches!(judgement.action, Action::NotJudged(_)), "{judgement:?}");
    }
    for length in 0..42 {
        let judgement = judge(&Port::channel_adapter(), &sound[..length]);
        assert!(
            matches!(judgement.action, Action::NotJudged(_)),
            "{length}: {judgement:?}"
        );
    }
}

#[test]
fn ethernet_switch_on_the_way_is_not_judged() {
    for kind in [Kind::Switch, Kind::Router] {
        let port = Port {
            kind,
            is_destination: false,
            ..Port::channel_adapter()
        };
        let judgement = judge(&port, &made(&networks()[0], 16));
        assert!(matches!(judgement.action, Action::NotJudged(_)));
    }
}
