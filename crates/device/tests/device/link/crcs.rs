//! Tests of the checks of the delimiter and the CRCs.

use verbatim_device::link::{Delimiter, Outcome};
use verbatim_wire::{Layout, Packet};

use super::packets::*;

#[test]
fn accepts_every_kind_of_packet() {
    for (wire, trailer) in [
        (local(0), 6),
        (local(33), 6),
        (global(256), 6),
        (smp(LID), 6),
        (raw(60), 2),
        (raw_ipv6(80), 2),
    ] {
        let (outcome, _) = wire.at_ca();
        assert_eq!(outcome, Outcome::Accepted(8..wire.bytes.len() - trailer), "{wire:?}");
        assert!(is_taken(&wire.at_ca()));
    }
}

#[test]
fn ebp_outranks_other_errors() {
    assert_eq!(local(8).ended(Delimiter::Ebp).at_ca(), remote());
    let marked = local(8).bad_vcrc().on_vl(12).ended(Delimiter::Ebp);
    assert_eq!(marked.bad_vcrc().at_ca(), remote());
}

#[test]
fn unknown_delimiter_is_physical_error() {
    assert_eq!(local(8).ended(Delimiter::Other).at_ca(), physical());
}

#[test]
fn any_bit_flip_is_a_physical_error() {
    for wire in [local(4), global(4), raw(24), raw_ipv6(48)] {
        for bit in 0..wire.bytes.len() * 8 {
            assert_eq!(wire.clone().flip(bit).at_ca(), physical(), "bit {bit} of {wire:?}");
        }
    }
}

#[test]
fn icrc_detects_exactly_covered_bits() {
    // The variant bits: VL, and BTH byte 4.
    let local_open: Vec<usize> = (0..4).chain(96..104).collect();
    // The variant bits: the LRH, TClass, FlowLabel, HopLmt, and BTH byte 4.
    let global_open: Vec<usize> = (0..64).chain(68..96).chain(120..128).chain(416..424).collect();
    for (wire, open) in [(local(4), local_open), (global(4), global_open)] {
        for bit in 0..wire.bytes.len() * 8 - 16 {
            let seen = wire.clone().flip(bit).with_vcrc().at_ca();
            // Skip the LNH, because a packet with another LNH is of another kind.
            if (14..16).contains(&bit) {
                continue;
            }
            if open.contains(&bit) {
                assert_ne!(seen, physical(), "bit {bit} is not covered");
            } else {
                assert_eq!(seen, physical(), "bit {bit} is covered");
            }
        }
    }
}

#[test]
fn icrc_ignores_variant_fields() {
    let marked = local(4).bth(|bth| bth.with_fecn(true).with_becn(true));
    assert!(is_taken(&marked.with_vcrc().at_ca()));
    let routed = global(4)
        .grh(|grh| {
            let grh = grh
                .with_hop_lmt(3)
                .with_flow_label(verbatim_wire::values::Hex32(0x12345));
            grh.with_t_class(verbatim_wire::values::Hex8(0xA5))
        })
        .lrh(|lrh| lrh.with_vl(2).with_sl(9).with_slid(verbatim_wire::Lid(77)));
    assert!(is_taken(&routed.with_vcrc().at_ca()));
}

#[test]
fn receiver_icrc_matches_sender_icrc() {
    // The wire crate computes the ICRC; the device checks it with its own implementation.
    for payload in [0, 1, 2, 3, 4, 255, 1024, 4096] {
        for wire in [local(payload), global(payload)] {
            assert!(is_taken(&wire.at_ca()), "{payload}");
            let parsed = Packet::parse(verbatim_wire::Medium::InfiniBand, &wire.bytes).unwrap();
            assert_eq!(parsed.payload().len(), payload);
            assert_eq!(wire.clone().mended(), wire);
        }
    }
    assert_eq!(verbatim_wire::Lrh::SIZE, 8);
}

#[test]
fn raw_packets_have_no_icrc() {
    let wire = raw(40);
    let last = wire.bytes.len() * 8 - 17;
    assert!(is_taken(&wire.flip(last).with_vcrc().at_ca()));
}
