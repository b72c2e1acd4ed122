//! Parses arbitrary bytes as a packet of each medium. An error must have an explanation. A packet that is built from
//! the parsed parts must parse to the same parts. CRC repair must give right CRCs.
#![no_main]

use libfuzzer_sys::fuzz_target;
use verbatim_wire::packet::packet;
use verbatim_wire::{Bth, Medium, Packet, edit, mend_icrc, mend_ip_checksum, mend_lengths, mend_vcrc};

fuzz_target!(|input: (u8, &[u8])| {
    let (medium, bytes) = input;
    let medium = [Medium::Ethernet, Medium::InfiniBand, Medium::InfiniBandNoVcrc][usize::from(medium % 3)];
    for mend in [mend_icrc, mend_vcrc, mend_ip_checksum, mend_lengths] {
        let mut copy = bytes.to_vec();
        if mend(medium, &mut copy).is_err() {
            assert_eq!(copy, bytes);
        }
    }
    let seen = match Packet::parse(medium, bytes) {
        Ok(seen) => seen,
        Err(error) => {
            assert!(error.to_string().starts_with("expected "));
            return;
        }
    };
    assert!(!format!("{seen} {seen:?}").is_empty());
    assert_eq!([seen.bytes(), seen.trailer()].concat(), bytes);

    // After CRC repair the CRCs must be right. After a change in the BTH the ICRC must be wrong.
    let offsets = seen.offsets();
    let mut copy = seen.bytes().to_vec();
    offsets.mend_icrc(&mut copy);
    offsets.mend_vcrc(&mut copy);
    let mended = Packet::parse(medium, &copy).expect("only CRCs were changed");
    assert_eq!(mended.icrc_is_right(), seen.icrc().is_some());
    assert_ne!(mended.vcrc_is_right(), Some(false));
    assert_eq!(mended.transport(), seen.transport());
    edit(&mut copy, offsets.bth, |bth: Bth| bth.with_ack_request(!bth.ack_request()));
    assert!(!Packet::parse(medium, &copy).expect("only the BTH was changed").icrc_is_right());

    // A packet built from the parsed parts must have a right ICRC. Parsing and building it again must give the same
    // bytes.
    let made = packet(&seen.network(), &seen.transport());
    if let Ok(again) = Packet::parse(seen.network().medium(), &made) {
        assert!(again.icrc_is_right());
        assert_eq!(packet(&again.network(), &again.transport()), made);
    }
});
