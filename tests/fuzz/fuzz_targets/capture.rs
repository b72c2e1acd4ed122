//! Reads arbitrary bytes as a capture. The reader must not panic. It must return packets and an end, or an error with
//! an explanation. A packet must not be longer than the file allows. The target then judges each packet at a port.
#![no_main]

use libfuzzer_sys::fuzz_target;
use verbatim_oracle::packet_check::{Port, Received, check};
use verbatim_capture::read::{Content, Reader};
use verbatim_wire::Medium;

fuzz_target!(|input: (u8, &[u8])| {
    let (head, bytes) = input;
    // Prepend a valid header, which the fuzzer seldom finds by itself.
    let header: &[u8] = match head % 4 {
        0 => &[],
        1 => b"\xD4\xC3\xB2\xA1\x02\0\x04\0\0\0\0\0\0\0\0\0\0\0\x04\0\x01\0\0\0",
        2 => b"\xA1\xB2\x3C\x4D\0\x02\0\x04\0\0\0\0\0\0\0\0\0\x04\0\0\0\0\0\xC5",
        _ => b"\x0A\x0D\x0D\x0A\x1C\0\0\0\x4D\x3C\x2B\x1A\x01\0\0\0\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x1C\0\0\0\
               \x01\0\0\0\x14\0\0\0\xF7\0\0\0\0\0\0\0\x14\0\0\0",
    };
    let file = [header, bytes].concat();
    let is_packed = file.starts_with(&[0x1F, 0x8B]) || file.starts_with(&[0x28, 0xB5, 0x2F, 0xFD]);
    let mut reader = match Reader::new(&file[..]) {
        Ok(reader) => reader,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let mut packets = 0;
    loop {
        match reader.next_packet() {
            Ok(Some(packet)) => {
                packets += 1;
                assert_eq!(packet.number, packets);
                // The reader may have put an Ethernet header before the packet. A decompressed packet may be longer
                // than the file.
                if !is_packed {
                    assert!(packet.bytes.len() <= file.len() + 14);
                    assert!(packet.offset < file.len() as u64);
                }
                if let Some(time) = packet.time {
                    assert!(time.nanoseconds < 1_000_000_000 && !time.to_string().is_empty());
                }
                let medium = match packet.content {
                    Content::Ethernet => Medium::Ethernet,
                    Content::InfiniBand => Medium::InfiniBand,
                    Content::Unread(_) => continue,
                };
                let received = Received {
                    medium,
                    bytes: packet.bytes,
                    delimiter: None,
                    is_whole: packet.is_whole,
                };
                let _ = check(&Port::channel_adapter(), &received);
            }
            Ok(None) => return,
            Err(error) => {
                assert!(error.to_string().contains("expected "));
                return;
            }
        }
    }
});
