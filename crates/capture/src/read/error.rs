//! Why a capture cannot be read.

use std::io;

/// Why a capture cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The input fails.
    #[error("cannot read the capture at byte {offset}: {source}")]
    Io {
        /// Bytes read before.
        offset: u64,
        /// The input's error.
        source: io::Error,
    },
    /// It is compressed, and its compression is damaged or cut off.
    #[error(
        "cannot unpack the compressed capture behind byte {offset} of what it holds: {source}; expected gzip or zstd \
         to the end of the file, and seen it damaged or cut off, so packets are missing from here on"
    )]
    Packed {
        /// Bytes that were unpacked before.
        offset: u64,
        /// The library's error.
        source: io::Error,
    },
    /// It begins like nothing that is known.
    #[error(
        "expected a capture, which begins with d4c3b2a1, 4d3cb2a1, a1b2c3d4 or a1b23c4d (pcap), 0a0d0d0a (pcapng) or \
         an ERF record of Ethernet or InfiniBand, seen {seen}; {advice}"
    )]
    NotACapture {
        /// What it begins with.
        seen: String,
        /// What to do.
        advice: &'static str,
    },
    /// It ends within something.
    #[error(
        "the capture ends within {what} at byte {offset}: expected {expected} bytes from there on, seen {seen}; it was \
         cut off, so packets are missing from here on"
    )]
    CutOff {
        /// Within what.
        what: &'static str,
        /// Where that begins.
        offset: u64,
        /// Bytes that it has, or has at least.
        expected: u64,
        /// Bytes that there are.
        seen: u64,
    },
    /// It contradicts its format.
    #[error(
        "the capture is damaged at byte {offset}: expected {expected}, seen {seen}; it cannot be read from here on"
    )]
    Damaged {
        /// Where.
        offset: u64,
        /// What belongs there.
        expected: String,
        /// What is there.
        seen: String,
    },
}

/// What a file that is no capture might be.
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

/// A contradiction at a place.
pub(super) fn damaged(offset: u64, expected: impl Into<String>, seen: impl ToString) -> CaptureError {
    CaptureError::Damaged {
        offset,
        expected: expected.into(),
        seen: seen.to_string(),
    }
}
