//! Switches and routers, on the way and as the destination.

use verbatim_wire::{Form, Layout, Lid, Lrh, Medium, PKey, edit, mend_icrc, mend_vcrc};

use super::damage::{failing, native, port, sound};
use super::link::{Action, Check, Checks, Counter, Kind, Port, UNSETTLED_SHORT, check};

/// Returns the action and counter of a port on the way, for a packet that fails one check.
fn on_the_way(kind: Kind, what: Check) -> (Action, Option<Counter>) {
    let arrival = failing(&[what], port(kind, false));
    let judgement = check(&arrival.port, &arrival.received());
    (judgement.action, judgement.counter)
}

#[test]
fn switch_on_the_way_makes_link_checks_only() {
    use Action::{Accept, Discard, DiscardOrForward};
    let errors = Some(Counter::PortRcvErrors);
    for (what, action, counter) in [
        (Check::Delimiter, Discard, Some(Counter::PortRcvRemotePhysicalErrors)),
        (Check::Vcrc, DiscardOrForward, errors),
        // A switch need not check the ICRC, and need not count ICRC errors.
        (Check::Icrc, DiscardOrForward, None),
        (Check::LinkVersion, DiscardOrForward, errors),
        (Check::Length, DiscardOrForward, errors),
        (Check::Mtu, DiscardOrForward, errors),
        (Check::VirtualLane, Discard, errors),
        (Check::PortState, Discard, None),
        (Check::ManagementLane, Accept, None),
        (Check::Dlid, Accept, None),
        (Check::Grh, Accept, None),
        (Check::TransportVersion, Accept, None),
        (Check::PKey, Discard, Some(Counter::PortRcvConstraintErrors)),
    ] {
        assert_eq!(on_the_way(Kind::Switch, what), (action, counter), "{what}");
    }
}

#[test]
fn router_also_checks_dlid_and_grh() {
    assert_eq!(on_the_way(Kind::Router, Check::Dlid), (Action::Discard, None));
    assert_eq!(on_the_way(Kind::Router, Check::Grh), (Action::Discard, None));
    for what in native().filter(|what| !matches!(what, Check::Dlid | Check::Grh)) {
        assert_eq!(on_the_way(Kind::Router, what), on_the_way(Kind::Switch, what), "{what}");
    }
}

#[test]
fn channel_adapter_is_always_destination() {
    for what in native() {
        let arrival = failing(&[what], port(Kind::Ca, false));
        let judgement = check(&arrival.port, &arrival.received());
        assert_eq!(judgement.action, Action::Discard, "{what}");
    }
}

#[test]
fn only_a_lone_icrc_error_may_pass() {
    let alone = failing(&[Check::Icrc], port(Kind::Switch, false));
    let alone = check(&alone.port, &alone.received());
    assert!(alone.may_accept() && alone.may_discard() && alone.may_forward_spoilt());
    let both = failing(&[Check::Vcrc, Check::Icrc], port(Kind::Switch, false));
    let both = check(&both.port, &both.received());
    assert!(!both.may_accept() && both.may_discard() && both.may_forward_spoilt());
    let at_the_end = failing(&[Check::Icrc], port(Kind::Switch, true));
    let at_the_end = check(&at_the_end.port, &at_the_end.received());
    assert!(!at_the_end.may_accept() && at_the_end.may_discard() && !at_the_end.may_forward_spoilt());
    let sound = failing(&[], port(Kind::Switch, false));
    let sound = check(&sound.port, &sound.received());
    assert!(sound.may_accept() && !sound.may_discard() && !sound.may_forward_spoilt());
}

#[test]
fn switch_drops_dlid_0_and_permissive() {
    for dlid in [Lid(0), Lid::PERMISSIVE] {
        let mut arrival = failing(&[], port(Kind::Switch, false));
        arrival.bytes = sound(Form::InfiniBandLocal);
        edit(&mut arrival.bytes, 0, |lrh: Lrh| lrh.with_dlid(dlid));
        mend_icrc(Medium::InfiniBand, &mut arrival.bytes).unwrap();
        mend_vcrc(Medium::InfiniBand, &mut arrival.bytes).unwrap();
        let judgement = check(&arrival.port, &arrival.received());
        assert_eq!(judgement.failed, Checks::of(&[Check::Dlid]));
        assert_eq!(judgement.action, Action::Discard);
    }
}

#[test]
fn switch_checks_p_keys_if_configured() {
    let mut arrival = failing(&[Check::PKey], port(Kind::Switch, false));
    arrival.port = Port {
        p_keys: None,
        ..arrival.port
    };
    let judgement = check(&arrival.port, &arrival.received());
    assert_eq!((judgement.action, judgement.untold), (Action::Accept, Checks::NONE));
    arrival.port.p_keys = Some(vec![PKey(0x8002)]);
    assert_eq!(check(&arrival.port, &arrival.received()).action, Action::Accept);
}

#[test]
fn packet_without_lrh_is_discarded() {
    let arrival = failing(&[], port(Kind::Switch, false));
    let mut received = arrival.received();
    for length in 0..Lrh::SIZE + 2 {
        received.bytes = &arrival.bytes[..length];
        let judgement = check(&arrival.port, &received);
        assert!(judgement.failed.contains(Check::Length), "{length}");
        assert_eq!(judgement.action, Action::Discard, "{length}");
    }
}

#[test]
fn destination_discards_packet_without_bth() {
    let mut bytes = sound(Form::InfiniBandGlobal);
    bytes.truncate(Lrh::SIZE + 40 + 2);
    let words = (bytes.len() / 4) as u16;
    edit(&mut bytes, 0, |lrh: Lrh| lrh.with_pkt_len(words));
    let end = bytes.len() - 2;
    let vcrc = verbatim_wire::crc::vcrc(&bytes[..end]);
    bytes[end..].copy_from_slice(&vcrc);
    for (kind, is_destination, expected) in [
        (Kind::Ca, true, Action::Discard),
        (Kind::Switch, true, Action::Discard),
        (Kind::Router, false, Action::Discard),
        (Kind::Switch, false, Action::NotJudged(UNSETTLED_SHORT)),
    ] {
        let mut arrival = failing(&[], port(kind, is_destination));
        arrival.bytes = bytes.clone();
        let judgement = check(&arrival.port, &arrival.received());
        assert_eq!(judgement.action, expected, "{kind:?}: {judgement:?}");
    }
}

#[test]
fn port_that_is_down_counts_nothing() {
    let mut arrival = failing(&[Check::Vcrc], port(Kind::Ca, true));
    assert_eq!(
        check(&arrival.port, &arrival.received()).counter,
        Some(Counter::PortRcvErrors)
    );
    arrival.port.state = verbatim_wire::PortState::DOWN;
    let judgement = check(&arrival.port, &arrival.received());
    assert_eq!((judgement.action, judgement.counter), (Action::Discard, None));
}

#[test]
fn short_multicast_packet_lacks_a_grh() {
    let mut arrival = failing(&[], port(Kind::Router, false));
    arrival.bytes = sound(Form::InfiniBandLocal);
    edit(&mut arrival.bytes, 0, |lrh: Lrh| lrh.with_dlid(Lid(0xC000)));
    arrival.bytes.truncate(20);
    let judgement = check(&arrival.port, &arrival.received());
    assert!(judgement.failed.contains(Check::Grh), "{:?}", judgement.failed);
    assert_eq!(judgement.action, Action::Discard);
}
