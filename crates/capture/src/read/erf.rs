//! ERF records: a header, extension headers, and a packet as it was on the wire.
//!
//! The header has 16 bytes: time in 8 (little-endian), type, flags, then record length, losses and wire length in 2
//! each (big-endian).

use super::{Content, Unread};

const HEADER: usize = 16;
const EXTENSION: usize = 8;
const TYPE_INFINIBAND: u8 = 21;
/// In the type, and in the first byte of an extension header: another extension header follows.
const MORE: u8 = 0x80;
/// In the flags: the record was cut off for want of room.
const TRUNCATED: u8 = 0x08;

/// The packet of a record, and whether all of it is there.
///
/// The record says itself how long packet and record are; what the capture says around it differs from tool to tool.
pub(super) fn open(record: &[u8]) -> (Content, &[u8], bool) {
    let short = (Content::Unread(Unread::ErfShort), record, false);
    let Some(header) = record.first_chunk::<HEADER>() else {
        return short;
    };
    let kind = header[8] & !MORE;
    if kind != TYPE_INFINIBAND {
        return (Content::Unread(Unread::ErfType(kind)), record, false);
    }
    let mut at = HEADER;
    let mut more = header[8] & MORE != 0;
    while more {
        let Some(first) = record.get(at) else { return short };
        more = first & MORE != 0;
        at += EXTENSION;
    }
    let number = |at: usize| usize::from(u16::from_be_bytes([header[at], header[at + 1]]));
    let (record_length, wire_length) = (number(10), number(14));
    if record_length < at || record.len() < at {
        return short;
    }
    // What follows the packet in its record is padding.
    let told = record_length - at;
    let wanted = if wire_length == 0 { told } else { wire_length };
    let there = &record[at..record.len().min(record_length)];
    let is_whole = there.len() >= wanted && header[9] & TRUNCATED == 0;
    (Content::InfiniBand, &there[..there.len().min(wanted)], is_whole)
}
