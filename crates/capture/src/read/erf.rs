//! ERF records: a header, extension headers, and a packet with its wire format. An ERF file has no file header.
//!
//! The record header has 16 bytes. An 8-byte timestamp comes first (little-endian, units of 2^-32 s), then type and
//! flags in 1 byte each. Record length, loss counter and wire length follow in 2 bytes each (big-endian).

use std::io::Read;

use super::error::damaged;
use super::layers::{self, Layer};
use super::source::Source;
use super::time::Clock;
use super::{Begins, CaptureError, Found, LINKTYPE_ERF, Unread};

/// Length of a record's header, in bytes.
pub(super) const HEADER: usize = 16;
const EXTENSION: usize = 8;
const TYPE_INFINIBAND: u8 = 21;
/// The record types of Ethernet: plain, with a color, with a filter's color, with a color and a hash.
const TYPES_ETHERNET: [u8; 4] = [2, 11, 16, 20];
/// Bytes between the ERF header and an Ethernet frame: an offset and a pad byte.
const BEFORE_FRAME: usize = 2;
const TYPES_IP: [u8; 2] = [22, 23];
/// A padding record.
const TYPE_PAD: u8 = 48;
/// Flag in the record's type or an extension header's first byte: another extension header follows.
const MORE: u8 = 0x80;
/// Flag: the record was truncated for lack of buffer space.
const TRUNCATED: u8 = 0x08;

const CLOCK: Clock = Clock {
    resolution: 0x80 | 32,
    offset: 0,
};

fn number(header: &[u8; HEADER], at: usize) -> usize {
    usize::from(u16::from_be_bytes([header[at], header[at + 1]]))
}

/// Returns whether a file with these first bytes is an ERF file. The first record must be Ethernet or InfiniBand,
/// and its lengths must agree. A text file is rejected, because ASCII letters match none of these types.
pub(super) fn is_likely(head: &[u8]) -> bool {
    head.first_chunk::<HEADER>().is_some_and(|header| {
        let kind = header[8] & !MORE;
        let (record, wire) = (number(header, 10), number(header, 14));
        let is_known = kind == TYPE_INFINIBAND || TYPES_ETHERNET.contains(&kind);
        is_known && record > HEADER && wire > 0 && record <= HEADER + wire + 64
    })
}

/// Reads the next record of an ERF file. Skips padding records.
pub(super) fn next<R: Read>(source: &mut Source<R>) -> Result<Option<Found>, CaptureError> {
    while !source.is_at_end()? {
        let offset = source.offset();
        let header = source.next(HEADER, "the header of an ERF record")?;
        let Some(header) = source.bytes(&header).first_chunk::<HEADER>().copied() else {
            break;
        };
        let length = number(&header, 10);
        if length < HEADER {
            return Err(damaged(offset + 10, "the length of an ERF record, 16 to 65535", length));
        }
        let bytes = source.next(length, "an ERF record")?;
        source.consume(length);
        if header[8] & !MORE == TYPE_PAD {
            continue;
        }
        let units = header.first_chunk::<8>().map_or(0, |units| u64::from_le_bytes(*units));
        return Ok(Some(Found {
            offset,
            time: Some(CLOCK.time(units)),
            link_type: LINKTYPE_ERF,
            bytes,
            is_whole: true,
            is_reconstructed: false,
        }));
    }
    Ok(None)
}

/// Returns the record's packet, its first layer, and whether the packet is complete.
///
/// The lengths come from the record's own header, because tools disagree on the lengths in the headers around it.
pub(super) fn open(record: &[u8]) -> (Begins, &[u8], bool) {
    let short = (Begins::Unread(Unread::ErfShort), record, false);
    let Some(header) = record.first_chunk::<HEADER>() else {
        return short;
    };
    let kind = header[8] & !MORE;
    let is_ethernet = TYPES_ETHERNET.contains(&kind);
    if kind != TYPE_INFINIBAND && !is_ethernet && !TYPES_IP.contains(&kind) {
        return (Begins::Unread(Unread::ErfType(kind)), record, false);
    }
    let mut at = HEADER;
    let mut more = header[8] & MORE != 0;
    while more {
        let Some(first) = record.get(at) else { return short };
        more = first & MORE != 0;
        at += EXTENSION;
    }
    if is_ethernet {
        at += BEFORE_FRAME;
    }
    let (record_length, wire_length) = (number(header, 10), number(header, 14));
    if record_length < at || record.len() < at {
        return short;
    }
    // Bytes after the packet are padding.
    let told = record_length - at;
    let wanted = if wire_length == 0 { told } else { wire_length };
    let there = &record[at..record.len().min(record_length)];
    let is_whole = there.len() >= wanted && header[9] & TRUNCATED == 0;
    let there = &there[..there.len().min(wanted)];
    let begins = match kind {
        TYPE_INFINIBAND => Begins::InfiniBand,
        _ if is_ethernet => Begins::Layer(Layer::Frame(0)),
        _ => Begins::Layer(layers::ip(there, 0)),
    };
    (begins, there, is_whole)
}
