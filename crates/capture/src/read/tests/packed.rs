//! Compressed captures.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::files::LITTLE;
use super::{all, packets, read};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

fn plain() -> Vec<u8> {
    let packets = (0..300_u32).map(|at| LITTLE.packet((at, 0), &[at.to_le_bytes()[0]; 90], 90));
    [vec![LITTLE.pcap(0xA1B2_C3D4, 1)], packets.collect()].concat().concat()
}

#[test]
fn compressed_capture_reads_as_plain() {
    let plain = plain();
    let expected = packets(&plain);
    for pack in [gzip, zstd] {
        assert_eq!(packets(&pack(&plain)), expected);
        let (first, second) = plain.split_at(10_000);
        assert_eq!(packets(&[pack(first), pack(second)].concat()), expected, "in two parts");
    }
    let skipped = [
        &[0x50, 0x2A, 0x4D, 0x18, 3, 0, 0, 0, 1, 2, 3][..],
        &zstd(&plain[5_000..]),
    ]
    .concat();
    assert_eq!(packets(&[zstd(&plain[..5_000]), skipped].concat()), expected);
}

#[test]
fn damaged_compression_is_an_error() {
    for pack in [gzip, zstd] {
        let packed = pack(&plain());
        for length in 5..packed.len() {
            let (_, error) = read(&packed[..length]);
            let error = error.unwrap_or_default();
            assert!(
                error.starts_with("cannot unpack the compressed capture after "),
                "{length}: {error}"
            );
        }
    }
    let mut damaged = gzip(&plain());
    let middle = damaged.len() / 2;
    damaged[middle..middle + 8].fill(0xFF);
    assert!(all(&damaged[..]).1.is_some());
}

#[test]
fn double_compression_is_rejected() {
    assert!(super::error(&gzip(&zstd(&plain()))).contains("it was compressed twice"));
}
