//! A pcapng writer: one section, any number of interfaces, packets with nanoseconds and comments.
//!
//! Little-endian on every machine, no clock, no identity of the host but what it is given: the same
//! input makes the same bytes. Source of the format: draft-ietf-opsawg-pcapng.

use std::io::{self, Write};

/// Which headers the packets of an interface begin with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkType {
    /// Ethernet, without its frame check sequence.
    Ethernet,
    /// Native InfiniBand, from the LRH to the VCRC.
    ///
    /// Each packet is written as an ERF record (link type 197, record type 21), as `ibdump` does: Wireshark
    /// reads that and refuses the link type of bare InfiniBand packets, 247 ("unknown or unsupported").
    InfiniBand,
    /// No packets: PDUs that a program exported, each with tags that say what it is. Source: Wireshark's `epan/exported_pdu.h`.
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

/// Which way a packet went, seen from the interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Received.
    In,
    /// Sent.
    Out,
}

/// What a reader is told about the whole capture. Empty texts are left out.
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

/// Interface `n` of a [`Writer`]; made by [`Writer::interface`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InterfaceId(usize);

/// A packet and what is known about it.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Where it was seen.
    pub interface: InterfaceId,
    /// Nanoseconds since the beginning of 1970, or of the rig's clock.
    pub nanoseconds: u64,
    /// Which way it went, if that is known.
    pub direction: Option<Direction>,
    /// Bytes that were captured.
    pub bytes: &'a [u8],
    /// Bytes that the packet had, at least as many as were captured.
    pub original_length: usize,
    /// Comments, each shown on its own.
    pub comments: &'a [String],
}

/// Writes a pcapng file of one section. Interfaces come before their packets, at any place of the file.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    interfaces: Vec<LinkType>,
    /// The block in the making: it goes out in one write.
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

/// Bytes that an option can hold.
const OPTION_ROOM: usize = u16::MAX as usize;

impl<W: Write> Writer<W> {
    /// Begins the file with its section header.
    ///
    /// # Errors
    /// When `out` refuses the bytes, or `InvalidInput` when a text other than a comment exceeds 65,535 bytes.
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

    /// Declares an interface, whose timestamps count nanoseconds.
    ///
    /// # Errors
    /// When `out` refuses the bytes, or `InvalidInput` when a text exceeds 65,535 bytes.
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
    /// When `out` refuses the bytes, or `InvalidInput` when the interface is another writer's, when more bytes
    /// were captured than the packet had, or when the packet exceeds 4 GiB (InfiniBand: 65,519 bytes).
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

    /// Flushes what was written.
    ///
    /// # Errors
    /// When `out` does.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// The sink, with everything written and nothing flushed.
    pub fn into_inner(self) -> W {
        self.out
    }

    fn begin(&mut self, block_type: u32) {
        self.block.clear();
        self.u32(block_type);
        self.u32(0); // the length, when it is known
    }

    /// Closes the options, fills in the length and sends the block.
    fn end(&mut self) -> io::Result<()> {
        self.u16(OPT_END);
        self.u16(0);
        let total = length(self.block.len() + 4)?;
        self.u32(total);
        self.block[4..8].copy_from_slice(&total.to_le_bytes());
        self.out.write_all(&self.block)
    }

    /// Each comment as one option, or as several when it is longer than an option can hold.
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

/// The ERF header of an InfiniBand packet: time as 32.32 bits little-endian, all else big-endian.
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

/// Pieces of at most [`OPTION_ROOM`] bytes, cut between characters; none of an empty text.
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
