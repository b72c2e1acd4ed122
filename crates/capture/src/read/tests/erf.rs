//! ERF records of native InfiniBand.

use super::files::LITTLE;
use super::packets;
use crate::read::{Content, Unread};

/// Builds a record from its type, flags, extension headers, record length and wire length, and the remaining bytes.
fn record(kind: u8, flags: u8, extensions: &[u8], (record_length, wire_length): (u16, u16), rest: &[u8]) -> Vec<u8> {
    let mut record = vec![0; 8];
    record.extend([kind, flags]);
    record.extend(record_length.to_be_bytes());
    record.extend([0, 0]);
    record.extend(wire_length.to_be_bytes());
    record.extend(extensions);
    record.extend(rest);
    record
}

fn read(record: &[u8]) -> (Content, Vec<u8>, bool) {
    let length = u32::try_from(record.len()).unwrap();
    let file = [LITTLE.pcap(0xA1B2_C3D4, 197), LITTLE.packet((0, 0), record, length)].concat();
    let seen = packets(&file).remove(0);
    (seen.content, seen.bytes, seen.is_whole)
}

#[test]
fn trailing_padding_is_removed() {
    let ib = |bytes: &[u8], is_whole| (Content::InfiniBand, bytes.to_vec(), is_whole);
    assert_eq!(
        read(&record(21, 4, &[], (22, 6), &[1, 2, 3, 4, 5, 6])),
        ib(&[1, 2, 3, 4, 5, 6], true)
    );
    assert_eq!(
        read(&record(21, 0, &[], (24, 6), &[1, 2, 3, 4, 5, 6, 0, 0])),
        ib(&[1, 2, 3, 4, 5, 6], true)
    );
    assert_eq!(
        read(&record(21, 0, &[], (20, 0), &[1, 2, 3, 4])),
        ib(&[1, 2, 3, 4], true),
        "no wire length"
    );
}

#[test]
fn incomplete_packet_is_not_whole() {
    let cut = read(&record(21, 0, &[], (20, 6), &[1, 2, 3, 4]));
    assert_eq!(
        cut,
        (Content::InfiniBand, vec![1, 2, 3, 4], false),
        "by the record's length"
    );
    assert!(!read(&record(21, 0, &[], (22, 6), &[1, 2, 3])).2, "by the capture's");
    assert!(
        !read(&record(21, 8, &[], (22, 6), &[1, 2, 3, 4, 5, 6])).2,
        "by its flag"
    );
}

#[test]
fn extension_headers_are_skipped() {
    let two = [0x80 | 5, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0];
    let (content, bytes, is_whole) = read(&record(21 | 0x80, 0, &two, (34, 2), &[7, 8]));
    assert_eq!(
        (content, &bytes[..], is_whole),
        (Content::InfiniBand, &[7, 8][..], true)
    );
}

#[test]
fn unread_types_and_short_headers_differ() {
    let content = |record: &[u8]| read(record).0;
    assert_eq!(
        content(&record(3, 0, &[], (20, 4), &[0; 4])),
        Content::Unread(Unread::ErfType(3))
    );
    let short = Content::Unread(Unread::ErfShort);
    for length in 0..16 {
        assert_eq!(content(&record(21, 0, &[], (20, 4), &[])[..length]), short);
    }
    assert_eq!(
        content(&record(21, 0, &[], (9, 4), &[0; 4])),
        short,
        "a record shorter than its header"
    );
    assert_eq!(
        content(&record(21 | 0x80, 0, &[0x80; 8], (40, 4), &[])),
        short,
        "an extension that is not there"
    );
    assert_eq!(
        content(&record(21 | 0x80, 0, &[0; 3], (40, 4), &[])),
        short,
        "half an extension"
    );
}

/// Reads a file of records; returns the time, content and bytes of each.
fn file(records: &[Vec<u8>]) -> Vec<(String, Content, Vec<u8>)> {
    let seen = packets(&records.concat()).into_iter();
    seen.map(|seen| (seen.time, seen.content, seen.bytes)).collect()
}

#[test]
fn plain_erf_file_is_read() {
    let mut infiniband = record(21, 4, &[], (24, 6), &[1, 2, 3, 4, 5, 6, 0, 0]);
    infiniband[..8].copy_from_slice(&[0, 0, 0, 0x80, 7, 0, 0, 0]);
    let pad = record(48, 0, &[], (24, 0), &[0; 8]);
    let frame = [&[0; 2][..], &[9; 20]].concat();
    let ethernet = record(2, 4, &[], (38, 20), &frame);
    let expected = [
        ("7.500000000".to_owned(), Content::InfiniBand, vec![1, 2, 3, 4, 5, 6]),
        ("0.000000000".to_owned(), Content::Ethernet, vec![9; 20]),
    ];
    assert_eq!(file(&[infiniband.clone(), pad.clone(), ethernet.clone()]), expected);
    let [first, second] = expected;
    assert_eq!(file(&[ethernet, pad, infiniband]), [second, first]);
}

#[test]
fn damaged_erf_file_error_gives_offset() {
    let one = record(21, 4, &[], (22, 6), &[1, 2, 3, 4, 5, 6]);
    let told = super::error(&[&one[..], &one[..10]].concat());
    assert!(told.contains("within the header of an ERF record at byte 22"), "{told}");
    let told = super::error(&[&one[..], &one[..20]].concat());
    assert!(told.contains("within an ERF record at byte 22"), "{told}");
    let told = super::error(&[one, record(21, 4, &[], (3, 6), &[])].concat());
    assert!(
        told.contains("at byte 32: expected the length of an ERF record, 16 to 65535, seen 3"),
        "{told}"
    );
}
