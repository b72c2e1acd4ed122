//! Tests of switches and routers, in transit and as destination.

use verbatim_device::link::{
    Arrival, Counters, Delimiter, LinkChoices, LinkPort, LinkProfile, Outcome, PortKind, relayed,
};
use verbatim_wire::crc::vcrc;
use verbatim_wire::{Lid, Lnh, PKey};

use super::lengths::of_units;
use super::packets::*;

/// Returns a switch in transit that forwards damaged packets, marked as bad.
pub(crate) fn corrupting() -> LinkProfile {
    LinkProfile {
        choices: LinkChoices {
            corrupts_and_forwards: true,
            ..LinkChoices::default()
        },
        ..LinkProfile::switch_in_transit(LID)
    }
}

fn discarding() -> LinkProfile {
    LinkProfile::switch_in_transit(LID)
}

fn lver_1(wire: Wire) -> Wire {
    wire.lrh(|lrh| lrh.with_lver(1)).mended()
}

#[test]
fn switch_forwards_valid_packets() {
    for wire in [
        local(4),
        local(4).to(0x0999),
        local(4).to(0xC000),
        raw(24),
        global(4),
        smp(LID),
    ] {
        for profile in [discarding(), corrupting()] {
            assert_eq!(wire.at(&profile, &[]), (Outcome::Forwarded, Counters::default()));
        }
    }
}

#[test]
fn switch_skips_destination_checks() {
    for wire in [
        local(4).bad_icrc(),
        local(4).with_p_key(0x1234),
        local(4).bth(|bth| bth.with_tver(1)).mended(),
        global(4).grh(|grh| grh.with_ip_ver(4)).mended(),
        global(4).grh(|grh| grh.with_pay_len(1)).mended(),
    ] {
        assert_eq!(wire.at(&corrupting(), &[]).0, Outcome::Forwarded);
        let destination = LinkProfile {
            is_destination: true,
            ..corrupting()
        };
        assert_eq!(wire.at(&destination, &[]).0, Outcome::Discarded);
    }
}

#[test]
fn switch_may_check_icrc() {
    let mut profile = discarding();
    profile.choices.checks_icrc_in_transit = true;
    assert_eq!(local(4).bad_icrc().at(&profile, &[]), physical());
    profile.choices.corrupts_and_forwards = true;
    assert_eq!(
        local(4).bad_icrc().at(&profile, &[]),
        (Outcome::ForwardedCorrupt, physical().1)
    );
}

#[test]
fn damaged_packets_follow_choice() {
    let over = {
        let mut wire = local(0).resized(4300);
        wire.fit();
        wire
    };
    let short_by_4 = local(64).resized(-4);
    for (wire, seen) in [
        (local(4).bad_vcrc(), physical()),
        (lver_1(local(4)), malformed()),
        (short_by_4, malformed()),
        (over, malformed()),
        (lver_1(local(64)).resized(2).bad_vcrc(), physical()),
    ] {
        assert_eq!(wire.at(&discarding(), &[]), seen);
        assert_eq!(
            wire.at(&corrupting(), &[]),
            (Outcome::ForwardedCorrupt, seen.1),
            "{wire:?}"
        );
    }
}

#[test]
fn never_forwards_discard_only_errors() {
    for wire in [
        local(4).on_vl(12),
        local(4).on_vl(12).bad_vcrc(),
        of_units(Lnh::RAW, 4),
        of_units(Lnh::IBA_LOCAL, 5),
        local(4).to(0),
        local(4).to(0xFFFF),
        local(4).ended(Delimiter::Ebp),
        local(4).ended(Delimiter::Other).bad_vcrc(),
        raw(24).on_vl(15),
        global(4).on_vl(15),
    ] {
        assert_eq!(wire.at(&corrupting(), &[]).0, Outcome::Discarded, "{wire:?}");
    }
}

#[test]
fn short_packet_with_lrh_follows_choice() {
    let mut profile = corrupting();
    profile.choices.forwards_short_packets = true;
    let short = of_units(Lnh::RAW, 4);
    assert_eq!(short.at(&profile, &[]), (Outcome::ForwardedCorrupt, malformed().1));
    let mut shorter = short;
    shorter.bytes.truncate(9);
    assert_eq!(shorter.with_vcrc().at(&profile, &[]), malformed());
    profile.choices.corrupts_and_forwards = false;
    assert_eq!(of_units(Lnh::RAW, 4).at(&profile, &[]), malformed());
}

#[test]
fn destination_switch_acts_like_adapter() {
    let destination = LinkProfile {
        is_destination: true,
        ..corrupting()
    };
    for wire in [
        local(4),
        local(4).bad_vcrc(),
        local(4).bad_icrc(),
        lver_1(local(4)),
        local(64).resized(4),
        local(4).on_vl(12),
        local(4).to(0x0999),
        local(4).to(0xC000),
        local(4).with_p_key(0x1234),
        smp(Lid::PERMISSIVE),
    ] {
        assert_eq!(wire.at(&destination, &[]), wire.at_ca(), "{wire:?}");
    }
}

#[test]
fn channel_adapter_never_forwards() {
    let profile = LinkProfile {
        kind: PortKind::ChannelAdapter,
        ..corrupting()
    };
    assert!(is_taken(&local(4).at(&profile, &[])));
    assert_eq!(local(4).bad_vcrc().at(&profile, &[]), physical());
}

#[test]
fn unroutable_lid_is_a_relay_error() {
    for dlid in [0, 0xFFFF] {
        let (outcome, counters) = local(4).to(dlid).at(&discarding(), &[]);
        assert_eq!(outcome, Outcome::Discarded);
        let expected = Counters {
            port_rcv_switch_relay_errors: 1,
            port_dlid_mapping_errors: 1,
            ..Counters::default()
        };
        assert_eq!(counters, expected);
    }
}

#[test]
fn router_checks_lid_and_grh() {
    let router = LinkProfile {
        kind: PortKind::Router,
        ..corrupting()
    };
    assert_eq!(global(4).at(&router, &[]).0, Outcome::Forwarded);
    assert_eq!(global(4).bad_icrc().at(&router, &[]).0, Outcome::Forwarded);
    assert_eq!(global(4).to(0xC005).at(&router, &[]).0, Outcome::Forwarded);
    assert_eq!(global(4).bad_vcrc().at(&router, &[]).0, Outcome::ForwardedCorrupt);
    for wire in [
        global(4).to(0x0999),
        local(4).to(0xC005),
        global(4).grh(|grh| grh.with_ip_ver(4)).mended(),
    ] {
        assert_eq!(wire.at(&router, &[]), silent());
    }
}

#[test]
fn inbound_filters_count_constraint_errors() {
    let constraint = Counters {
        port_rcv_constraint_errors: 1,
        ..Counters::default()
    };
    for kind in [PortKind::Switch, PortKind::Router] {
        let profile = LinkProfile {
            kind,
            filters_raw: true,
            enforces_partitions: true,
            p_keys: vec![PKey(0x8001)],
            ..discarding()
        };
        for wire in [raw(24), raw_ipv6(48), global(4).with_p_key(0x8002)] {
            assert_eq!(wire.at(&profile, &[]), (Outcome::Discarded, constraint));
        }
        assert_eq!(global(4).with_p_key(0x0001).at(&profile, &[]).0, Outcome::Forwarded);
        let smp = smp(LID).with_p_key(0x8002);
        assert_eq!(smp.at(&profile, &[]).0, Outcome::Forwarded);
    }
    let adapter = LinkProfile {
        filters_raw: true,
        enforces_partitions: true,
        ..ca()
    };
    assert!(is_taken(&raw(24).at(&adapter, &[])));
    assert_eq!(local(4).with_p_key(0x8002).at(&adapter, &[]), foreign());
}

#[test]
fn marked_packet_counts_as_remote_error() {
    let damaged = local(64).bad_vcrc();
    let mut switch = LinkPort::new(corrupting(), &[]);
    let arrival = Arrival::good(&damaged.bytes);
    let outcome = switch.receive(&arrival);
    let (bytes, delimiter) = relayed(&arrival, &outcome).unwrap();
    assert_eq!(delimiter, Delimiter::Ebp);
    let (body, last) = bytes.split_at(bytes.len() - 2);
    assert_eq!(body, &damaged.bytes[..body.len()]);
    assert_eq!(last, vcrc(body).map(|byte| !byte));
    assert_eq!(Wire { bytes, delimiter }.at_ca(), remote());
}

#[test]
fn switch_forwards_bytes_unchanged() {
    let sound = local(64);
    let arrival = Arrival::good(&sound.bytes);
    let left = relayed(&arrival, &Outcome::Forwarded);
    assert_eq!(left, Some((sound.bytes.clone(), Delimiter::Egp)));
    assert_eq!(relayed(&arrival, &Outcome::Discarded), None);
    assert_eq!(relayed(&arrival, &Outcome::Accepted(8..20)), None);
    let nothing = Arrival::good(&[]);
    assert!(relayed(&nothing, &Outcome::ForwardedCorrupt).is_some());
}
