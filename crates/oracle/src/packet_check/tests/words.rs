//! Names, sets and explanations of checks.

use verbatim_wire::{Form, Medium};

use super::damage::{failing, native, port, sound};
use super::link::{Check, Checks, Kind, Received, explain};

#[test]
fn each_check_has_a_name_and_a_sentence() {
    let mut names: Vec<&str> = Check::ALL.iter().map(|check| check.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Check::ALL.len());
    assert!(Check::ALL.iter().all(|check| check.sentence().len() > 10));
}

#[test]
fn set_keeps_checks_in_order_of_rank() {
    let set = Checks::of(&[Check::PKey, Check::Vcrc, Check::Mtu]);
    assert_eq!(set.to_string(), "vcrc, mtu, p-key");
    assert_eq!((set.len(), set.first()), (3, Some(Check::Vcrc)));
    assert_eq!(set.without(Checks::of(&[Check::Vcrc])).first(), Some(Check::Mtu));
    assert_eq!(Checks::NONE.first(), None);
    assert!(Check::ALL.iter().all(|check| Checks::of(&[*check]).iter().eq([*check])));
}

#[test]
fn explanation_has_expected_and_seen_value() {
    for (what, words) in [
        (Check::Delimiter, "expected EGP, seen EBP"),
        (Check::LinkVersion, "expected LVer 0, seen 3"),
        (Check::Length, "expected 84 bytes (PktLen 21) to the ICRC, seen 80"),
        (
            Check::Mtu,
            "expected at most 380 bytes (MTUCap 256 and headers), seen 576",
        ),
        (Check::VirtualLane, "expected VL 0..7 or 15, seen VL 9"),
        (
            Check::PortState,
            "the port is Initialize, and the packet arrived on VL 1",
        ),
        (
            Check::ManagementLane,
            "expected packets to QP0 on VL 15, seen on VL 1 DLID 10 (0x000a), RC SEND Only DestQP 0x000000 (SMI)",
        ),
        (Check::Dlid, "expected DLID 0x0008..0x000b, seen 12 (0x000c)"),
        (Check::Grh, "expected IPVer 6, NxtHdr 0x1b, PayLen 32, seen 6, 0x11, 32"),
        (Check::TransportVersion, "expected TVer 0, seen 1"),
        (
            Check::PKey,
            "expected a P_Key that matches 0x8001 (full), seen 0x8002 (full)",
        ),
    ] {
        let arrival = failing(&[what], port(Kind::Ca, true));
        assert_eq!(explain(what, &arrival.port, &arrival.received()).to_string(), words);
    }
    for what in [Check::Vcrc, Check::Icrc] {
        let arrival = failing(&[what], port(Kind::Ca, true));
        let words = explain(what, &arrival.port, &arrival.received()).to_string();
        let (expected, seen) = words.split_once(", seen ").unwrap();
        assert!(
            expected.starts_with("expected ") && expected.ends_with(|c: char| c.is_ascii_hexdigit()),
            "{words}"
        );
        assert_ne!(expected.rsplit(' ').next(), Some(seen));
    }
}

#[test]
fn explanation_without_bytes_is_a_sentence() {
    let port = port(Kind::Ca, true);
    for check in native() {
        for length in 0..30 {
            for medium in [Medium::InfiniBand, Medium::InfiniBandNoVcrc, Medium::Ethernet] {
                let packet = Received {
                    medium,
                    bytes: &sound(Form::InfiniBandGlobal)[..length],
                    delimiter: None,
                    is_whole: true,
                };
                assert!(!explain(check, &port, &packet).to_string().is_empty());
            }
        }
    }
}
