//! Reads arbitrary bytes as a MAD. Every view must read and print the bytes. Writing the fields back must give the same
//! MAD.
#![no_main]

use libfuzzer_sys::fuzz_target;
use verbatim_wire::{DrSmp, Gmp, Layout, LidSmp, Mad, MadHeaders, mad_packet};

fuzz_target!(|bytes: &[u8]| {
    let Ok(mad) = Mad::with_trailing_zeros(bytes) else {
        assert!(bytes.len() > 256);
        return;
    };
    assert_eq!(Mad::with_trailing_zeros(mad.without_trailing_zeros()), Ok(mad));
    assert!(!format!("{mad} {mad:?}").is_empty());
    assert_eq!(mad.with_header(&mad.header()), mad);
    assert_eq!(mad.with_m_key(mad.m_key()).with_status(mad.status()).with_data(mad.data()), mad);
    for words in [
        DrSmp::from_bytes(bytes).to_string(),
        LidSmp::from_bytes(bytes).to_string(),
        Gmp::from_bytes(bytes).to_string(),
    ] {
        assert!(!words.is_empty());
    }
    let packet = mad_packet(&MadHeaders::subnet_management(verbatim_wire::Lid(1), verbatim_wire::Lid(2)), &mad);
    assert!(packet.ends_with(&verbatim_wire::crc::vcrc(&packet[..packet.len() - 2])));
});
