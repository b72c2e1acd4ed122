use core::net::{Ipv4Addr, Ipv6Addr};

use super::*;
use crate::layout::Layout;
use crate::values::{Hex16, Hex32};
use proptest::prelude::*;

const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);

#[test]
fn mac_address_parses_and_prints() {
    assert_eq!("02:00:00:00:00:01".parse(), Ok(MAC));
    assert_eq!("02-00-00-00-00-01".parse(), Ok(MAC));
    assert_eq!(MAC.to_string(), "02:00:00:00:00:01");
    assert!(MacAddress::BROADCAST.is_multicast() && !MAC.is_multicast());
    for wrong in [
        "",
        "02:00:00:00:00",
        "02:00:00:00:00:01:02",
        "2:0:0:0:0:1",
        "02:00:00:00:00:0g",
        "+2:00:00:00:00:01",
    ] {
        let error = wrong.parse::<MacAddress>().unwrap_err().to_string();
        assert!(error.contains(&format!("not {wrong:?}")), "{error}");
    }
}

#[test]
fn header_fields_match_rfcs() {
    let vlan = Vlan::default()
        .with_pcp(5)
        .with_dei(true)
        .with_vid(0x123)
        .with_ethertype(EtherType::ROCE_V1);
    assert_eq!(vlan.bytes(), [0xB1, 0x23, 0x89, 0x15]);

    let ip = Ipv4::default()
        .with_version(4)
        .with_ihl(5)
        .with_dscp(0x2E)
        .with_ecn(3)
        .with_total_length(0x0102)
        .with_identification(Hex16(0x0304))
        .with_dont_fragment(true)
        .with_fragment_offset(0x1ABC)
        .with_ttl(9)
        .with_protocol(IpProtocol::UDP)
        .with_checksum(Hex16(0x0506))
        .with_src(Ipv4Addr::new(10, 11, 12, 13))
        .with_dst(Ipv4Addr::new(14, 15, 16, 17));
    let expected = [
        0x45, 0xBB, 1, 2, 3, 4, 0x5A, 0xBC, 9, 17, 5, 6, 10, 11, 12, 13, 14, 15, 16, 17,
    ];
    assert_eq!(ip.bytes(), expected);
    assert_eq!(
        ip.with_fragment_offset(0)
            .with_dont_fragment(false)
            .with_more_fragments(true)
            .bytes()[6],
        0x20
    );

    let ip = Ipv6::default()
        .with_version(6)
        .with_dscp(0x2E)
        .with_ecn(3)
        .with_flow_label(Hex32(0xC_DEF0))
        .with_payload_length(0x0102)
        .with_next_header(IpProtocol::UDP)
        .with_hop_limit(9)
        .with_src("fd00::1".parse().unwrap())
        .with_dst("fd00::2".parse().unwrap());
    assert_eq!(ip.bytes()[..10], [0x6B, 0xBC, 0xDE, 0xF0, 1, 2, 17, 9, 0xFD, 0]);
    assert_eq!((ip.bytes()[23], ip.bytes()[24], ip.bytes()[39]), (1, 0xFD, 2));
    assert_eq!(
        (ip.src(), ip.dst()),
        ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap())
    );

    let udp = Udp::default()
        .with_src_port(0x0102)
        .with_dst_port(4791)
        .with_length(0x0304)
        .with_checksum(Hex16(0x0506));
    assert_eq!(udp.bytes(), [1, 2, 0x12, 0xB7, 3, 4, 5, 6]);
}

#[test]
fn checksum_matches_rfc_1071_example() {
    // RFC 1071, section 3: the sum of these bytes is 0xDDF2.
    assert_eq!(
        internet_checksum(&[&[0x00, 0x01, 0xF2, 0x03, 0xF4, 0xF5, 0xF6, 0xF7]]),
        !0xDDF2
    );
    assert_eq!(internet_checksum(&[]), 0xFFFF);
    assert_eq!(internet_checksum(&[&[0x12]]), !0x1200, "an odd byte is the high one");
}

#[test]
fn udp_over_ipv6_checksum_matches_scapy() {
    let (src, dst) = ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap());
    let message = [0, 1, 0, 2, 0, 11, 0, 0, b'a', b'b', b'c'];
    assert_eq!(pseudo_header_checksum(src, dst, IpProtocol::UDP, &message), 0x416E);
}

#[test]
fn arp_reply_targets_requester() {
    let (asker, target) = (Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::new(10, 0, 0, 1));
    let other = MacAddress([2, 0, 0, 0, 0, 9]);
    let request = Arp::request(MAC, asker, target);
    let expected = [
        0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 2, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1,
    ];
    assert_eq!(request.bytes(), expected);
    let reply = request.reply(other);
    assert_eq!(reply.operation(), Arp::REPLY);
    assert_eq!((reply.sender_mac(), reply.sender_ip()), (other, target));
    assert_eq!((reply.target_mac(), reply.target_ip()), (MAC, asker));
    assert!(reply.is_ipv4_over_ethernet() && !reply.with_hardware(6).is_ipv4_over_ethernet());
}

#[test]
fn neighbour_messages_have_right_checksum() {
    let (src, dst): (Ipv6Addr, Ipv6Addr) = ("fd00::1".parse().unwrap(), "ff02::1:ff00:2".parse().unwrap());
    let target = "fd00::2".parse().unwrap();
    let asked = NeighbourSolicitation::default().with_target(target);
    assert_eq!(asked.target(), target);
    let bytes = asked.message(src, dst, LinkLayerOption::source(MAC));
    assert_eq!((bytes[0], bytes.len()), (135, 32));
    assert_eq!(bytes[2..4], [0x7D, 0x97], "scapy's value");
    assert_eq!(bytes[24..], [1, 1, 2, 0, 0, 0, 0, 1]);
    assert_eq!(pseudo_header_checksum(src, dst, IpProtocol::ICMP_V6, &bytes), 0);

    let told = NeighbourAdvertisement::default()
        .with_target(target)
        .with_solicited(true)
        .with_override_stored(true);
    let bytes = told.message(target, src, LinkLayerOption::target(MAC));
    assert_eq!((bytes[0], bytes[4]), (136, 0x60));
    assert_eq!(bytes[2..4], [0x1C, 0x9B], "scapy's value");
    assert_eq!(bytes[24..], [2, 1, 2, 0, 0, 0, 0, 1]);
    assert_eq!(pseudo_header_checksum(target, src, IpProtocol::ICMP_V6, &bytes), 0);
    assert_ne!(pseudo_header_checksum(dst, src, IpProtocol::ICMP_V6, &bytes), 0);
}

proptest! {
    #[test]
    fn checksum_ignores_part_boundaries(
        bytes in proptest::collection::vec(any::<u8>(), 0..100), cut: prop::sample::Index
    ) {
        let (left, right) = bytes.split_at(cut.index(bytes.len() + 1));
        prop_assert_eq!(internet_checksum(&[left, right]), internet_checksum(&[&bytes]));
    }

    #[test]
    fn header_with_checksum_sums_to_zero(bytes: [u8; 20]) {
        let ip = Ipv4::from_bytes(&bytes).with_right_checksum();
        prop_assert_eq!(internet_checksum(&[ip.bytes()]), 0);
        prop_assert_eq!(ip.with_checksum(Hex16(0)), Ipv4::from_bytes(&bytes).with_checksum(Hex16(0)));
    }

    #[test]
    fn any_bytes_print_as_headers(bytes in proptest::collection::vec(any::<u8>(), 0..48)) {
        fn check<L: Layout>(bytes: &[u8]) -> Result<(), TestCaseError> {
            let header = L::from_bytes(bytes);
            prop_assert!(!header.to_string().is_empty());
            let kept = bytes.len().min(L::SIZE);
            prop_assert_eq!(&header.bytes()[..kept], &bytes[..kept]);
            let _ = header.validate();
            Ok(())
        }
        check::<Ethernet>(&bytes)?;
        check::<Vlan>(&bytes)?;
        check::<Arp>(&bytes)?;
        check::<Ipv4>(&bytes)?;
        check::<Ipv6>(&bytes)?;
        check::<Udp>(&bytes)?;
        check::<NeighbourSolicitation>(&bytes)?;
        check::<NeighbourAdvertisement>(&bytes)?;
        check::<LinkLayerOption>(&bytes)?;
    }
}
