//! Reads captures in pcap, pcapng and ERF format, from a file or a pipe, plain or compressed with gzip or zstd.
//!
//! The reader holds one packet at a time, so its memory does not grow with the file. The reader supports both byte
//! orders, microsecond and nanosecond timestamps, and several sections and interfaces, and skips blocks without
//! packets. Any input is safe: an unsupported or damaged file gives an error with the offset, the expected value and
//! the value found.
//!
//! The reader takes a packet out of its tunnel. If the packet has no Ethernet header, the reader adds a header. The
//! caller therefore sees only Ethernet frames, InfiniBand packets and [`Unread`] content.
//!
//! Sources of the formats: draft-ietf-opsawg-pcap; draft-ietf-opsawg-pcapng; Endace's ERF record format, used by
//! captures of native InfiniBand; RFC 1952 (gzip); RFC 8878 (zstd).

mod erf;
mod error;
mod layers;
mod packed;
mod pcap;
mod pcapng;
mod source;
mod time;

pub use error::CaptureError;
pub use layers::Tunnel;
pub use time::CaptureTime;

use core::fmt;
use core::ops::Range;
use std::io::Read;

use layers::Layer;
use packed::Packing;
use pcap::Pcap;
use pcapng::Pcapng;
use source::Source;
use verbatim_wire::{Medium, Packet};

/// The longest packet, and the longest block that the reader reads whole, in bytes. This is far longer than any
/// frame. A larger value in a length field counts as damage.
const MOST: usize = 16 << 20;

const LINKTYPE_ETHERNET: u16 = 1;
/// Raw IP: the values of `DLT_RAW` on two systems (12, 14), the registered number (101), IPv4 only, IPv6 only.
const LINKTYPES_IP: [u16; 5] = [12, 14, 101, 228, 229];
/// Linux cooked captures of both versions, as `tcpdump -i any` makes them.
const LINKTYPE_LINUX_SLL: u16 = 113;
const LINKTYPE_LINUX_SLL2: u16 = 276;
const LINKTYPE_ERF: u16 = 197;
const LINKTYPE_EXPORTED: u16 = 252;
const LINKTYPE_INFINIBAND: u16 = 247;

/// The content of a captured packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// An Ethernet frame.
    Ethernet,
    /// A packet of native InfiniBand, from its LRH on. The VCRC may be missing.
    InfiniBand,
    /// Unsupported content; the bytes are unchanged.
    Unread(Unread),
}

/// A kind of content that the reader does not parse.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Unread {
    /// An unsupported link type, by its registered number.
    LinkType(u16),
    /// An unsupported type of ERF record.
    ErfType(u8),
    /// An ERF record that ends within its headers.
    ErfShort,
    /// A tunnel whose payload is encrypted or neither Ethernet nor IP.
    Within(Tunnel),
    /// RoCEv2 after IPv6 extension headers, if the ICRC does not match the packet without these headers. Annex A17
    /// does not define extension headers, so the bytes that the ICRC covers are unknown.
    Extensions,
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LinkType(LINKTYPE_EXPORTED) => f.write_str("an exported PDU, such as a verbs command"),
            Self::LinkType(number) => write!(f, "link type {number}"),
            Self::ErfType(number) => write!(f, "ERF record of type {number}"),
            Self::ErfShort => f.write_str("ERF record without its headers"),
            Self::Within(tunnel) => write!(f, "{tunnel} with a payload other than Ethernet or IP"),
            Self::Extensions => {
                f.write_str("RoCEv2 behind IPv6 extension headers, whose ICRC does not match the packet without them")
            }
        }
    }
}

/// One packet of a capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Captured<'a> {
    /// The packet's number, counted from 1 as in Wireshark.
    pub number: u64,
    /// The file offset of the packet's record, in bytes.
    pub offset: u64,
    /// The packet's timestamp, if the capture has one.
    pub time: Option<CaptureTime>,
    /// The content of `bytes`.
    pub content: Content,
    /// The bytes without the capture's and the tunnel's headers, and without IPv6 extension headers before RoCEv2.
    pub bytes: &'a [u8],
    /// The encapsulation that the reader removed; `bytes` holds the inner packet.
    pub tunnel: Option<Tunnel>,
    /// Whether the reader made up the Ethernet header of `bytes`. The packet had no Ethernet header, or had VLAN
    /// tags that the packet parser does not accept. The made-up header has no addresses.
    pub is_bare: bool,
    /// Whether `bytes` holds the complete packet.
    pub is_whole: bool,
    /// Whether the capture marks the headers around a MAD as reconstructed, as Verbatim's captures do. Only the MAD
    /// itself is then the captured data.
    pub is_reconstructed: bool,
}

/// A reader of a capture.
#[derive(Debug)]
pub struct Reader<R> {
    source: Source<R>,
    format: Format,
    packets: u64,
    /// The last packet that the reader had to rewrite.
    made: Vec<u8>,
}

/// The first layer of a captured packet.
enum Begins {
    Layer(Layer),
    InfiniBand,
    Unread(Unread),
}

#[derive(Debug)]
enum Format {
    Pcap(Pcap),
    Pcapng(Pcapng),
    Erf,
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
    /// Returns an error if the input fails or has an unsupported format.
    pub fn new(input: R) -> Result<Self, CaptureError> {
        let mut source = Source::new(input);
        let head = source.up_to(erf::HEADER)?;
        if let Some(packing) = Packing::of(source.bytes(&head)) {
            source = source.unpacked(packing);
        }
        let head = source.up_to(erf::HEADER)?;
        let format = match source.bytes(&head) {
            [0x0A, 0x0D, 0x0D, 0x0A, ..] => Format::Pcapng(Pcapng::default()),
            magic if Pcap::is_magic(magic) => Format::Pcap(Pcap::begin(&mut source)?),
            record if erf::is_likely(record) => Format::Erf,
            other => return Err(error::not_a_capture(&other[..other.len().min(4)])),
        };
        let mut reader = Self {
            source,
            format,
            packets: 0,
            made: Vec::new(),
        };
        if let Format::Pcapng(pcapng) = &mut reader.format {
            pcapng.begin(&mut reader.source)?;
        }
        Ok(reader)
    }

    /// Returns the next packet, or `None` at the end of the capture.
    ///
    /// # Errors
    /// Returns an error if the input fails, the capture ends within a record, or the capture is damaged. The reader
    /// cannot continue after an error.
    pub fn next_packet(&mut self) -> Result<Option<Captured<'_>>, CaptureError> {
        let found = match &mut self.format {
            Format::Pcap(pcap) => pcap.next(&mut self.source)?,
            Format::Pcapng(pcapng) => pcapng.next(&mut self.source)?,
            Format::Erf => erf::next(&mut self.source)?,
        };
        let Some(found) = found else { return Ok(None) };
        self.packets += 1;
        let bytes = self.source.bytes(&found.bytes);
        let frame = Begins::Layer(Layer::Frame(0));
        let (begins, bytes, is_whole) = match found.link_type {
            LINKTYPE_ETHERNET => (frame, bytes, found.is_whole),
            LINKTYPE_INFINIBAND => (Begins::InfiniBand, bytes, found.is_whole),
            LINKTYPE_ERF => erf::open(bytes),
            LINKTYPE_LINUX_SLL => (Begins::Layer(layers::cooked(bytes, 16, 14)), bytes, found.is_whole),
            LINKTYPE_LINUX_SLL2 => (Begins::Layer(layers::cooked(bytes, 20, 0)), bytes, found.is_whole),
            ip if LINKTYPES_IP.contains(&ip) => (Begins::Layer(layers::ip(bytes, 0)), bytes, found.is_whole),
            other => (Begins::Unread(Unread::LinkType(other)), bytes, found.is_whole),
        };
        let mut packet = Captured {
            number: self.packets,
            offset: found.offset,
            time: found.time,
            content: Content::Ethernet,
            bytes,
            tunnel: None,
            is_bare: false,
            is_whole,
            is_reconstructed: found.is_reconstructed,
        };
        match begins {
            Begins::Layer(Layer::Frame(0)) if layers::is_plain(bytes) => {}
            Begins::Layer(layer) => unwrap(&mut packet, layer, &mut self.made),
            Begins::InfiniBand => packet.content = Content::InfiniBand,
            Begins::Unread(what) => packet.content = Content::Unread(what),
        }
        Ok(Some(packet))
    }
}

/// Replaces the packet by the innermost packet that it contains.
fn unwrap<'a>(packet: &mut Captured<'a>, first: Layer, made: &'a mut Vec<u8>) {
    let inner = layers::innermost(packet.bytes, first);
    packet.tunnel = inner.tunnel;
    if let Some(tunnel) = inner.tunnel.filter(|_| inner.is_unread) {
        packet.content = Content::Unread(Unread::Within(tunnel));
        return;
    }
    match inner.layer {
        Layer::Frame(at) if inner.extensions.is_empty() => packet.bytes = packet.bytes.get(at..).unwrap_or_default(),
        layer => {
            packet.is_bare = matches!(layer, Layer::Bare { .. });
            layers::frame(packet.bytes, &inner, made);
            let made: &'a [u8] = made;
            let is_right = || Packet::parse(Medium::Ethernet, made).is_ok_and(|packet| packet.icrc_is_right());
            if packet.is_whole && !inner.extensions.is_empty() && !is_right() {
                packet.content = Content::Unread(Unread::Extensions);
            }
            packet.bytes = made;
        }
    }
}

#[cfg(test)]
mod tests;
