//! One flipped bit at every position: the ICRC fails if it covers the bit, and stays right if it does not.

use verbatim_wire::crc::{icrc, vcrc};
use verbatim_wire::packet::packet;
use verbatim_wire::{Bth, Form, MacAddress, Medium, Network, Opcode, PKey, Qpn, Station, Transport};

use super::damage::{port, sound};
use super::link::{Action, Check, Kind, Port, Received, check};

fn judge(port: &Port, medium: Medium, bytes: &[u8]) -> super::link::Judgement {
    let packet = Received {
        medium,
        bytes,
        delimiter: None,
        is_whole: true,
    };
    check(port, &packet)
}

/// Returns the bits of a native packet that its ICRC does not cover, from the tables of the architecture.
fn masked(form: Form) -> Vec<usize> {
    match form {
        // VL. BTH byte 4: FECN, BECN and reserved bits.
        Form::InfiniBandLocal => (0..4).chain(96..104).collect(),
        // LRH. GRH: TClass and FlowLabel; HopLmt. BTH byte 4.
        _ => (0..64).chain(68..96).chain(120..128).chain(416..424).collect(),
    }
}

#[test]
fn icrc_covered_bit_flip_is_discarded() {
    let port = port(Kind::Ca, true);
    for form in [Form::InfiniBandLocal, Form::InfiniBandGlobal] {
        let whole = sound(form);
        let end = whole.len() - 2;
        let masked = masked(form);
        for bit in 0..8 * end {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 0x80 >> (bit % 8);
            // Each hop computes the VCRC again.
            let mended = vcrc(&bytes[..end]);
            bytes[end..].copy_from_slice(&mended);
            let judgement = judge(&port, Medium::InfiniBand, &bytes);
            // Skip the LNH: with another LNH, the packet has no ICRC, or its headers are at other offsets.
            if bit / 8 == 1 && bit % 8 >= 6 {
                continue;
            }
            let covered = !masked.contains(&bit);
            assert_eq!(judgement.failed.contains(Check::Icrc), covered, "{form} bit {bit}");
            assert!(!judgement.failed.contains(Check::Vcrc));
            assert!(!covered || judgement.action == Action::Discard);
        }
    }
}

#[test]
fn bit_flip_with_old_vcrc_fails_vcrc() {
    let port = port(Kind::Ca, true);
    let whole = sound(Form::InfiniBandLocal);
    for bit in 0..8 * whole.len() {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 0x80 >> (bit % 8);
        let judgement = judge(&port, Medium::InfiniBand, &bytes);
        assert_eq!(judgement.first.map(|(first, _)| first), Some(Check::Vcrc), "bit {bit}");
        assert_eq!(judgement.action, Action::Discard);
    }
}

#[test]
fn irrelevant_uncovered_bits_are_accepted() {
    let port = port(Kind::Ca, true);
    let mut accepted = 0;
    for form in [Form::InfiniBandLocal, Form::InfiniBandGlobal] {
        let whole = sound(form);
        let end = whole.len() - 2;
        for bit in masked(form) {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 0x80 >> (bit % 8);
            let mended = vcrc(&bytes[..end]);
            bytes[end..].copy_from_slice(&mended);
            accepted += usize::from(judge(&port, Medium::InfiniBand, &bytes).action == Action::Accept);
        }
    }
    // The terms of the sum, in this order:
    // - Each of the two forms: VL 1 becomes 0, 3 or 5 (the port has no VL 9): 3. BTH byte 4: 8.
    // - GRH of the global form: TClass and FlowLabel: 28. HopLmt: 8.
    // - LRH of the global form: SL: 4. Reserved bits: 2 and 5. SLID: 16. DLID 10 becomes 8 or 11 (the port's LIDs are
    //   8 to 11): 2. LNH 3 becomes 1, which makes a raw packet without an ICRC: 1.
    assert_eq!(accepted, (3 + 8) + (3 + 8) + (28 + 8) + (4 + 2 + 5 + 16 + 2 + 1));
}

fn station(last: u8, v6: bool) -> Station {
    let ip = if v6 {
        std::net::IpAddr::from([0xFD00, 0, 0, 0, 0, 0, 0, last.into()])
    } else {
        std::net::IpAddr::from([10, 0, 0, last])
    };
    Station {
        mac: MacAddress([2, 0, 0, 0, 0, last]),
        ip,
        udp_port: 0xC001,
    }
}

#[test]
fn roce_icrc_skips_bits_routers_change() {
    let (from, to) = (station(1, false), station(2, false));
    let (from6, to6) = (station(1, true), station(2, true));
    let transport = Transport {
        bth: Bth::default()
            .with_opcode(Opcode::RC_SEND_ONLY)
            .with_dest_qp(Qpn(0x11))
            .with_p_key(PKey(0xFFFF)),
        payload: (0..16).collect(),
        ..Transport::default()
    };
    // The bits that the ICRC does not cover, as offsets from the end of the Ethernet header. The ICRC does not cover
    // the Ethernet header, either.
    let v4: Vec<usize> = [
        8..16,
        64..72,
        80..96,
        20 * 8 + 48..20 * 8 + 64,
        28 * 8 + 32..28 * 8 + 40,
    ]
    .into_iter()
    .flatten()
    .collect();
    let v6: Vec<usize> = [4..32, 56..64, 40 * 8 + 48..40 * 8 + 64, 48 * 8 + 32..48 * 8 + 40]
        .into_iter()
        .flatten()
        .collect();
    let v1: Vec<usize> = [4..32, 56..64, 40 * 8 + 32..40 * 8 + 40]
        .into_iter()
        .flatten()
        .collect();
    for (network, masked, bth) in [
        (Network::roce_v2(&from, &to), v4, 28),
        (Network::roce_v2(&from6, &to6), v6, 48),
        (Network::roce_v1(&from6, &to6), v1, 40),
    ] {
        let whole = packet(&network, &transport);
        let port = Port::channel_adapter();
        assert_eq!(judge(&port, Medium::Ethernet, &whole).action, Action::Accept);
        for bit in 0..8 * whole.len() {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 0x80 >> (bit % 8);
            let judgement = judge(&port, Medium::Ethernet, &bytes);
            let covered = bit >= 14 * 8 && !masked.contains(&(bit - 14 * 8));
            if covered {
                // If a flip before the BTH makes the frame another kind of packet, or its length impossible, the ICRC
                // is not checked.
                let in_headers = bit < 8 * (14 + bth);
                let has_icrc = judgement.failed.contains(Check::Icrc);
                let moved =
                    matches!(judgement.action, Action::NotJudged(_)) || judgement.failed.contains(Check::Length);
                assert!(has_icrc || (in_headers && moved), "{} bit {bit}", network.form());
            } else {
                assert!(!judgement.failed.contains(Check::Icrc), "{} bit {bit}", network.form());
            }
        }
    }
}

#[test]
fn a_raw_packet_has_no_icrc() {
    let lrh = [0x10, 0x00, 0x00, 0x0A, 0x00, 0x06, 0x00, 0x03];
    let mut bytes = [&lrh[..], &[0x5A; 16]].concat();
    assert_eq!(icrc(&bytes), None);
    bytes.extend(vcrc(&bytes));
    let raw = judge(&port(Kind::Ca, true), Medium::InfiniBand, &bytes);
    assert_eq!(raw.action, Action::Accept, "{raw:?}");
}
