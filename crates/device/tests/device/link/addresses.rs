//! Tests of the DLID check: unicast, LMC, multicast, permissive LID, LID 0.

use verbatim_device::link::{LinkProfile, Outcome, PortKind};
use verbatim_wire::Lid;

use super::packets::*;

#[test]
fn port_accepts_only_its_lid_range() {
    for kind in [PortKind::ChannelAdapter, PortKind::Router, PortKind::Switch] {
        for lmc in 0..=7 {
            let base: u16 = 0x2580; // a multiple of 128
            let profile = LinkProfile {
                kind,
                lid: Lid(base),
                lmc,
                ..ca()
            };
            let range = base..base + (1 << lmc);
            for dlid in base - 0x100..base + 0x200 {
                let seen = local(0).to(dlid).at(&profile, &[]);
                if range.contains(&dlid) {
                    assert!(is_taken(&seen), "{dlid:#x}, LMC {lmc}");
                } else {
                    assert_eq!(seen, silent(), "{dlid:#x}, LMC {lmc}");
                }
            }
        }
    }
}

#[test]
fn discards_lid_0() {
    let unassigned = LinkProfile { lid: Lid(0), ..ca() };
    for profile in [ca(), unassigned] {
        for wire in [local(4), smp(LID), raw(24)] {
            assert_eq!(wire.to(0).at(&profile, &[]), silent());
        }
    }
}

#[test]
fn permissive_lid_needs_vl15() {
    let unassigned = LinkProfile { lid: Lid(0), ..ca() };
    assert!(is_taken(&smp(Lid::PERMISSIVE).at_ca()));
    assert!(is_taken(&smp(Lid::PERMISSIVE).at(&unassigned, &[])));
    for wire in [local(4), global(4), raw(24)] {
        assert_eq!(wire.to(0xFFFF).at_ca(), silent());
    }
}

#[test]
fn iba_multicast_needs_grh() {
    for group in [0xC000, 0xC001, 0xFFFE] {
        assert!(is_taken(&global(4).to(group).at_ca()));
        assert!(is_taken(&raw(24).to(group).at_ca()));
        assert!(is_taken(&raw_ipv6(48).to(group).at_ca()));
        assert_eq!(local(4).to(group).at_ca(), silent());
    }
    assert_eq!(
        global(4).to(0xBFFF).at_ca(),
        silent(),
        "the last unicast LID, of another port"
    );
}

#[test]
fn discards_multicast_smp() {
    assert_eq!(smp(Lid(0xC001)).at_ca(), silent());
    let mut profile = LinkProfile::switch_in_transit(LID);
    profile.choices.takes_grh_on_vl15 = true;
    for wire in [smp(Lid(0xC001)), global(256).on_vl(15).to(0xC001)] {
        assert_eq!(wire.at(&profile, &[]).0, Outcome::Discarded);
    }
}

#[test]
fn highest_unicast_lids_have_ranges() {
    let profile = LinkProfile {
        lid: Lid(0xBF80),
        lmc: 7,
        ..ca()
    };
    assert!(is_taken(&local(4).to(0xBFFF).at(&profile, &[])));
    assert_eq!(local(4).to(0xC000).at(&profile, &[]), silent());
}

#[test]
fn lmc_above_7_counts_as_7() {
    let profile = LinkProfile {
        lid: Lid(0x0400),
        lmc: 250,
        ..ca()
    };
    assert!(is_taken(&local(4).to(0x047F).at(&profile, &[])));
    assert_eq!(local(4).to(0x0480).at(&profile, &[]), silent());
}
