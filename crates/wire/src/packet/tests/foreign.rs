//! Tests of the errors for bytes that are not a packet.

use super::random::{network, stations};
use crate::ether::{EtherType, Ethernet, IpProtocol, Ipv4, Ipv6, Udp};
use crate::packet::{Form, Grh, Lnh, Lrh, Medium, Network, NotAPacket, Packet, Transport, edit, packet};

fn refused(medium: Medium, bytes: &[u8]) -> NotAPacket {
    Packet::parse(medium, bytes).unwrap_err()
}

fn over(from: &str, to: &str) -> Vec<u8> {
    let (from, to) = stations(from, to);
    packet(&Network::roce_v2(&from, &to), &Transport::default())
}

#[test]
fn rejects_other_ethertype() {
    let mut bytes = over("10.0.0.2", "10.0.0.1");
    edit(&mut bytes, 0, |frame: Ethernet| frame.with_ethertype(EtherType::ARP));
    let error = refused(Medium::Ethernet, &bytes);
    assert_eq!(error, NotAPacket::NotRoce(EtherType::ARP));
    assert_eq!(
        error.to_string(),
        "expected an Ethernet frame with IPv4, IPv6 or RoCEv1, seen EtherType 0x0806 (ARP)"
    );
}

#[test]
fn rejects_other_ip_packets() {
    let sound = over("10.0.0.2", "10.0.0.1");
    let broken = |change: fn(Ipv4) -> Ipv4| {
        let mut bytes = sound.clone();
        edit(&mut bytes, 14, change);
        refused(Medium::Ethernet, &bytes)
    };
    assert_eq!(
        broken(|ip| ip.with_protocol(IpProtocol::TCP)),
        NotAPacket::OtherProtocol(6)
    );
    assert_eq!(broken(|ip| ip.with_more_fragments(true)), NotAPacket::Fragment);
    assert_eq!(broken(|ip| ip.with_fragment_offset(1)), NotAPacket::Fragment);
    assert_eq!(broken(|ip| ip.with_ihl(6)), NotAPacket::HeaderLength(6));
    assert!(matches!(
        broken(|ip| ip.with_version(6)),
        NotAPacket::Version {
            expected: 4,
            seen: 6,
            ..
        }
    ));
    let mut bytes = sound.clone();
    edit(&mut bytes, 34, |udp: Udp| udp.with_dst_port(53));
    assert_eq!(refused(Medium::Ethernet, &bytes), NotAPacket::OtherUdpPort(53));

    let sound = over("fd00::1", "fd00::2");
    let broken = |change: fn(Ipv6) -> Ipv6| {
        let mut bytes = sound.clone();
        edit(&mut bytes, 14, change);
        refused(Medium::Ethernet, &bytes)
    };
    assert_eq!(
        broken(|ip| ip.with_next_header(IpProtocol::ICMP_V6)),
        NotAPacket::OtherProtocol(58)
    );
    assert_eq!(
        broken(|ip| ip.with_next_header(IpProtocol::IPV6_FRAGMENT)),
        NotAPacket::Fragment
    );
    assert!(matches!(
        broken(|ip| ip.with_version(4)),
        NotAPacket::Version {
            expected: 6,
            seen: 4,
            ..
        }
    ));
}

#[test]
fn rejects_raw_and_other_grh_payloads() {
    let network = network(Form::InfiniBandGlobal, [0; 40], [0; 40], false);
    let sound = packet(&network, &Transport::default());
    for lnh in [Lnh::RAW, Lnh::IPV6] {
        let mut bytes = sound.clone();
        edit(&mut bytes, 0, |lrh: Lrh| lrh.with_lnh(lnh));
        assert_eq!(refused(Medium::InfiniBand, &bytes), NotAPacket::RawPacket(lnh));
    }
    let mut bytes = sound.clone();
    edit(&mut bytes, 8, |grh: Grh| grh.with_ip_ver(4));
    assert!(matches!(
        refused(Medium::InfiniBand, &bytes),
        NotAPacket::Version {
            expected: 6,
            seen: 4,
            ..
        }
    ));
    let mut bytes = sound;
    edit(&mut bytes, 8, |grh: Grh| grh.with_nxt_hdr(crate::values::Hex8(17)));
    assert_eq!(refused(Medium::InfiniBand, &bytes), NotAPacket::OtherProtocol(17));
}

#[test]
fn truncation_error_names_needed_bytes() {
    for form in Form::ALL {
        let network = network(form, [0; 40], [0; 40], true);
        let sound = packet(&network, &Transport::default());
        for length in 0..sound.len() {
            match refused(network.medium(), &sound[..length]) {
                NotAPacket::Truncated { needed, seen, .. } => {
                    assert!(
                        seen == length && needed > seen && needed <= sound.len(),
                        "{form}: {length}"
                    );
                }
                other => panic!("{form}: {length}: {other}"),
            }
        }
    }
}

#[test]
fn rejects_length_before_end_of_bth() {
    let mut bytes = over("10.0.0.2", "10.0.0.1");
    for length in 0..40 {
        edit(&mut bytes, 14, |ip: Ipv4| ip.with_total_length(length));
        let seen = 14 + usize::from(length);
        let expected = NotAPacket::Truncated {
            what: "BTH",
            needed: 54,
            seen,
        };
        assert_eq!(refused(Medium::Ethernet, &bytes), expected);
    }
}
