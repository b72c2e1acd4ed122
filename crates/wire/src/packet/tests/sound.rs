//! Tests of well-formed packets: construction, and parsing of the constructed packets.

use proptest::prelude::*;

use super::random::{packets, stations};
use crate::crc::{icrc, vcrc};
use crate::ether::EtherType;
use crate::layout::Layout;
use crate::packet::{
    Aeth, Bth, Deth, Form, Grh, Lrh, Medium, Network, Opcode, Packet, Psn, QKey, Qpn, RKey, Reth, RnrTimer, Syndrome,
    Transport, mend_udp_checksum, packet,
};
use crate::values::{Hex16, Hex64, Lid, PKey};

/// Returns an RC SEND Only to QP 0x11 with PSN 7 and the AckReq bit.
pub(super) fn send_only(payload: &[u8]) -> Transport {
    Transport {
        bth: Bth::default()
            .with_opcode(Opcode::RC_SEND_ONLY)
            .with_p_key(PKey(0xFFFF))
            .with_dest_qp(Qpn(0x11))
            .with_ack_request(true)
            .with_psn(Psn(7)),
        payload: payload.to_vec(),
        ..Transport::default()
    }
}

#[test]
fn ipv4_send_has_expected_bytes() {
    let (from, to) = stations("10.0.0.2", "10.0.0.1");
    let bytes = packet(&Network::roce_v2(&from, &to), &send_only(&[0xAA, 0xBB, 0xCC]));
    assert_eq!(bytes[..14], [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
    assert_eq!(bytes[14..24], [0x45, 0, 0, 48, 0, 0, 0x40, 0, 64, 17]);
    assert_eq!(bytes[24..26], [0x26, 0xBB], "checksum");
    assert_eq!(bytes[26..34], [10, 0, 0, 2, 10, 0, 0, 1]);
    assert_eq!(bytes[34..42], [0xC0, 2, 0x12, 0xB7, 0, 28, 0, 0]);
    assert_eq!(bytes[42..54], [4, 0x10, 0xFF, 0xFF, 0, 0, 0, 0x11, 0x80, 0, 0, 7]);
    assert_eq!(bytes[54..58], [0xAA, 0xBB, 0xCC, 0]);
    assert_eq!(bytes.len(), 62);

    let seen = Packet::parse(Medium::Ethernet, &bytes).unwrap();
    assert_eq!(seen.payload(), [0xAA, 0xBB, 0xCC]);
    assert_eq!(seen.padded_payload(), [0xAA, 0xBB, 0xCC, 0]);
    assert_eq!(seen.ip_checksum_is_right(), Some(true));
    assert!(seen.icrc_is_right());
}

#[test]
fn packet_prints_in_one_line() {
    let line = |network: &Network, transport: &Transport| {
        let bytes = packet(network, transport);
        Packet::parse(network.medium(), &bytes).unwrap().to_string()
    };
    let (from, to) = stations("10.0.0.2", "10.0.0.1");
    let network = Network::roce_v2(&from, &to);
    assert_eq!(
        line(&network, &send_only(&[0; 1024])),
        "10.0.0.2 > 10.0.0.1 RC SEND Only DestQP 0x000011 PSN 0x000007 A, 1024 bytes"
    );
    let nak = Transport {
        bth: Bth::default().with_opcode(Opcode::RC_ACKNOWLEDGE).with_psn(Psn(7)),
        aeth: Some(Aeth::default().with_syndrome(Syndrome::rnr_nak(RnrTimer(31)))),
        ..Transport::default()
    };
    let (from, to) = stations("fd00::1", "fd00::2");
    assert_eq!(
        line(&Network::roce_v2(&from, &to), &nak),
        "fd00::1 > fd00::2 RC Acknowledge DestQP 0x000000 (SMI) PSN 0x000007 RNR NAK code 31 = 491.52 ms MSN 0"
    );
    let write = Transport {
        bth: send_only(&[]).bth.with_opcode(Opcode::RC_WRITE_ONLY),
        reth: Some(
            Reth::default()
                .with_va(Hex64(0x1000))
                .with_r_key(RKey(9))
                .with_dma_len(2),
        ),
        payload: vec![1, 2],
        ..Transport::default()
    };
    assert_eq!(
        line(&Network::infiniband(Lid(5), Lid(6)), &write),
        "LID 5 (0x0005) > LID 6 (0x0006) RC RDMA WRITE Only DestQP 0x000011 PSN 0x000007 A \
         VA 0x0000000000001000 R_Key 0x00000009 DMALen 2, 2 bytes"
    );
}

#[test]
fn mended_udp_checksum_keeps_icrc() {
    for (one, other) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
        let (from, to) = stations(one, other);
        let made = packet(&Network::roce_v2(&from, &to), &send_only(&[1, 2, 3, 4, 5]));
        let mut mended = made.clone();
        mend_udp_checksum(Medium::Ethernet, &mut mended).unwrap();
        let seen = Packet::parse(Medium::Ethernet, &mended).unwrap();
        assert_eq!(seen.udp_checksum_is_right(), Some(true), "{one}");
        assert!(seen.icrc_is_right(), "{one}");
        let at = seen.offsets().udp.unwrap() + 6;
        // Only the checksum changed, and the checksum detects a later change.
        assert_eq!((&mended[..at], &mended[at + 2..]), (&made[..at], &made[at + 2..]));
        let last = mended.len() - 5;
        mended[last] ^= 1;
        let seen = Packet::parse(Medium::Ethernet, &mended).unwrap();
        assert_eq!(seen.udp_checksum_is_right(), Some(false), "{one}");
    }
}

#[test]
fn sets_64_hops_and_no_udp_checksum() {
    let (from, to) = stations("fd00::1", "fd00::2");
    let Network::RoceV2Ipv6 { link, ip, udp } = Network::roce_v2(&from, &to) else {
        panic!("IPv6 addresses")
    };
    assert_eq!(
        (ip.hop_limit(), udp.src_port(), udp.dst_port()),
        (64, from.udp_port, 4791)
    );
    let udp = udp.with_checksum(Hex16(7)).with_dst_port(8).with_length(9);
    let bytes = packet(&Network::RoceV2Ipv6 { link, ip, udp }, &send_only(&[]));
    assert_eq!(bytes[56..62], [0x12, 0xB7, 0, 24, 0, 0]);

    let (from, to) = stations("10.0.0.1", "10.0.0.2");
    let Network::RoceV1 { grh, .. } = Network::roce_v1(&from, &to) else {
        panic!("RoCEv1")
    };
    assert_eq!((grh.hop_lmt(), grh.ip_ver(), grh.nxt_hdr()), (64, 6, Grh::NEXT_IS_BTH));
    assert_eq!(grh.src().to_string(), "::ffff:10.0.0.1");
    assert_eq!(grh.dst().to_string(), "::ffff:10.0.0.2");
}

#[test]
fn addresses_select_ip_version() {
    let form = |from, to| {
        let (from, to) = stations(from, to);
        Network::roce_v2(&from, &to).form()
    };
    assert_eq!(form("10.0.0.1", "10.0.0.2"), Form::RoceV2Ipv4);
    assert_eq!(form("fd00::1", "fd00::2"), Form::RoceV2Ipv6);
    assert_eq!(form("10.0.0.1", "::ffff:10.0.0.2"), Form::RoceV2Ipv6);
}

#[test]
fn infiniband_packet_has_both_crcs() {
    let network = Network::infiniband(Lid(1), Lid(2));
    let deth = Deth::default().with_q_key(QKey(5));
    let transport = Transport {
        bth: Bth::default().with_opcode(Opcode::UD_SEND_ONLY),
        deth: Some(deth),
        payload: vec![1; 8],
        ..Transport::default()
    };
    let bytes = packet(&network, &transport);
    assert_eq!(bytes.len(), 8 + 12 + 8 + 8 + 4 + 2);
    assert_eq!(Lrh::from_bytes(&bytes).pkt_len(), 10);
    assert_eq!(bytes[36..40], icrc(&bytes[..36]).unwrap());
    assert_eq!(bytes[40..], vcrc(&bytes[..40]));
    let seen = Packet::parse(Medium::InfiniBandNoVcrc, &bytes[..40]).unwrap();
    assert_eq!(seen.vcrc_is_right(), None);
    assert_eq!(seen.deth(), Some(deth));
}

#[test]
fn frame_padding_is_not_in_packet() {
    let (from, to) = stations("10.0.0.2", "10.0.0.1");
    let mut bytes = packet(&Network::roce_v2(&from, &to), &send_only(&[]));
    assert_eq!(bytes.len(), 58);
    bytes.extend([0xEE, 0xEE]);
    let seen = Packet::parse(Medium::Ethernet, &bytes).unwrap();
    assert!(seen.icrc_is_right());
    assert_eq!(seen.payload(), []);
    assert_eq!(seen.bytes(), &bytes[..58]);
    assert_eq!(seen.trailer(), [0xEE, 0xEE]);
}

proptest! {
    #[test]
    fn built_packet_parses_to_its_parts((network, transport) in packets()) {
        let bytes = packet(&network, &transport);
        let seen = Packet::parse(network.medium(), &bytes).unwrap();
        prop_assert_eq!(seen.bytes(), &bytes[..]);
        prop_assert_eq!(seen.form(), network.form());
        prop_assert_eq!(seen.network(), network.fitted(transport.length()));
        let mut expected = transport.clone();
        expected.bth = transport.fitted_bth();
        prop_assert_eq!(seen.transport(), expected);
        prop_assert!(seen.icrc_is_right());
        prop_assert_ne!(seen.vcrc_is_right(), Some(false));
        prop_assert_eq!(seen.vcrc().is_some(), network.medium() == Medium::InfiniBand);
        prop_assert_ne!(seen.ip_checksum_is_right(), Some(false));
        prop_assert_eq!(seen.missing_header(), None);
        prop_assert_eq!(packet(&seen.network(), &seen.transport()), bytes.clone());
        prop_assert!(!seen.to_string().contains("wrong"));
    }

    #[test]
    fn vlan_tag_type_is_preserved((network, transport) in packets(), service: bool) {
        let mut network = network;
        let tag = if service { EtherType::SERVICE_VLAN } else { EtherType::VLAN };
        let (Network::RoceV1 { link, .. } | Network::RoceV2Ipv4 { link, .. } | Network::RoceV2Ipv6 { link, .. }) =
            &mut network else { return Ok(()) };
        link.ethernet = link.ethernet.with_ethertype(tag);
        let tagged = link.vlan.is_some();
        let bytes = packet(&network, &transport);
        let seen = Packet::parse(Medium::Ethernet, &bytes).unwrap();
        prop_assert_eq!(seen.vlan().is_some(), tagged);
        prop_assert_eq!(seen.ethernet().unwrap().ethertype() == tag, tagged);
    }
}
