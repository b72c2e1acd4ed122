//! Reads captures of others: pcap, pcapng and ERF, one packet at a time, from a file or a pipe, plain or compressed by
//! gzip or zstd.
//!
//! Never more than one packet is held, so memory does not grow with the file. Both byte orders, microseconds and
//! nanoseconds, several sections and interfaces; blocks without packets are passed over. Any bytes are allowed: what is
//! no capture, or is damaged, is an error that says where, what was expected and what was seen.
//!
//! A packet in a tunnel is taken out of it, and one without an Ethernet header gets one, so that a reader meets frames
//! and packets of InfiniBand alone.
//!
//! Source of the formats: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng; ERF: the record format of Endace, in which
//! captures of native InfiniBand come; RFC 1952 (gzip), RFC 8878 (zstd).

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

/// Bytes that a packet, or a block that is read whole, may have: far beyond any frame. A length field that says more is
/// damaged.
const MOST: usize = 16 << 20;

const LINKTYPE_ETHERNET: u16 = 1;
/// Raw IP, by its three numbers: `DLT_RAW` of two systems, and the registered one; IPv4 alone, IPv6 alone.
const LINKTYPES_IP: [u16; 5] = [12, 14, 101, 228, 229];
/// Linux cooked captures, as `tcpdump -i any` makes them, of both versions.
const LINKTYPE_LINUX_SLL: u16 = 113;
const LINKTYPE_LINUX_SLL2: u16 = 276;
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
    /// A tunnel around something that is neither Ethernet nor IP, or is encrypted.
    Within(Tunnel),
    /// RoCEv2 behind IPv6 extension headers whose ICRC is not that of the packet without them. Annex A17 knows no such
    /// headers, so which of their bytes an ICRC covers is not known.
    Extensions,
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LinkType(LINKTYPE_EXPORTED) => f.write_str("an exported PDU, such as what a host was told"),
            Self::LinkType(number) => write!(f, "link type {number}"),
            Self::ErfType(number) => write!(f, "ERF record of type {number}"),
            Self::ErfShort => f.write_str("ERF record without its headers"),
            Self::Within(tunnel) => write!(f, "{tunnel} around something else than Ethernet or IP"),
            Self::Extensions => {
                f.write_str("RoCEv2 behind IPv6 extension headers, whose ICRC is not that of the packet without them")
            }
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
    /// The bytes, without what the capture or a tunnel put before them. IPv6 extension headers before RoCEv2 are left
    /// out.
    pub bytes: &'a [u8],
    /// The encapsulation that was removed; `bytes` are the inner packet.
    pub tunnel: Option<Tunnel>,
    /// Whether it has no Ethernet header of its own: one without addresses was put before it.
    pub is_bare: bool,
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
    /// A packet that is not as the capture has it.
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
    /// When it cannot be read, or is no capture.
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

    /// The next packet; `None` at the end of the capture.
    ///
    /// # Errors
    /// When the capture cannot be read, ends within a record, or is damaged. After an error there is no way on.
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

/// Takes the innermost packet out of what carries it.
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
