//! Reads captures of others: pcap and pcapng, one packet at a time, from a file or a pipe.
//!
//! Never more than one packet is held, so memory does not grow with the file. Both byte orders, microseconds and
//! nanoseconds, several sections and interfaces; blocks without packets are passed over. Any bytes are allowed: what is
//! no capture, or is damaged, is an error that says where, what was expected and what was seen.
//!
//! Source of the formats: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng; ERF: the record format of Endace, in which
//! captures of native InfiniBand come.

mod erf;
mod error;
mod pcap;
mod pcapng;
mod source;
mod time;

pub use error::CaptureError;
pub use time::CaptureTime;

use core::fmt;
use core::ops::Range;
use std::io::Read;

use pcap::Pcap;
use pcapng::Pcapng;
use source::Source;

/// Bytes that a packet, or a block that is read whole, may have: far beyond any frame. A length field that says more is
/// damaged.
const MOST: usize = 16 << 20;

const LINKTYPE_ETHERNET: u16 = 1;
const LINKTYPE_ERF: u16 = 197;
const LINKTYPE_EXPORTED: u16 = 252;
const LINKTYPE_INFINIBAND: u16 = 247;

/// What the bytes of a packet are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// An Ethernet frame.
    Ethernet,
    /// A packet of native InfiniBand, from its LRH on. A capture need not say whether a VCRC ends it.
    InfiniBand,
    /// Something else; the bytes are as the capture has them.
    Unread(Unread),
}

/// What this does not look into.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Unread {
    /// Another link type, by its registered number.
    LinkType(u16),
    /// Another type of ERF record.
    ErfType(u8),
    /// An ERF record that ends before its headers do.
    ErfShort,
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LinkType(LINKTYPE_EXPORTED) => f.write_str("an exported PDU, such as what a host was told"),
            Self::LinkType(number) => write!(f, "link type {number}"),
            Self::ErfType(number) => write!(f, "ERF record of type {number}"),
            Self::ErfShort => f.write_str("ERF record without its headers"),
        }
    }
}

/// A packet of a capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Captured<'a> {
    /// Its number, from 1, as Wireshark counts.
    pub number: u64,
    /// The byte of the file at which its record begins.
    pub offset: u64,
    /// When it was seen; not every capture says.
    pub time: Option<CaptureTime>,
    /// What the bytes are.
    pub content: Content,
    /// The bytes, without what the capture put before them.
    pub bytes: &'a [u8],
    /// Whether these are all bytes that the packet had.
    pub is_whole: bool,
    /// Whether the capture says that headers of its packets were made up, as our own of MADs: what is around a MAD is not
    /// what passed.
    pub is_reconstructed: bool,
}

/// Reads a capture.
#[derive(Debug)]
pub struct Reader<R> {
    source: Source<R>,
    format: Format,
    packets: u64,
}

#[derive(Debug)]
enum Format {
    Pcap(Pcap),
    Pcapng(Pcapng),
}

/// A packet in the source's buffer.
#[derive(Clone, Debug)]
struct Found {
    offset: u64,
    time: Option<CaptureTime>,
    link_type: u16,
    bytes: Range<usize>,
    is_whole: bool,
    is_reconstructed: bool,
}

impl<R: Read> Reader<R> {
    /// Reads the beginning of a capture.
    ///
    /// # Errors
    /// When it cannot be read, or is no capture.
    pub fn new(input: R) -> Result<Self, CaptureError> {
        let mut source = Source::new(input);
        let head = source.up_to(4)?;
        let format = match *source.bytes(&head) {
            [0x0A, 0x0D, 0x0D, 0x0A] => Format::Pcapng(Pcapng::default()),
            ref magic if Pcap::is_magic(magic) => Format::Pcap(Pcap::begin(&mut source)?),
            ref other => return Err(error::not_a_capture(other)),
        };
        let mut reader = Self {
            source,
            format,
            packets: 0,
        };
        if let Format::Pcapng(pcapng) = &mut reader.format {
            pcapng.begin(&mut reader.source)?;
        }
        Ok(reader)
    }

    /// The next packet; `None` at the end of the capture.
    ///
    /// # Errors
    /// When the capture cannot be read, ends within a record, or is damaged. After an error there is no way on.
    pub fn next_packet(&mut self) -> Result<Option<Captured<'_>>, CaptureError> {
        let found = match &mut self.format {
            Format::Pcap(pcap) => pcap.next(&mut self.source)?,
            Format::Pcapng(pcapng) => pcapng.next(&mut self.source)?,
        };
        let Some(found) = found else { return Ok(None) };
        self.packets += 1;
        let bytes = self.source.bytes(&found.bytes);
        let (content, bytes, is_whole) = match found.link_type {
            LINKTYPE_ETHERNET => (Content::Ethernet, bytes, found.is_whole),
            LINKTYPE_INFINIBAND => (Content::InfiniBand, bytes, found.is_whole),
            LINKTYPE_ERF => erf::open(bytes),
            other => (Content::Unread(Unread::LinkType(other)), bytes, found.is_whole),
        };
        Ok(Some(Captured {
            number: self.packets,
            offset: found.offset,
            time: found.time,
            content,
            bytes,
            is_whole,
            is_reconstructed: found.is_reconstructed,
        }))
    }
}

#[cfg(test)]
mod tests;
