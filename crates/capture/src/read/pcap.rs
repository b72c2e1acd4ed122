//! Classic pcap: a file header of 24 bytes, then records, each a header of 16 bytes and a packet.

use std::io::Read;

use super::error::damaged;
use super::source::{Order, Source};
use super::{CaptureError, CaptureTime, Found, MOST};

const HEADER: usize = 24;
const RECORD: usize = 16;
const MICROSECONDS: u32 = 0xA1B2_C3D4;
const NANOSECONDS: u32 = 0xA1B2_3C4D;

/// The fields of the file header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pcap {
    order: Order,
    /// Units of a timestamp's fraction in one second: 10^6 or 10^9.
    per_second: u32,
    link_type: u16,
}

/// Returns the byte order and the timestamp units per second of a magic number.
fn magic(bytes: &[u8]) -> Option<(Order, u32)> {
    if bytes.len() < 4 {
        return None;
    }
    [Order::Little, Order::Big]
        .into_iter()
        .find_map(|order| match order.u32(bytes, 0) {
            MICROSECONDS => Some((order, 1_000_000)),
            NANOSECONDS => Some((order, 1_000_000_000)),
            _ => None,
        })
}

impl Pcap {
    pub(super) fn is_magic(bytes: &[u8]) -> bool {
        magic(bytes).is_some()
    }

    /// Reads the file header; the caller checked its magic number.
    pub(super) fn begin<R: Read>(source: &mut Source<R>) -> Result<Self, CaptureError> {
        let header = source.next(HEADER, "the header of a pcap file")?;
        let header = source.bytes(&header);
        let (order, per_second) = magic(header).unwrap_or((Order::Little, 1_000_000));
        let version = (order.u16(header, 4), order.u16(header, 6));
        if version.0 != 2 {
            let seen = format!("{}.{}", version.0, version.1);
            return Err(damaged(4, "version 2.4 of the pcap format", seen));
        }
        // The upper bits hold the length of the frame check sequence, which the reader does not use.
        #[allow(clippy::cast_possible_truncation)]
        let link_type = order.u32(header, 20) as u16;
        source.consume(HEADER);
        Ok(Self {
            order,
            per_second,
            link_type,
        })
    }

    pub(super) fn next<R: Read>(&self, source: &mut Source<R>) -> Result<Option<Found>, CaptureError> {
        if source.is_at_end()? {
            return Ok(None);
        }
        let offset = source.offset();
        let header = source.next(RECORD, "the header of a packet")?;
        let header = source.bytes(&header);
        let field = |at: usize| self.order.u32(header, at);
        let time = CaptureTime::of_parts(field(0), field(4), self.per_second);
        let (captured, original) = (field(8) as usize, field(12) as usize);
        if captured > MOST {
            let expected = format!("a packet of at most {MOST} bytes");
            return Err(damaged(offset + 8, expected, format!("{captured}")));
        }
        let record = source.next(RECORD + captured, "a packet")?;
        source.consume(RECORD + captured);
        Ok(Some(Found {
            offset,
            time: Some(time),
            link_type: self.link_type,
            bytes: record.start + RECORD..record.end,
            is_whole: captured >= original,
            is_reconstructed: false,
        }))
    }
}
