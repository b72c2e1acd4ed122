//! Tests of the checks of virtual lanes and link states.

use verbatim_device::link::{LinkPort, LinkProfile, Outcome};
use verbatim_wire::{Lid, Opcode, PortState, Qpn};

use super::packets::*;

#[test]
fn accepts_only_configured_vls() {
    for data_vls in 1..=15 {
        let profile = LinkProfile { data_vls, ..ca() };
        for vl in 0..15 {
            for wire in [local(4), global(4), raw(24)] {
                let seen = wire.on_vl(vl).at(&profile, &[]);
                if vl < data_vls {
                    assert!(is_taken(&seen), "VL{vl} of {data_vls}");
                } else {
                    assert_eq!(seen, malformed(), "VL{vl} of {data_vls}");
                }
            }
        }
        assert!(is_taken(&smp(LID).at(&profile, &[])), "VL15 is always there");
    }
}

#[test]
fn vl15_rejects_raw_and_grh() {
    for wire in [global(256), raw(64), raw_ipv6(64)] {
        assert_eq!(wire.on_vl(15).at_ca(), malformed());
    }
}

#[test]
fn grh_on_vl15_follows_choice() {
    let mut profile = ca();
    profile.choices.takes_grh_on_vl15 = true;
    let smp = global(264)
        .bth(|bth| bth.with_dest_qp(Qpn::SMI).with_opcode(Opcode::UD_SEND_ONLY))
        .on_vl(15);
    assert!(is_taken(&smp.at(&profile, &[])));
    assert_eq!(smp.at_ca(), malformed());
    assert_eq!(raw(64).on_vl(15).at(&profile, &[]), malformed());
}

#[test]
fn vl15_carries_only_whole_smps_for_qp0() {
    let transit = LinkProfile::switch_in_transit(LID);
    let mut long = smp(LID).resized(4);
    long.fit();
    for wire in [
        smp(LID).bth(|bth| bth.with_dest_qp(Qpn::GSI)).mended(),
        smp(LID).bth(|bth| bth.with_opcode(Opcode::UC_SEND_ONLY)).mended(),
        smp(LID).on_vl(0),
        long,
    ] {
        assert_eq!(wire.at_ca(), silent());
        assert_eq!(wire.at(&transit, &[]).0, Outcome::Forwarded);
    }
    assert!(is_taken(&smp(LID).at_ca()));
}

#[test]
fn down_port_discards_without_counting() {
    for state in [0, 1, 5, 15] {
        let profile = LinkProfile {
            state: PortState(state),
            ..ca()
        };
        for wire in [smp(LID), local(4), local(4).bad_vcrc()] {
            assert_eq!(wire.at(&profile, &[]), silent(), "{state}");
        }
    }
}

#[test]
fn initialize_accepts_only_vl15() {
    let profile = LinkProfile {
        state: PortState::INITIALIZE,
        ..ca()
    };
    assert!(is_taken(&smp(LID).at(&profile, &[])));
    assert!(is_taken(&smp(Lid::PERMISSIVE).at(&profile, &[])));
    assert_eq!(local(4).at(&profile, &[]), silent());
    assert_eq!(raw(24).at(&profile, &[]), silent());
    assert_eq!(
        local(4).bad_vcrc().at(&profile, &[]),
        physical(),
        "errors count all the same"
    );
}

#[test]
fn armed_and_active_ports_accept_data() {
    for state in [PortState::ARMED, PortState::ACTIVE] {
        let profile = LinkProfile { state, ..ca() };
        assert!(is_taken(&smp(LID).at(&profile, &[])));
        assert!(is_taken(&local(4).at(&profile, &[])));
    }
}

#[test]
fn port_keeps_no_state_but_counters() {
    let mut port = LinkPort::new(ca(), &[]);
    let bad = local(4).bad_vcrc();
    for wire in [&bad, &local(4), &bad, &local(4)] {
        let outcome = port.receive(&verbatim_device::link::Arrival::good(&wire.bytes));
        assert_eq!(outcome == Outcome::Discarded, *wire == bad);
    }
    assert_eq!(port.counters().port_rcv_errors, 2);
}
