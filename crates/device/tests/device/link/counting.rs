//! Tests of the precedence of checks, and of the counters.

use verbatim_device::link::{Arrival, Counters, Delimiter, LinkPort, LinkProfile};
use verbatim_wire::PKey;

use super::packets::*;

#[test]
fn crc_error_outranks_later_checks() {
    let wrong: [fn(Wire) -> Wire; 5] = [
        |wire| wire.on_vl(12),
        |wire| wire.lrh(|lrh| lrh.with_lver(3)).mended(),
        |wire| wire.resized(4),
        |wire| wire.with_p_key(0x1234),
        |wire| wire.to(0x0999),
    ];
    for change in wrong {
        let alone = change(local(64)).at_ca();
        assert_ne!(alone, physical());
        assert_eq!(change(local(64)).bad_vcrc().at_ca(), physical());
        assert_eq!(change(local(64)).bad_icrc().at_ca(), physical());
    }
}

#[test]
fn malformed_outranks_dlid_and_p_key() {
    let elsewhere = local(64).to(0x0999).with_p_key(0x1234);
    assert_eq!(elsewhere.at_ca(), silent(), "DLID before P_Key");
    assert_eq!(elsewhere.clone().on_vl(12).at_ca(), malformed());
    assert_eq!(elsewhere.resized(4).at_ca(), malformed());
}

#[test]
fn one_packet_counts_once() {
    let everything = local(64).resized(3).on_vl(12).with_p_key(0x1234).to(0);
    assert_eq!(everything.clone().at_ca(), malformed());
    assert_eq!(everything.bad_vcrc().at_ca(), physical());
}

#[test]
fn counters_stop_at_maximum() {
    let full = Counters {
        port_rcv_errors: u16::MAX,
        port_rcv_remote_physical_errors: u16::MAX,
        port_rcv_switch_relay_errors: u16::MAX,
        port_rcv_constraint_errors: u8::MAX,
        p_key_violations: u16::MAX,
        port_local_physical_errors: u16::MAX,
        port_malformed_pkt_errors: u16::MAX,
        port_dlid_mapping_errors: u16::MAX,
    };
    let filtering = LinkProfile {
        filters_raw: true,
        p_keys: vec![PKey(0x8001)],
        ..LinkProfile::switch_in_transit(LID)
    };
    for profile in [ca(), filtering] {
        let mut port = LinkPort::new(profile, &[]);
        port.set_counters(full);
        for wire in [
            local(4).bad_vcrc(),
            local(4).on_vl(12),
            local(4).with_p_key(0x1234),
            local(4).to(0),
            raw(24),
            local(4).ended(Delimiter::Ebp),
        ] {
            port.receive(&Arrival {
                bytes: &wire.bytes,
                delimiter: wire.delimiter,
            });
        }
        assert_eq!(*port.counters(), full);
    }
}
