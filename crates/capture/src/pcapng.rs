//! A pcapng writer: one section, any number of interfaces, nanosecond timestamps and comments.
//!
//! The output depends on the input alone: always little-endian, without the current time or the host's identity. Equal
//! input gives equal bytes. Source of the format: draft-ietf-opsawg-pcapng.

use std::io::{self, Write};

/// The link type of an interface, which names the first header of its packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkType {
    /// Ethernet, without its frame check sequence.
    Ethernet,
    /// Native InfiniBand, from the LRH to the VCRC.
    ///
    /// Each packet is written as an ERF record (link type 197, record type 21), as `ibdump` does. Wireshark reads
    /// ERF records, but rejects the link type of bare InfiniBand packets, 247 ("unknown or unsupported").
    InfiniBand,
    /// Exported PDUs instead of packets. The tags of a PDU name its dissector. Source: Wireshark's
    /// `epan/exported_pdu.h`.
    Exported,
}

impl LinkType {
    fn code(self) -> u16 {
        match self {
            Self::Ethernet => 1,
            Self::InfiniBand => 197,
            Self::Exported => 252,
        }
    }
}

/// The direction of a packet, seen from the interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Received.
    In,
    /// Sent.
    Out,
}

/// The properties of the whole capture. The writer omits empty texts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Section<'a> {
    /// The hardware that took the capture.
    pub hardware: &'a str,
    /// The operating system that took the capture.
    pub os: &'a str,
    /// The program that wrote the file, with its version.
    pub application: &'a str,
    /// Comments on the capture as a whole.
    pub comments: &'a [String],
}

/// Interface `n` of a [`Writer`], returned by [`Writer::interface`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InterfaceId(usize);

/// One packet with its time, direction and comments.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The interface that saw the packet.
    pub interface: InterfaceId,
    /// Nanoseconds since the beginning of 1970, or since the start of the rig's clock.
    pub nanoseconds: u64,
    /// The direction of the packet, if it is known.
    pub direction: Option<Direction>,
    /// The captured bytes.
    pub bytes: &'a [u8],
    /// The length of the original packet in bytes, at least the number of captured bytes.
    pub original_length: usize,
    /// Comments. Each comment is written in its own option.
    pub comments: &'a [String],
}

/// A writer of a pcapng file with one section. The caller declares an interface before its first packet.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    interfaces: Vec<LinkType>,
    /// The current block, written to `out` in one call when it is complete.
    block: Vec<u8>,
}

const SECTION_HEADER: u32 = 0x0A0D_0D0A;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

const BYTE_ORDER_MAGIC: u32 = 0x1A2B_3C4D;
const LENGTH_UNKNOWN: u64 = u64::MAX;

const OPT_END: u16 = 0;
const OPT_COMMENT: u16 = 1;
const SHB_HARDWARE: u16 = 2;
const SHB_OS: u16 = 3;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_DESCRIPTION: u16 = 3;
const IF_TSRESOL: u16 = 9;
const EPB_FLAGS: u16 = 2;

/// The longest option value, in bytes.
const OPTION_ROOM: usize = u16::MAX as usize;

impl<W: Write> Writer<W> {
    /// Begins the file with its section header.
    ///
    /// # Errors
    /// Returns an error of `out`, or `InvalidInput` when a text other than a comment exceeds 65,535 bytes.
    pub fn new(out: W, section: &Section<'_>) -> io::Result<Self> {
        let mut writer = Self {
            out,
            interfaces: Vec::new(),
            block: Vec::new(),
        };
        writer.begin(SECTION_HEADER);
        writer.u32(BYTE_ORDER_MAGIC);
        writer.u16(1); // version 1.0
        writer.u16(0);
        writer.block.extend(LENGTH_UNKNOWN.to_le_bytes());
        writer.comments(section.comments);
        writer.text(SHB_HARDWARE, section.hardware)?;
        writer.text(SHB_OS, section.os)?;
        writer.text(SHB_USERAPPL, section.application)?;
        writer.end()?;
        Ok(writer)
    }

    /// Declares an interface with nanosecond timestamps.
    ///
    /// # Errors
    /// Returns an error of `out`, or `InvalidInput` when a text exceeds 65,535 bytes.
    pub fn interface(&mut self, link_type: LinkType, name: &str, description: &str) -> io::Result<InterfaceId> {
        self.begin(INTERFACE_DESCRIPTION);
        self.u16(link_type.code());
        self.u16(0);
        self.u32(0); // no limit to the captured length
        self.text(IF_NAME, name)?;
        self.text(IF_DESCRIPTION, description)?;
        self.option(IF_TSRESOL, &[9])?; // 10^-9 s
        self.end()?;
        self.interfaces.push(link_type);
        Ok(InterfaceId(self.interfaces.len() - 1))
    }

    /// Writes a packet.
    ///
    /// # Errors
    /// Returns an error of `out`. Returns `InvalidInput` when the interface belongs to another writer, or when
    /// `original_length` is less than the number of captured bytes. Returns `InvalidInput` also when the packet
    /// exceeds 4 GiB (InfiniBand: 65,519 bytes).
    pub fn packet(&mut self, packet: &Packet<'_>) -> io::Result<()> {
        let Some(&link_type) = self.interfaces.get(packet.interface.0) else {
            return Err(invalid(format!(
                "interface {} was not declared in this file, which has {}",
                packet.interface.0,
                self.interfaces.len()
            )));
        };
        if packet.original_length < packet.bytes.len() {
            return Err(invalid(format!(
                "{} bytes captured of a packet of {}",
                packet.bytes.len(),
                packet.original_length
            )));
        }
        let erf = match link_type {
            LinkType::Ethernet | LinkType::Exported => None,
            LinkType::InfiniBand => Some(erf_header(packet)?),
        };
        let header = erf.as_ref().map_or(&[][..], |header| header);
        self.begin(ENHANCED_PACKET);
        self.u32(length(packet.interface.0)?);
        #[allow(clippy::cast_possible_truncation)] // the two halves
        {
            self.u32((packet.nanoseconds >> 32) as u32);
            self.u32(packet.nanoseconds as u32);
        }
        self.u32(length(header.len() + packet.bytes.len())?);
        self.u32(length(header.len() + packet.original_length)?);
        self.block.extend(header);
        self.block.extend(packet.bytes);
        self.pad();
        self.comments(packet.comments);
        let flags: u32 = match packet.direction {
            None => 0,
            Some(Direction::In) => 1,
            Some(Direction::Out) => 2,
        };
        if flags != 0 {
            self.option(EPB_FLAGS, &flags.to_le_bytes())?;
        }
        self.end()
    }

    /// Flushes `out`.
    ///
    /// # Errors
    /// Returns an error of `out`.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Returns the sink. The sink is not flushed: call [`Writer::flush`] first.
    pub fn into_inner(self) -> W {
        self.out
    }

    fn begin(&mut self, block_type: u32) {
        self.block.clear();
        self.u32(block_type);
        self.u32(0); // placeholder of the length; `end` sets it
    }

    /// Ends the options, sets the length and writes the block.
    fn end(&mut self) -> io::Result<()> {
        self.u16(OPT_END);
        self.u16(0);
        let total = length(self.block.len() + 4)?;
        self.u32(total);
        self.block[4..8].copy_from_slice(&total.to_le_bytes());
        self.out.write_all(&self.block)
    }

    /// Writes each comment as one option, or as several options if the comment exceeds [`OPTION_ROOM`].
    fn comments(&mut self, comments: &[String]) {
        for comment in comments {
            for part in parts(comment) {
                self.option_of_checked_length(OPT_COMMENT, part.as_bytes());
            }
        }
    }

    fn text(&mut self, code: u16, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.option(code, text.as_bytes())
    }

    fn option(&mut self, code: u16, value: &[u8]) -> io::Result<()> {
        if value.len() > OPTION_ROOM {
            return Err(invalid(format!(
                "{} bytes in option {code}, which holds {OPTION_ROOM}",
                value.len()
            )));
        }
        self.option_of_checked_length(code, value);
        Ok(())
    }

    #[allow(clippy::cast_possible_truncation)] // OPTION_ROOM at most
    fn option_of_checked_length(&mut self, code: u16, value: &[u8]) {
        self.u16(code);
        self.u16(value.len() as u16);
        self.block.extend(value);
        self.pad();
    }

    fn u16(&mut self, value: u16) {
        self.block.extend(value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.block.extend(value.to_le_bytes());
    }

    fn pad(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }
}

const ERF_HEADER_LENGTH: usize = 16;
const ERF_TYPE_INFINIBAND: u8 = 21;
const ERF_VARYING_LENGTH: u8 = 0x04;

/// Returns the ERF header of an InfiniBand packet: the time is 32.32 bits little-endian, all other fields big-endian.
fn erf_header(packet: &Packet<'_>) -> io::Result<[u8; ERF_HEADER_LENGTH]> {
    let short = |bytes: usize| u16::try_from(bytes).map_err(|_| invalid(format!("{bytes} bytes in one ERF record")));
    let seconds = packet.nanoseconds / 1_000_000_000;
    let fraction = ((packet.nanoseconds % 1_000_000_000) << 32) / 1_000_000_000;
    let mut header = [0; ERF_HEADER_LENGTH];
    header[..8].copy_from_slice(&((seconds << 32) | fraction).to_le_bytes());
    header[8] = ERF_TYPE_INFINIBAND;
    header[9] = ERF_VARYING_LENGTH;
    let record = short(ERF_HEADER_LENGTH + packet.bytes.len())?;
    header[10..12].copy_from_slice(&record.to_be_bytes());
    header[14..].copy_from_slice(&short(packet.original_length)?.to_be_bytes());
    Ok(header)
}

/// Splits a text between characters into pieces of at most [`OPTION_ROOM`] bytes. An empty text has no pieces.
fn parts(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let cut = (0..=text.len().min(OPTION_ROOM))
            .rev()
            .find(|&at| text.is_char_boundary(at))?;
        let (part, rest) = text.split_at(cut);
        text = rest;
        (!part.is_empty()).then_some(part)
    })
}

fn length(bytes: usize) -> io::Result<u32> {
    u32::try_from(bytes).map_err(|_| invalid(format!("{bytes} bytes in one pcapng block")))
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

#[cfg(test)]
mod tests;
