//! Any bytes at any port give a consistent judgement, and never a panic.

use proptest::prelude::*;
use verbatim_wire::{Lid, Medium, Mtu, PKey, PortState};

use super::damage::{failing, native, port};
use super::link::{Action, Check, Delimiter, Kind, Port, Received, check, explain};

fn any_port() -> impl Strategy<Value = Port> {
    let kind = prop_oneof![Just(Kind::Ca), Just(Kind::Router), Just(Kind::Switch)];
    let p_keys = proptest::option::of(proptest::collection::vec(any::<u16>().prop_map(PKey), 0..3));
    let lid = proptest::option::of(any::<u16>().prop_map(Lid));
    (
        kind,
        any::<bool>(),
        lid,
        any::<u8>(),
        any::<u8>(),
        any::<u8>(),
        any::<u8>(),
        p_keys,
    )
        .prop_map(|(kind, is_destination, lid, lmc, mtu, vls, state, p_keys)| Port {
            kind,
            is_destination,
            lid,
            lmc,
            mtu_cap: Mtu(mtu),
            vls,
            state: PortState(state),
            p_keys,
        })
}

fn agrees_with_itself(port: &Port, packet: &Received<'_>) -> Result<(), TestCaseError> {
    let judgement = check(port, packet);
    prop_assert_eq!(check(port, packet), judgement, "a pure function");
    prop_assert_eq!(judgement.first.map(|(first, _)| first), judgement.failed.first());
    match judgement.action {
        Action::Accept | Action::NotJudged(_) => prop_assert!(judgement.failed.is_empty()),
        Action::Discard | Action::DiscardOrForward => prop_assert!(!judgement.failed.is_empty()),
    }
    prop_assert!(port.kind != Kind::Ca || judgement.action != Action::DiscardOrForward);
    prop_assert!(judgement.counter.is_none() || !judgement.failed.is_empty());
    prop_assert!(judgement.failed.iter().all(|check| !judgement.absent.contains(check)));
    for check in judgement.failed.iter() {
        prop_assert!(!explain(check, port, packet).to_string().is_empty());
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_bytes_are_judged(
        port in any_port(),
        bytes in proptest::collection::vec(any::<u8>(), 0..120),
        delimiter in prop_oneof![
            Just(None), Just(Some(Delimiter::Egp)), Just(Some(Delimiter::Ebp)), Just(Some(Delimiter::Other))
        ],
        is_whole in any::<bool>(),
    ) {
        for medium in [Medium::InfiniBand, Medium::InfiniBandNoVcrc, Medium::Ethernet] {
            agrees_with_itself(&port, &Received { medium, bytes: &bytes, delimiter, is_whole })?;
        }
    }

    #[test]
    fn finds_any_set_of_failures(wanted in proptest::sample::subsequence(native().collect::<Vec<_>>(), 0..13)) {
        // The generated packet that fails both `ManagementLane` and `PKey` is on VL 15. That VL is always in
        // operation and open in Initialize, so that the packet cannot fail `VirtualLane` or `PortState`.
        let lane = wanted.contains(&Check::ManagementLane) && wanted.contains(&Check::PKey);
        let others = [Check::VirtualLane, Check::PortState];
        prop_assume!(!lane || !others.iter().any(|other| wanted.contains(other)));
        let arrival = failing(&wanted, port(Kind::Ca, true));
        let judgement = check(&arrival.port, &arrival.received());
        prop_assert_eq!(judgement.failed.iter().collect::<Vec<_>>(), wanted);
        agrees_with_itself(&arrival.port, &arrival.received())?;
    }
}
