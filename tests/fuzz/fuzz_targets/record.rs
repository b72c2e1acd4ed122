//! Reads arbitrary bytes as a record. The result must be an error, or entries that encode to the same bytes. The judge
//! must not panic on the entries. The target computes the CRCs, so that the fuzzer passes the CRC check.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use verbatim_record::{Entry, MAGIC, read};

fuzz_target!(|bytes: &[u8]| {
    let _ = read(bytes, Path::new("raw"));
    let mut file = MAGIC.to_vec();
    let mut rest = bytes;
    while let [length, more @ ..] = rest {
        let (body, after) = more.split_at(usize::from(*length).min(more.len()));
        rest = after;
        file.extend((body.len() as u32).to_le_bytes());
        file.extend(crc(body).to_le_bytes());
        file.extend(body);
    }
    if let Ok(entries) = read(&file, Path::new("framed")) {
        for entry in &entries {
            let mut again = Vec::new();
            entry.encode(&mut again);
            assert_eq!(Entry::decode(&again).as_ref(), Ok(entry));
        }
        let _ = verbatim_catalog::judge(entries);
    }
    // Judge the entries without a trailer too, because the fuzzer seldom makes a valid trailer.
    let mut entries = Vec::new();
    let mut rest = bytes;
    while let [length, more @ ..] = rest {
        let (body, after) = more.split_at(usize::from(*length).min(more.len()));
        rest = after;
        entries.extend(Entry::decode(body));
    }
    let _ = verbatim_catalog::judge(entries);
});

fn crc(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
        }
    }
    !crc
}
