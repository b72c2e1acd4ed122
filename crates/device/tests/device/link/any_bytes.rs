//! Property tests: any bytes, at any port with any defects, have a deterministic outcome.

use proptest::prelude::*;
use verbatim_device::link::{
    Arrival, Counters, Delimiter, LinkChoices, LinkDefect, LinkPort, LinkProfile, Outcome, PortKind, relayed,
};
use verbatim_wire::{Lid, Mtu, PKey, PortState};

use super::packets::*;

fn any_profile() -> impl Strategy<Value = LinkProfile> {
    let kind = prop::sample::select(vec![PortKind::ChannelAdapter, PortKind::Switch, PortKind::Router]);
    let codes = (any::<u16>(), any::<u8>(), any::<u8>(), any::<u8>(), 0_u8..6);
    let keys = prop::collection::vec(any::<u16>().prop_map(PKey), 0..3);
    (kind, codes, keys, any::<[bool; 7]>()).prop_map(|(kind, (lid, lmc, mtu, data_vls, state), p_keys, flags)| {
        LinkProfile {
            kind,
            is_destination: flags[0],
            lid: Lid(lid),
            lmc,
            mtu_cap: Mtu(mtu),
            data_vls,
            state: PortState(state),
            p_keys,
            filters_raw: flags[1],
            enforces_partitions: flags[2],
            choices: LinkChoices {
                corrupts_and_forwards: flags[3],
                checks_icrc_in_transit: flags[4],
                forwards_short_packets: flags[5],
                takes_grh_on_vl15: flags[6],
            },
        }
    })
}

fn any_delimiter() -> impl Strategy<Value = Delimiter> {
    prop::sample::select(vec![Delimiter::Egp, Delimiter::Ebp, Delimiter::Other])
}

proptest! {
    #[test]
    fn any_bytes_have_deterministic_outcome(
        profile in any_profile(),
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        delimiter in any_delimiter(),
        defects in prop::collection::vec(prop::sample::select(LinkDefect::ALL.to_vec()), 0..12),
    ) {
        let arrival = Arrival { bytes: &bytes, delimiter };
        let mut port = LinkPort::new(profile.clone(), &defects);
        let outcome = port.receive(&arrival);
        if let Outcome::Accepted(range) = &outcome {
            prop_assert!(bytes.get(range.clone()).is_some());
        }
        prop_assert_eq!(relayed(&arrival, &outcome).is_some(),
            matches!(outcome, Outcome::Forwarded | Outcome::ForwardedCorrupt));
        let mut again = LinkPort::new(profile, &defects);
        prop_assert_eq!(again.receive(&arrival), outcome);
        prop_assert_eq!(again.counters(), port.counters());
    }

    #[test]
    fn conforming_port_counts_at_most_once(
        profile in any_profile(), payload in 0_usize..300, bits in prop::collection::vec(0_usize..4000, 0..4),
        delimiter in any_delimiter(), mends: bool,
    ) {
        let mut wire = if payload % 2 == 0 { local(payload) } else { global(payload) };
        for bit in bits {
            let bit = bit % (wire.bytes.len() * 8);
            wire = wire.flip(bit);
        }
        if mends {
            wire = wire.mended();
        }
        let (outcome, counters) = wire.ended(delimiter).at(&profile, &[]);
        let kinds = [
            counters.port_rcv_errors,
            counters.port_rcv_remote_physical_errors,
            counters.port_rcv_switch_relay_errors,
            counters.port_rcv_constraint_errors.into(),
            counters.p_key_violations,
        ];
        prop_assert!(kinds.iter().sum::<u16>() <= 1);
        prop_assert_eq!(counters.port_rcv_errors,
            counters.port_local_physical_errors + counters.port_malformed_pkt_errors);
        match outcome {
            Outcome::Accepted(_) | Outcome::Forwarded => prop_assert_eq!(counters, Counters::default()),
            Outcome::ForwardedCorrupt => prop_assert_eq!(counters.port_rcv_errors, 1),
            Outcome::Discarded => {}
        }
    }

    #[test]
    fn only_transit_ports_forward(
        profile in any_profile(), payload in 0_usize..64, bit in 0_usize..200,
    ) {
        let is_final = profile.kind == PortKind::ChannelAdapter || profile.is_destination;
        for wire in [local(payload), local(payload).flip(bit), global(payload).flip(bit)] {
            let (outcome, _) = wire.at(&profile, &[]);
            match outcome {
                Outcome::Accepted(_) => prop_assert!(is_final),
                Outcome::Forwarded | Outcome::ForwardedCorrupt => prop_assert!(!is_final),
                Outcome::Discarded => {}
            }
        }
    }
}
