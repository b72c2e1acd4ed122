//! Files of other formats, and captures that are cut off or damaged.

use std::io;

use proptest::prelude::*;

use super::files::{BIG, LITTLE};
use super::{all, error, read};
use crate::read::{CaptureError, Reader};

fn pcap() -> Vec<u8> {
    let packets = (0..3).map(|at| LITTLE.packet((at, 0), &[at as u8; 40], 40));
    [vec![LITTLE.pcap(0xA1B2_C3D4, 1)], packets.collect()].concat().concat()
}

fn pcapng() -> Vec<u8> {
    let packets = (0..3).map(|at| BIG.enhanced(0, at, &[at as u8; 40], 40));
    let head = vec![
        BIG.section(),
        BIG.interface(1, 0, &BIG.option(9, &[9])),
        BIG.block(5, &[0; 40]),
    ];
    [head, packets.collect()].concat().concat()
}

#[test]
fn unknown_format_error_shows_first_bytes() {
    let begins = |bytes: &[u8]| {
        let error = error(bytes);
        assert!(error.starts_with("expected a capture, which begins with "), "{error}");
        error
    };
    assert!(begins(b"").contains("seen nothing; the file is empty"));
    assert!(begins(b"No. Time").contains("seen 4e6f2e20 (\"No. \")"));
    assert!(begins(&[0xFD, b'7', b'z', b'X']).contains("xz -dc FILE"));
    assert!(begins(b"BZh9").contains("bzip2 -dc FILE"));
    assert!(begins(&[0xA1, 0xB2, 0xCD, 0x34]).contains("editcap"));
    assert!(begins(&[0xD4, 0xC3]).contains("seen d4c3;"));
}

#[test]
fn cut_off_capture_keeps_earlier_packets() {
    for (whole, ends) in [
        (pcap(), vec![24, 80, 136, 192]),
        (pcapng(), vec![28, 56, 108, 180, 252, 324]),
    ] {
        let (before, error) = read(&whole);
        assert_eq!((before.len(), error), (3, None));
        for length in 4..whole.len() {
            let (seen, error) = read(&whole[..length]);
            assert_eq!(seen, before[..seen.len()]);
            // A cut between two records is not detectable.
            if ends.contains(&length) {
                assert_eq!(error, None, "{length}");
                continue;
            }
            let error = error.unwrap();
            assert!(error.starts_with("the capture ends within "), "{length}: {error}");
        }
        assert_eq!(ends.last(), Some(&whole.len()));
    }
}

#[test]
fn cut_off_error_gives_offset_and_lengths() {
    let file = pcap();
    assert_eq!(
        error(&file[..100]),
        "the capture ends within a packet at byte 80: expected 56 bytes from there on, seen 20; it was cut off, so \
         packets are missing from here on"
    );
    let file = [LITTLE.section(), LITTLE.block(5, &[0; 400_000])].concat();
    assert!(
        error(&file[..300_000]).contains("within a block at byte 28: expected 400008 bytes from there on, seen 299972")
    );
}

/// Returns the error after four bytes at `at` are overwritten.
fn changed(mut file: Vec<u8>, at: usize, bytes: [u8; 4]) -> String {
    file[at..at + 4].copy_from_slice(&bytes);
    error(&file)
}

#[test]
fn damage_error_gives_offset() {
    for (error, words) in [
        (
            changed(pcap(), 4, [9, 0, 4, 0]),
            "at byte 4: expected version 2.4 of the pcap format, seen 9.4",
        ),
        (
            changed(pcap(), 80 + 8, [0, 0, 0, 0x7F]),
            "at byte 88: expected a packet of at most 16777216 bytes, seen 2130706432",
        ),
        (
            changed(pcapng(), 8, [1, 2, 3, 4]),
            "at byte 8: expected 4d3c2b1a or 1a2b3c4d, the byte order of a section, seen 01020304",
        ),
        (
            changed(pcapng(), 12, [0, 2, 0, 0]),
            "at byte 12: expected version 1 of the pcapng format, seen 2",
        ),
        (
            changed(pcapng(), 28 + 4, [0, 0, 0, 33]),
            "at byte 32: expected the length of a block, a multiple of 4 and at least 12, seen 33",
        ),
        (
            changed(pcapng(), 28 + 4, [0, 0, 0, 8]),
            "at byte 32: expected the length of a block",
        ),
        (
            changed(pcapng(), 28 + 4, [0, 0, 0, 16]),
            "at byte 32: expected the length of an interface description, 20 to 16777216, seen 16",
        ),
        (
            changed(pcapng(), 108 + 4, [2, 0, 0, 0]),
            "at byte 112: expected the length of an enhanced packet block, 32 to 16777216, seen 33554432",
        ),
        (
            changed(pcapng(), 104, [0, 0, 0, 48]),
            "at byte 104: expected 52, the length of the block that ends here, seen 48",
        ),
        (
            changed(pcapng(), 108 + 8, [0, 0, 0, 1]),
            "at byte 116: expected an interface of the section's 1, counted from 0, seen interface 1",
        ),
        (
            changed(pcapng(), 108 + 20, [0, 0, 0, 41]),
            "at byte 128: expected at most 40 bytes captured, as many as the block holds, seen 41",
        ),
        (
            changed(pcapng(), 28 + 16, [0, 9, 0, 200]),
            "at byte 46: expected an option of at most 4 bytes, seen 200",
        ),
    ] {
        let whole = format!("the capture is damaged {words}");
        assert!(error.starts_with(&whole), "{error}");
    }
    let orphan = [LITTLE.section(), LITTLE.enhanced(0, 0, &[], 0)].concat();
    assert!(error(&orphan).contains("expected an interface description before the first packet, seen interface 0"));
}

#[test]
fn rejects_too_many_interfaces() {
    let mut file = LITTLE.section();
    let interface = LITTLE.interface(1, 0, &[]);
    for _ in 0..=65_536 {
        file.extend(&interface);
    }
    let (seen, error) = all(&file[..]);
    assert!(seen.is_empty());
    assert!(
        error
            .unwrap()
            .to_string()
            .contains("at most 65536 interfaces in a section")
    );
}

#[test]
fn input_error_gives_offset() {
    struct Fails(Vec<u8>);
    impl io::Read for Fails {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Err(io::Error::other("the cable is out"));
            }
            let given = self.0.len().min(buffer.len());
            buffer[..given].copy_from_slice(&self.0[..given]);
            self.0.clear();
            Ok(given)
        }
    }
    let mut reader = Reader::new(Fails(pcap()[..90].to_vec())).unwrap();
    assert!(reader.next_packet().unwrap().is_some());
    let error = reader.next_packet().unwrap_err();
    assert!(matches!(error, CaptureError::Io { offset: 90, .. }), "{error}");
    assert_eq!(
        error.to_string(),
        "cannot read the capture at byte 90: the cable is out"
    );
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(
        head in prop_oneof![
            Just(Vec::new()), Just(pcap()), Just(pcapng()), Just(LITTLE.pcap(0xA1B2_3C4D, 197)), Just(LITTLE.section())
        ],
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        tail in proptest::collection::vec(any::<u8>(), 0..100),
    ) {
        let mut file = [head, tail].concat();
        for (at, byte) in changes {
            if !file.is_empty() {
                let at = at.index(file.len());
                file[at] = byte;
            }
        }
        let (seen, error) = read(&file);
        prop_assert!(seen.windows(2).all(|pair| pair[0].number + 1 == pair[1].number));
        prop_assert!(error.is_none_or(|error| error.contains("expected ") && error.contains("seen ")));
    }
}
