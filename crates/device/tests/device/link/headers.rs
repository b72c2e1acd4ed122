//! Tests of the checks of GRH, TVer and P_Key.

use verbatim_device::link::LinkProfile;
use verbatim_wire::values::Hex8;
use verbatim_wire::{Lnh, PKey, Qpn};

use super::lengths::of_units;
use super::packets::*;

#[test]
fn rejects_malformed_grh() {
    for version in (0..16).filter(|&version| version != 6) {
        let wire = global(4).grh(|grh| grh.with_ip_ver(version)).mended();
        assert_eq!(wire.at_ca(), silent(), "IPVer {version}");
    }
    for next in (0..=255).filter(|&next| next != 0x1B) {
        let wire = global(4).grh(|grh| grh.with_nxt_hdr(Hex8(next))).mended();
        assert_eq!(wire.at_ca(), silent(), "NxtHdr {next}");
    }
    for pay_len in (0..200).filter(|&pay_len| pay_len != 20) {
        let wire = global(4).grh(|grh| grh.with_pay_len(pay_len)).mended();
        assert_eq!(wire.at_ca(), silent(), "PayLen {pay_len}");
    }
    assert!(is_taken(&global(4).at_ca()));
}

#[test]
fn discards_truncated_global_packet() {
    for units in 6..16 {
        assert_eq!(of_units(Lnh::IBA_GLOBAL, units).at_ca(), silent(), "{units}");
    }
}

#[test]
fn ignores_raw_ipv6_header() {
    let wire = raw_ipv6(64).grh(|ip| ip.with_ip_ver(9).with_pay_len(1)).mended();
    assert!(is_taken(&wire.at_ca()));
}

#[test]
fn discards_nonzero_tver() {
    for tver in 1..16 {
        for wire in [local(4), global(4)] {
            let wire = wire.bth(|bth| bth.with_tver(tver)).mended();
            assert_eq!(wire.at_ca(), silent(), "{tver}");
        }
    }
}

fn member_of(keys: &[u16]) -> LinkProfile {
    LinkProfile {
        p_keys: keys.iter().copied().map(PKey).collect(),
        ..ca()
    }
}

#[test]
fn p_keys_match_with_one_full_member() {
    for (ours, theirs, matches) in [
        (0x8123, 0x8123, true),
        (0x8123, 0x0123, true),
        (0x0123, 0x8123, true),
        (0x0123, 0x0123, false),
        (0x8123, 0x8122, false),
        (0x8123, 0xC123, false),
        (0x8000, 0x8000, false),
        (0x0000, 0x8000, false),
    ] {
        for wire in [local(4), global(4)] {
            let seen = wire.with_p_key(theirs).at(&member_of(&[ours]), &[]);
            if matches {
                assert!(is_taken(&seen), "{ours:#x} {theirs:#x}");
            } else {
                assert_eq!(seen, foreign(), "{ours:#x} {theirs:#x}");
            }
        }
    }
}

#[test]
fn any_table_entry_admits_packet() {
    let profile = member_of(&[0x8001, 0x0002, 0x8003]);
    assert!(is_taken(&local(4).with_p_key(0x0003).at(&profile, &[])));
    assert_eq!(local(4).with_p_key(0x0002).at(&profile, &[]), foreign());
    assert_eq!(local(4).with_p_key(0x8003).at(&member_of(&[]), &[]), foreign());
}

#[test]
fn qp0_and_raw_packets_skip_p_key_check() {
    let profile = member_of(&[0x8001]);
    assert!(is_taken(&smp(LID).with_p_key(0x7777).at(&profile, &[])));
    assert!(is_taken(&raw(64).at(&member_of(&[]), &[])));
    let general = local(4).bth(|bth| bth.with_dest_qp(Qpn::GSI).with_p_key(PKey(0x7777)));
    assert_eq!(general.mended().at(&profile, &[]), foreign());
}
