//! Tests of the checks of LVer, PktLen, and the minimum and maximum length.

use verbatim_device::link::LinkProfile;
use verbatim_wire::{Layout, Lnh, Lrh, Mtu};

use super::packets::*;

#[test]
fn nonzero_lver_is_malformed() {
    for lver in 1..16 {
        let wire = local(4).lrh(|lrh| lrh.with_lver(lver)).mended();
        assert_eq!(wire.at_ca(), malformed(), "{lver}");
    }
}

#[test]
fn ignores_reserved_bits_and_sl() {
    let ones = verbatim_wire::Reserved(0x1F);
    let wire = local(4).lrh(|lrh| lrh.with_reserved_12(ones).with_reserved_32(ones).with_sl(15));
    assert!(is_taken(&wire.mended().at_ca()));
}

#[test]
fn wrong_pkt_len_is_malformed() {
    for wire in [local(64), global(64), raw(64), raw_ipv6(64)] {
        let right = (wire.bytes.len() as u16 - 2) / 4;
        for told in 0..0x800 {
            let seen = wire.clone().lrh(|lrh| lrh.with_pkt_len(told)).mended().at_ca();
            if told == right {
                assert!(is_taken(&seen));
            } else {
                assert_eq!(seen, malformed(), "{told} instead of {right}");
            }
        }
    }
}

#[test]
fn missing_or_extra_bytes_are_malformed() {
    for by in [-8, -4, -3, -2, -1, 1, 2, 3, 4, 64] {
        assert_eq!(local(64).resized(by).at_ca(), malformed(), "{by}");
        assert_eq!(raw(64).resized(by).at_ca(), malformed(), "{by}");
    }
}

/// Returns an otherwise well-formed packet of the given kind, with `units` units of 4 bytes.
pub(crate) fn of_units(lnh: Lnh, units: usize) -> Wire {
    let mut wire = raw(4 * units.max(2)).lrh(|lrh| lrh.with_lnh(lnh));
    wire.fit();
    wire
}

#[test]
fn iba_packet_has_at_least_24_bytes() {
    for units in 3..6 {
        assert_eq!(of_units(Lnh::IBA_LOCAL, units).at_ca(), malformed(), "{units}");
    }
    assert_eq!(of_units(Lnh::IBA_LOCAL, 2).at_ca(), physical(), "no room for an ICRC");
    assert!(is_taken(&local(0).at_ca()));
    assert_eq!(local(0).bytes.len(), 26);
}

#[test]
fn raw_packet_has_at_least_20_bytes() {
    for lnh in [Lnh::RAW, Lnh::IPV6] {
        for units in 2..5 {
            assert_eq!(of_units(lnh, units).at_ca(), malformed(), "{units}");
        }
        assert!(is_taken(&of_units(lnh, 5).at_ca()));
    }
}

#[test]
fn discards_truncated_lrh() {
    for length in 0..Lrh::SIZE + 2 {
        let mut wire = local(0);
        wire.bytes.truncate(length);
        assert_eq!(wire.at_ca(), physical(), "{length}");
        if length >= 2 {
            assert_eq!(wire.with_vcrc().at_ca().0, verbatim_device::link::Outcome::Discarded);
        }
    }
}

#[test]
fn packet_holds_mtu_plus_124_bytes() {
    for mtu in [Mtu::B256, Mtu::B512, Mtu::B1024, Mtu::B2048, Mtu::B4096] {
        let profile = LinkProfile { mtu_cap: mtu, ..ca() };
        let longest = (mtu.bytes().unwrap() as usize + 124) / 4;
        for lnh in [Lnh::IBA_LOCAL, Lnh::RAW] {
            let sound = |units| {
                let base = if lnh == Lnh::RAW { raw(24) } else { local(0) };
                let mut wire = base.resized(4 * units as isize - 24);
                wire.fit();
                wire
            };
            assert!(is_taken(&sound(longest).at(&profile, &[])), "{mtu}");
            assert_eq!(sound(longest + 1).at(&profile, &[]), malformed(), "{mtu}");
        }
    }
}

#[test]
fn undefined_mtu_code_means_256_bytes() {
    let profile = LinkProfile {
        mtu_cap: Mtu(9),
        ..ca()
    };
    assert!(is_taken(&local(256).at(&profile, &[])));
    assert_eq!(local(512).at(&profile, &[]), malformed());
}
