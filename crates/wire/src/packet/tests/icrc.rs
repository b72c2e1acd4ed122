//! Tests of the RoCE ICRC against scapy's values and a bitwise CRC.

use super::random::{network, stations, transport};
use super::sound::send_only;
use crate::crc::icrc_of;
use crate::packet::{Form, Network, Opcode, Packet, packet};

/// Computes the CRC bit by bit, with the polynomial in the architecture's notation.
fn by_long_division(masked: &[u8]) -> [u8; 4] {
    let mut register: u32 = 0xFFFF_FFFF;
    for byte in masked {
        for bit in 0..8 {
            let feedback = (register >> 31) ^ u32::from((byte >> bit) & 1);
            register = (register << 1) ^ if feedback == 1 { 0x04C1_1DB7 } else { 0 };
        }
    }
    (!register).reverse_bits().to_le_bytes()
}

#[test]
fn icrc_matches_scapy() {
    for (from, to, length, icrc) in [
        ("10.0.0.2", "10.0.0.1", 62, [0xC1, 0x20, 0xC5, 0x87]),
        ("fd00::1", "fd00::2", 82, [0xC9, 0x38, 0x4B, 0xB0]),
    ] {
        let (mut from, mut to) = stations(from, to);
        from.udp_port = 0xC002;
        to.udp_port = 0;
        let bytes = packet(&Network::roce_v2(&from, &to), &send_only(&[0xAA, 0xBB, 0xCC]));
        assert_eq!(bytes.len(), length);
        assert_eq!(bytes[length - 4..], icrc);
    }
}

#[test]
fn roce_icrc_starts_with_8_bytes_of_ones() {
    for (form, masked_bytes) in [
        (Form::RoceV1, &[1, 2, 3, 7, 44][..]),
        (Form::RoceV2Ipv4, &[1, 8, 10, 11, 26, 27, 32]),
        (Form::RoceV2Ipv6, &[1, 2, 3, 7, 46, 47, 52]),
    ] {
        let network = network(form, [0x5A; 40], [0xC3; 40], false);
        let bytes = packet(&network, &transport(Opcode::RC_SEND_ONLY, [0x0B; 40], vec![7; 30]));
        let seen = Packet::parse(network.medium(), &bytes).unwrap();
        let covered = &bytes[14..seen.offsets().icrc.unwrap()];
        let mut masked = [&[0xFF; 8][..], covered].concat();
        for at in masked_bytes {
            masked[8 + at] = 0xFF;
        }
        if form != Form::RoceV2Ipv4 {
            masked[8] |= 0x0F;
        }
        assert_eq!(seen.icrc(), Some(by_long_division(&masked)), "{form}");
    }
}

#[test]
fn truncated_headers_have_no_icrc() {
    for form in Form::ALL {
        let all = form.route_length() + 12;
        assert_eq!(icrc_of(form, &vec![0; all - 1]), None, "{form}");
        assert!(icrc_of(form, &vec![0; all]).is_some());
    }
}
