//! Errors of reading a capture.

use std::io;

/// The reason why a capture cannot be read further.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The input returned an error.
    #[error("cannot read the capture at byte {offset}: {source}")]
    Io {
        /// The number of bytes read before the error.
        offset: u64,
        /// The input's error.
        source: io::Error,
    },
    /// The compressed data is damaged or cut off.
    #[error(
        "cannot unpack the compressed capture after {offset} unpacked bytes: {source}; the gzip or zstd data is \
         damaged or cut off, so packets are missing from here on"
    )]
    Packed {
        /// The number of bytes decompressed before the error.
        offset: u64,
        /// The decompressor's error.
        source: io::Error,
    },
    /// The first bytes match no supported format.
    #[error(
        "expected a capture, which begins with d4c3b2a1, 4d3cb2a1, a1b2c3d4 or a1b23c4d (pcap), 0a0d0d0a (pcapng) or \
         an ERF record of Ethernet or InfiniBand, seen {seen}; {advice}"
    )]
    NotACapture {
        /// The first bytes, in hexadecimal.
        seen: String,
        /// Advice for the user.
        advice: &'static str,
    },
    /// The capture ends within a structure.
    #[error(
        "the capture ends within {what} at byte {offset}: expected {expected} bytes from there on, seen {seen}; it was \
         cut off, so packets are missing from here on"
    )]
    CutOff {
        /// The name of the incomplete structure.
        what: &'static str,
        /// The offset of the structure's first byte.
        offset: u64,
        /// The length of the structure in bytes, or its least length.
        expected: u64,
        /// The number of bytes present.
        seen: u64,
    },
    /// A field contradicts the format.
    #[error(
        "the capture is damaged at byte {offset}: expected {expected}, seen {seen}; it cannot be read from here on"
    )]
    Damaged {
        /// The offset of the field's first byte.
        offset: u64,
        /// The expected value.
        expected: String,
        /// The value found.
        seen: String,
    },
}

/// Returns the error of an unsupported file, with advice for formats that its first bytes suggest.
pub(super) fn not_a_capture(head: &[u8]) -> CaptureError {
    let advice = match *head {
        [] => "the file is empty: was anything captured?",
        [0x1F, 0x8B, ..] | [0x28, 0xB5, 0x2F, 0xFD] => "it was compressed twice: decompress it once",
        [0xFD, b'7', b'z', b'X'] => "this is xz: decompress it first, as in `xz -dc FILE | verbatim inspect -`",
        [b'B', b'Z', b'h', _] => "this is bzip2: decompress it first, as in `bzip2 -dc FILE | verbatim inspect -`",
        [0xA1, 0xB2, 0xCD, 0x34] | [0x34, 0xCD, 0xB2, 0xA1] => {
            "this is a variant of pcap; convert it with `editcap -F pcapng FILE NEW`"
        }
        _ => "if Wireshark can open it, convert it with `editcap -F pcapng FILE NEW`",
    };
    let mut seen: String = head.iter().map(|byte| format!("{byte:02x}")).collect();
    if !head.is_empty() && head.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ') {
        seen = format!("{seen} ({:?})", String::from_utf8_lossy(head));
    }
    if head.is_empty() {
        seen = "nothing".into();
    }
    CaptureError::NotACapture { seen, advice }
}

pub(super) fn damaged(offset: u64, expected: impl Into<String>, seen: impl ToString) -> CaptureError {
    CaptureError::Damaged {
        offset,
        expected: expected.into(),
        seen: seen.to_string(),
    }
}
