//! Tests of packets with one broken part, repaired or not.

use proptest::prelude::*;

use super::random::{network, packets, stations, transport};
use crate::ether::{Ipv4, Ipv6, Udp};
use crate::packet::{
    Bth, Form, Grh, Lrh, Medium, Network, NotAPacket, Offsets, Opcode, Packet, Psn, Transport, edit, mend_icrc,
    mend_ip_checksum, mend_lengths, mend_udp_checksum, mend_vcrc, packet,
};
use crate::values::Hex16;

/// Returns the bits before the payload that the ICRC ignores, counted from the first bit of the packet.
fn masked_bits(form: Form, start: usize) -> Vec<usize> {
    // Ranges of bits, end exclusive, counted from the first byte that the ICRC may cover.
    let in_network: &[(usize, usize)] = match form {
        Form::InfiniBandLocal => &[(0, 4)],
        Form::InfiniBandGlobal => &[(0, 64), (68, 96), (120, 128)],
        Form::RoceV1 => &[(4, 32), (56, 64)],
        Form::RoceV2Ipv4 => &[(8, 16), (64, 72), (80, 96), (208, 224)],
        Form::RoceV2Ipv6 => &[(4, 32), (56, 64), (368, 384)],
    };
    let bth = 8 * form.route_length();
    let of_route = in_network.iter().copied().chain([(bth + 32, bth + 40)]);
    (0..8 * start)
        .chain(of_route.flat_map(|(from, to)| 8 * start + from..8 * start + to))
        .collect()
}

#[test]
fn icrc_covers_all_but_variant_bits() {
    for form in Form::ALL {
        let network = network(form, [0x5A; 40], [0xC3; 40], true);
        let sound = packet(&network, &transport(Opcode::RC_WRITE_ONLY_IMM, [0x0B; 40], vec![7; 5]));
        let offsets = Packet::parse(network.medium(), &sound).unwrap().offsets();
        let masked = masked_bits(form, offsets.bth - form.route_length());
        for bit in 0..8 * offsets.icrc.unwrap() {
            let mut bytes = sound.clone();
            bytes[bit / 8] ^= 0x80 >> (bit % 8);
            let broken = bytes.clone();
            // Uses the offsets of the well-formed packet. After some changes, the packet is of another kind or does
            // not parse.
            offsets.mend_icrc(&mut bytes);
            assert_eq!(bytes == broken, masked.contains(&bit), "{form}: bit {bit}");
        }
    }
}

#[test]
fn edit_keeps_icrc_until_mended() {
    let (from, to) = stations("10.0.0.2", "10.0.0.1");
    let sound = packet(
        &Network::roce_v2(&from, &to),
        &transport(Opcode::RC_SEND_ONLY, [0; 40], vec![1; 4]),
    );
    let offsets = Packet::parse(Medium::Ethernet, &sound).unwrap().offsets();

    let mut bytes = sound.clone();
    edit(&mut bytes, offsets.bth, |bth: Bth| bth.with_psn(Psn(99)).with_tver(1));
    let seen = Packet::parse(Medium::Ethernet, &bytes).unwrap();
    assert_eq!((seen.bth().psn(), seen.bth().tver()), (Psn(99), 1));
    assert!(!seen.icrc_is_right());
    assert!(seen.to_string().ends_with(", 4 bytes, ICRC wrong"));
    mend_icrc(Medium::Ethernet, &mut bytes).unwrap();
    assert!(Packet::parse(Medium::Ethernet, &bytes).unwrap().icrc_is_right());

    let mut bytes = sound.clone();
    edit(&mut bytes, offsets.ipv4.unwrap(), |ip: Ipv4| ip.with_ttl(1));
    let seen = Packet::parse(Medium::Ethernet, &bytes).unwrap();
    assert_eq!((seen.ip_checksum_is_right(), seen.icrc_is_right()), (Some(false), true));
    mend_ip_checksum(Medium::Ethernet, &mut bytes).unwrap();
    let seen = Packet::parse(Medium::Ethernet, &bytes).unwrap();
    assert_eq!((seen.ip_checksum_is_right(), seen.icrc_is_right()), (Some(true), true));

    assert_eq!(seen.udp_checksum_is_right(), None, "none was made");
    let udp = offsets.udp.unwrap();
    for (checksum, is_right) in [(0xBAD1, false), (right_udp_checksum(&sound, &offsets), true)] {
        let mut bytes = sound.clone();
        edit(&mut bytes, udp, |of: Udp| of.with_checksum(Hex16(checksum)));
        let seen = Packet::parse(Medium::Ethernet, &bytes).unwrap();
        assert_eq!(seen.udp_checksum_is_right(), Some(is_right), "{checksum:#06x}");
        assert!(seen.icrc_is_right(), "the ICRC does not cover it");
    }

    // The packet no longer parses, but the offsets of the well-formed packet remain valid.
    let mut bytes = sound.clone();
    edit(&mut bytes, offsets.ipv4.unwrap(), |ip: Ipv4| ip.with_total_length(9999));
    assert!(mend_icrc(Medium::Ethernet, &mut bytes).is_err());
    let unmended = bytes.clone();
    offsets.mend_icrc(&mut bytes);
    assert_ne!(bytes, unmended);
    edit(&mut bytes, offsets.ipv4.unwrap(), |ip: Ipv4| {
        ip.with_total_length(u16::try_from(sound.len() - 14).unwrap())
    });
    offsets.mend_icrc(&mut bytes);
    assert_eq!(bytes, sound);
}

#[test]
fn edit_beyond_end_does_nothing() {
    let mut bytes = [1; 20];
    for offset in [9, 20, 21, usize::MAX] {
        edit(&mut bytes, offset, |_: Bth| Bth::default());
    }
    assert_eq!(bytes, [1; 20]);
    edit(&mut bytes, 8, |_: Bth| Bth::default());
    assert_eq!(bytes[7..], [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn mend_lengths_rejects_overflow() {
    for (form, most) in [(Form::RoceV2Ipv4, 65_535), (Form::InfiniBandLocal, 4 * 0x7FF)] {
        let network = network(form, [0; 40], [0; 40], false);
        let mut bytes = packet(&network, &Transport::default());
        bytes.resize(70_000, 0);
        let before = bytes.clone();
        let error = mend_lengths(network.medium(), &mut bytes).unwrap_err();
        assert!(
            matches!(error, NotAPacket::TooLong { room, .. } if room == most),
            "{error}"
        );
        assert_eq!(bytes, before);
    }
}

#[test]
fn mend_lengths_restores_all_lengths() {
    for form in Form::ALL {
        let network = network(form, [0x5A; 40], [0xC3; 40], true);
        let sound = packet(&network, &transport(Opcode::UD_SEND_ONLY, [0x0B; 40], vec![7; 8]));
        let offsets = Packet::parse(network.medium(), &sound).unwrap().offsets();
        let mut bytes = sound.clone();
        edit(&mut bytes, offsets.lrh.unwrap_or(usize::MAX), |h: Lrh| {
            h.with_pkt_len(1)
        });
        edit(&mut bytes, offsets.grh.unwrap_or(usize::MAX), |h: Grh| {
            h.with_pay_len(1)
        });
        edit(&mut bytes, offsets.ipv4.unwrap_or(usize::MAX), |h: Ipv4| {
            h.with_total_length(1)
        });
        edit(&mut bytes, offsets.ipv6.unwrap_or(usize::MAX), |h: Ipv6| {
            h.with_payload_length(1)
        });
        edit(&mut bytes, offsets.udp.unwrap_or(usize::MAX), |h: Udp| h.with_length(1));
        assert_ne!(bytes, sound);
        mend_lengths(network.medium(), &mut bytes).unwrap();
        assert_eq!(bytes, sound, "{form}");
    }
}

#[test]
fn short_packet_names_missing_header() {
    let (from, to) = stations("10.0.0.2", "10.0.0.1");
    let mut short = transport(Opcode::RC_WRITE_ONLY_IMM, [0; 40], vec![1, 2, 3, 4]);
    short.reth = None;
    let bytes = packet(&Network::roce_v2(&from, &to), &short);
    let seen = Packet::parse(Medium::Ethernet, &bytes).unwrap();
    assert_eq!((seen.reth(), seen.imm()), (None, None));
    assert_eq!(seen.missing_header(), Some("RETH"));
    assert_eq!(seen.payload().len(), 8, "the immediate and the payload, as bytes");
    assert!(seen.to_string().contains("too short for its RETH"));

    // Two bytes after the BTH are too short for an ICRC.
    let mut bytes = packet(&Network::roce_v2(&from, &to), &Transport::default());
    bytes.truncate(bytes.len() - 2);
    mend_lengths(Medium::Ethernet, &mut bytes).unwrap();
    let seen = Packet::parse(Medium::Ethernet, &bytes).unwrap();
    assert_eq!((seen.icrc(), seen.computed_icrc()), (None, None));
    assert!(!seen.icrc_is_right());
    assert_eq!(seen.payload().len(), 2);
}

#[test]
fn oversized_pad_count_empties_payload() {
    let (from, to) = stations("10.0.0.2", "10.0.0.1");
    let mut bytes = packet(&Network::roce_v2(&from, &to), &Transport::default());
    edit(&mut bytes, 42, |bth: Bth| bth.with_pad_count(3));
    let seen = Packet::parse(Medium::Ethernet, &bytes).unwrap();
    assert_eq!(seen.payload(), []);
}

#[test]
fn mend_rejects_non_packet() {
    let mut bytes = [0x5A; 60];
    for medium in [Medium::Ethernet, Medium::InfiniBand, Medium::InfiniBandNoVcrc] {
        mend_icrc(medium, &mut bytes).unwrap_err();
        mend_vcrc(medium, &mut bytes).unwrap_err();
    }
    mend_lengths(Medium::Ethernet, &mut bytes).unwrap_err();
    mend_ip_checksum(Medium::Ethernet, &mut bytes).unwrap_err();
    assert_eq!(bytes, [0x5A; 60]);
}

proptest! {
    #[test]
    fn mending_changes_only_crcs(
        (network, transport) in packets(), bit: prop::sample::Index
    ) {
        let sound = packet(&network, &transport);
        let medium = network.medium();
        let offsets = Packet::parse(medium, &sound).unwrap().offsets();
        // Starts after the opcode, so that the kind of packet stays the same.
        let (first, last) = (offsets.bth + 2, offsets.icrc.unwrap());
        let bit = 8 * first + bit.index(8 * (last - first));
        let mut bytes = sound.clone();
        bytes[bit / 8] ^= 0x80 >> (bit % 8);
        let masked = bit / 8 == offsets.bth + 4;
        prop_assert_eq!(Packet::parse(medium, &bytes).unwrap().icrc_is_right(), masked);
        mend_icrc(medium, &mut bytes).unwrap();
        mend_vcrc(medium, &mut bytes).unwrap();
        let seen = Packet::parse(medium, &bytes).unwrap();
        prop_assert!(seen.icrc_is_right());
        prop_assert_ne!(seen.vcrc_is_right(), Some(false));
        prop_assert_eq!(bytes[bit / 8] ^ sound[bit / 8], 0x80 >> (bit % 8));
        prop_assert_eq!(&bytes[..bit / 8], &sound[..bit / 8]);
        prop_assert_eq!(&bytes[bit / 8 + 1..last], &sound[bit / 8 + 1..last]);
    }

    #[test]
    fn any_bytes_parse_or_return_error(
        bytes in proptest::collection::vec(any::<u8>(), 0..200), (network, transport) in packets(),
        at: prop::sample::Index, cut: prop::sample::Index
    ) {
        // Tries random bytes, and a truncated packet with some random bytes in it.
        let mut nearly = packet(&network, &transport);
        let at = at.index(nearly.len());
        nearly.splice(at..(at + bytes.len() / 20).min(nearly.len()), bytes.iter().copied().take(bytes.len() / 20));
        nearly.truncate(nearly.len() - cut.index(nearly.len()) / 4);
        for medium in [Medium::Ethernet, Medium::InfiniBand, Medium::InfiniBandNoVcrc] {
            for bytes in [&bytes, &nearly] {
                match Packet::parse(medium, bytes) {
                    Ok(seen) => {
                        prop_assert!(!seen.to_string().is_empty());
                        let offsets = seen.offsets();
                        prop_assert_eq!(offsets.end, seen.bytes().len());
                        prop_assert!(seen.payload().len() <= seen.padded_payload().len());
                        let _ = packet(&seen.network(), &seen.transport());
                        let mut copy = seen.bytes()[..offsets.end / 2].to_vec();
                        offsets.mend_icrc(&mut copy);
                        offsets.mend_vcrc(&mut copy);
                        offsets.mend_ip_checksum(&mut copy);
                    }
                    Err(error) => prop_assert!(error.to_string().starts_with("expected ")),
                }
                for mend in [mend_icrc, mend_vcrc, mend_ip_checksum, mend_udp_checksum, mend_lengths] {
                    let _ = mend(medium, &mut bytes.clone());
                }
            }
        }
    }
}

/// Computes the UDP checksum by RFC 768: the complement of the one's complement sum of the pseudo header and the
/// datagram.
fn right_udp_checksum(bytes: &[u8], offsets: &Offsets) -> u16 {
    let (ip, udp) = (offsets.ipv4.unwrap(), offsets.udp.unwrap());
    let length = (offsets.end - udp) as u32;
    let words = bytes[ip + 12..ip + 20]
        .chunks(2)
        .chain(bytes[udp..offsets.end].chunks(2));
    let sum: u32 = words.map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    let sum = sum + 17 + length;
    let folded = (sum & 0xFFFF) + (sum >> 16);
    !((folded & 0xFFFF) + (folded >> 16)) as u16
}
