//! Delimiter and CRCs.

use verbatim_device::link::{Delimiter, Outcome};
use verbatim_wire::{Layout, Packet};

use super::packets::*;

#[test]
fn sound_packets_of_every_kind_are_taken_without_lrh_and_crcs() {
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
fn ebp_is_an_error_of_another_link_whatever_else_is_wrong() {
    assert_eq!(local(8).ended(Delimiter::Ebp).at_ca(), remote());
    let marked = local(8).bad_vcrc().on_vl(12).ended(Delimiter::Ebp);
    assert_eq!(marked.bad_vcrc().at_ca(), remote());
}

#[test]
fn an_unknown_delimiter_is_an_error_of_this_link() {
    assert_eq!(local(8).ended(Delimiter::Other).at_ca(), physical());
}

#[test]
fn every_flipped_bit_without_mending_is_discarded_as_a_physical_error() {
    for wire in [local(4), global(4), raw(24), raw_ipv6(48)] {
        for bit in 0..wire.bytes.len() * 8 {
            assert_eq!(wire.clone().flip(bit).at_ca(), physical(), "bit {bit} of {wire:?}");
        }
    }
}

#[test]
fn every_bit_that_the_icrc_covers_is_discarded_and_the_others_are_not_its_business() {
    // VL, and BTH byte 4.
    let local_open: Vec<usize> = (0..4).chain(96..104).collect();
    // The LRH, TClass, FlowLabel, HopLmt, and BTH byte 4.
    let global_open: Vec<usize> = (0..64).chain(68..96).chain(120..128).chain(416..424).collect();
    for (wire, open) in [(local(4), local_open), (global(4), global_open)] {
        for bit in 0..wire.bytes.len() * 8 - 16 {
            let seen = wire.clone().flip(bit).with_vcrc().at_ca();
            // Another LNH makes another packet of it.
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
fn congestion_marks_and_what_routers_rewrite_leave_the_icrc_right() {
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
fn the_icrc_of_the_receiver_is_that_of_the_sender() {
    // Sealed by the wire crate, checked by the device's own arithmetic.
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
