//! Judges arbitrary bytes at an arbitrary port. The judge must not panic. The judgement must be consistent and have an
//! explanation.
#![no_main]

use libfuzzer_sys::fuzz_target;
use verbatim_oracle::packet_check::{Action, Check, Delimiter, Kind, Port, Received, check, explain};
use verbatim_wire::crc::{icrc, vcrc};
use verbatim_wire::{Lid, Medium, Mtu, PKey, PortState};

fuzz_target!(|input: ([u8; 8], Option<u16>, Option<[u16; 2]>, &[u8])| {
    let ([kind, lmc, mtu, vls, state, medium, delimiter, flags], lid, p_keys, bytes) = input;
    let port = Port {
        kind: [Kind::Ca, Kind::Router, Kind::Switch][usize::from(kind % 3)],
        is_destination: flags & 1 != 0,
        lid: lid.map(Lid),
        lmc,
        mtu_cap: Mtu(mtu),
        vls,
        state: PortState(state),
        p_keys: p_keys.map(|keys| keys.map(PKey).to_vec()),
    };
    let medium = [Medium::Ethernet, Medium::InfiniBand, Medium::InfiniBandNoVcrc][usize::from(medium % 3)];
    // Append valid CRCs, so that the fuzzer gets past the CRC checks.
    let mut bytes = bytes.to_vec();
    if flags & 2 != 0 && medium != Medium::Ethernet {
        bytes.extend(icrc(&bytes).unwrap_or_default());
        if medium == Medium::InfiniBand {
            bytes.extend(vcrc(&bytes));
        }
    }
    let packet = Received {
        medium,
        bytes: &bytes,
        delimiter: [None, Some(Delimiter::Egp), Some(Delimiter::Ebp), Some(Delimiter::Other)][usize::from(delimiter % 4)],
        is_whole: flags & 4 == 0,
    };
    let judgement = check(&port, &packet);
    assert_eq!(check(&port, &packet), judgement);
    assert_eq!(judgement.first.map(|(first, _)| first), judgement.failed.first());
    match judgement.action {
        Action::Accept | Action::NotJudged(_) => assert!(judgement.failed.is_empty()),
        Action::Discard => assert!(!judgement.failed.is_empty()),
        Action::DiscardOrForward => assert!(!judgement.failed.is_empty() && port.kind != Kind::Ca),
    }
    assert!(judgement.may_accept() || judgement.may_discard());
    for check in Check::ALL {
        assert!(!explain(check, &port, &packet).to_string().is_empty());
        assert!(!(judgement.failed.contains(check) && judgement.absent.contains(check)));
    }
});
