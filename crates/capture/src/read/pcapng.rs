//! pcapng: sections in either byte order, interfaces and packets. Each block begins and ends with its length.

use std::io::Read;

use super::error::damaged;
use super::source::{Order, Source};
use super::time::Clock;
use super::{CaptureError, Found, MOST};
use crate::RECONSTRUCTED;

const SECTION_HEADER: u32 = 0x0A0D_0D0A;
const INTERFACE_DESCRIPTION: u32 = 1;
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1A2B_3C4D;

const OPT_END: u16 = 0;
const IF_DESCRIPTION: u16 = 3;
const IF_TSRESOL: u16 = 9;
const IF_TSOFFSET: u16 = 14;

/// Length of a block's type and length fields before its body, in bytes. `TAIL` is the length of the second length
/// field, after the body.
const HEAD: usize = 8;
const TAIL: usize = 4;

/// The most interfaces of a section; real machines have far fewer. This limit bounds the reader's memory.
const MOST_INTERFACES: usize = 1 << 16;

/// The state of the current section.
#[derive(Debug)]
pub(super) struct Pcapng {
    order: Order,
    interfaces: Vec<Interface>,
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link_type: u16,
    /// The most bytes captured of a packet, or 0 without a limit.
    snap_length: u32,
    clock: Clock,
    /// Whether the interface's description marks headers as reconstructed.
    is_reconstructed: bool,
}

impl Default for Pcapng {
    fn default() -> Self {
        Self {
            order: Order::Little,
            interfaces: Vec::new(),
        }
    }
}

/// The type, place and length of a block.
#[derive(Clone, Copy)]
struct Block {
    kind: u32,
    offset: u64,
    /// The length of the whole block, in bytes.
    length: u32,
}

impl Pcapng {
    /// Reads the first section header.
    pub(super) fn begin<R: Read>(&mut self, source: &mut Source<R>) -> Result<(), CaptureError> {
        let block = self.head(source)?;
        self.section(source, block)
    }

    pub(super) fn next<R: Read>(&mut self, source: &mut Source<R>) -> Result<Option<Found>, CaptureError> {
        while !source.is_at_end()? {
            let block = self.head(source)?;
            let found = match block.kind {
                SECTION_HEADER => {
                    self.section(source, block)?;
                    None
                }
                INTERFACE_DESCRIPTION => {
                    self.interface(source, block)?;
                    None
                }
                ENHANCED_PACKET => Some(self.enhanced(source, block)?),
                PACKET => Some(self.old(source, block)?),
                SIMPLE_PACKET => Some(self.simple(source, block)?),
                _ => {
                    self.pass_over(source, block)?;
                    None
                }
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Reads the type and the length of the next block. For a section header, also sets the byte order.
    fn head<R: Read>(&mut self, source: &mut Source<R>) -> Result<Block, CaptureError> {
        const WHAT: &str = "the head of a block";
        let offset = source.offset();
        let head = source.next(HEAD, WHAT)?;
        // The section header's type reads the same in both byte orders.
        if source.bytes(&head)[..4] == SECTION_HEADER.to_be_bytes() {
            let head = source.next(HEAD + 4, WHAT)?;
            let magic = &source.bytes(&head)[HEAD..];
            self.order = [Order::Little, Order::Big]
                .into_iter()
                .find(|order| order.u32(magic, 0) == BYTE_ORDER_MAGIC)
                .ok_or_else(|| {
                    let seen: String = magic.iter().map(|byte| format!("{byte:02x}")).collect();
                    damaged(offset + 8, "4d3c2b1a or 1a2b3c4d, the byte order of a section", seen)
                })?;
        }
        let head = source.next(HEAD, WHAT)?;
        let head = source.bytes(&head);
        let block = Block {
            kind: self.order.u32(head, 0),
            offset,
            length: self.order.u32(head, 4),
        };
        if !block.length.is_multiple_of(4) || (block.length as usize) < HEAD + TAIL {
            let expected = "the length of a block, a multiple of 4 and at least 12";
            return Err(damaged(offset + 4, expected, block.length));
        }
        Ok(block)
    }

    /// Consumes a block and returns the buffer range of its body.
    fn body<R: Read>(
        &self,
        source: &mut Source<R>,
        block: Block,
        (what, least): (&'static str, usize),
    ) -> Result<core::ops::Range<usize>, CaptureError> {
        let length = block.length as usize;
        if length < HEAD + least + TAIL || length > MOST {
            let expected = format!("the length of {what}, {} to {MOST}", HEAD + least + TAIL);
            return Err(damaged(block.offset + 4, expected, length));
        }
        let whole = source.next(length, what)?;
        let tail = self.order.u32(source.bytes(&whole), length - TAIL);
        self.check_tail(block, tail)?;
        source.consume(length);
        Ok(whole.start + HEAD..whole.end - TAIL)
    }

    fn check_tail(&self, block: Block, tail: u32) -> Result<(), CaptureError> {
        if tail == block.length {
            return Ok(());
        }
        let at = block.offset + u64::from(block.length) - TAIL as u64;
        Err(damaged(
            at,
            format!("{}, the length of the block that ends here", block.length),
            tail,
        ))
    }

    fn pass_over<R: Read>(&self, source: &mut Source<R>, block: Block) -> Result<(), CaptureError> {
        const WHAT: &str = "a block";
        let rest = u64::from(block.length) - TAIL as u64;
        source.skip(rest, (WHAT, block.offset))?;
        let tail = source.next(TAIL, "the end of a block")?;
        let tail = self.order.u32(source.bytes(&tail), 0);
        source.consume(TAIL);
        self.check_tail(block, tail)
    }

    fn section<R: Read>(&mut self, source: &mut Source<R>, block: Block) -> Result<(), CaptureError> {
        let body = self.body(source, block, ("a section header", 16))?;
        let major = self.order.u16(source.bytes(&body), 4);
        if major != 1 {
            return Err(damaged(block.offset + 12, "version 1 of the pcapng format", major));
        }
        self.interfaces.clear();
        Ok(())
    }

    fn interface<R: Read>(&mut self, source: &mut Source<R>, block: Block) -> Result<(), CaptureError> {
        let body = self.body(source, block, ("an interface description", 8))?;
        if self.interfaces.len() == MOST_INTERFACES {
            let expected = format!("at most {MOST_INTERFACES} interfaces in a section");
            return Err(damaged(block.offset, expected, "one more"));
        }
        let body = source.bytes(&body);
        let mut interface = Interface {
            link_type: self.order.u16(body, 0),
            snap_length: self.order.u32(body, 4),
            clock: Clock::default(),
            is_reconstructed: false,
        };
        let mut rest = &body[8..];
        let mut at = block.offset + 16;
        while rest.len() >= 4 {
            let (code, length) = (self.order.u16(rest, 0), usize::from(self.order.u16(rest, 2)));
            if code == OPT_END {
                break;
            }
            let Some(value) = rest.get(4..4 + length) else {
                let expected = format!("an option of at most {} bytes", rest.len() - 4);
                return Err(damaged(at + 2, expected, length));
            };
            match (code, length) {
                (IF_DESCRIPTION, _) => interface.is_reconstructed = value == RECONSTRUCTED.as_bytes(),
                (IF_TSRESOL, 1) => interface.clock.resolution = value[0],
                (IF_TSOFFSET, 8) => interface.clock.offset = self.order.u64(value, 0).cast_signed(),
                _ => {}
            }
            let whole = 4 + length.next_multiple_of(4);
            at += whole as u64;
            rest = rest.get(whole..).unwrap_or_default();
        }
        self.interfaces.push(interface);
        Ok(())
    }

    fn interface_of(&self, number: u32, at: u64) -> Result<Interface, CaptureError> {
        let known = usize::try_from(number)
            .ok()
            .and_then(|number| self.interfaces.get(number));
        known.copied().ok_or_else(|| {
            let expected = match self.interfaces.len() {
                0 => "an interface description before the first packet".into(),
                count => format!("an interface of the section's {count}, counted from 0"),
            };
            damaged(at, expected, format!("interface {number}"))
        })
    }

    fn enhanced<R: Read>(&self, source: &mut Source<R>, block: Block) -> Result<Found, CaptureError> {
        let body = self.body(source, block, ("an enhanced packet block", 20))?;
        let fixed = source.bytes(&body);
        let number = self.order.u32(fixed, 0);
        let lengths = (self.order.u32(fixed, 12), self.order.u32(fixed, 16));
        let units = u64::from(self.order.u32(fixed, 4)) << 32 | u64::from(self.order.u32(fixed, 8));
        self.found(block, body, (number, units, lengths))
    }

    /// Reads the obsolete packet block: its interface number has 16 bits, followed by a 16-bit count of lost packets.
    fn old<R: Read>(&self, source: &mut Source<R>, block: Block) -> Result<Found, CaptureError> {
        let body = self.body(source, block, ("a packet block", 20))?;
        let fixed = source.bytes(&body);
        let number = u32::from(self.order.u16(fixed, 0));
        let lengths = (self.order.u32(fixed, 12), self.order.u32(fixed, 16));
        let units = u64::from(self.order.u32(fixed, 4)) << 32 | u64::from(self.order.u32(fixed, 8));
        self.found(block, body, (number, units, lengths))
    }

    fn found(
        &self,
        block: Block,
        body: core::ops::Range<usize>,
        (number, units, (captured, original)): (u32, u64, (u32, u32)),
    ) -> Result<Found, CaptureError> {
        const FIXED: usize = 20;
        let interface = self.interface_of(number, block.offset + HEAD as u64)?;
        let room = body.len() - FIXED;
        if captured as usize > room {
            let expected = format!("at most {room} bytes captured, as many as the block holds");
            return Err(damaged(block.offset + HEAD as u64 + 12, expected, captured));
        }
        let first = body.start + FIXED;
        Ok(Found {
            offset: block.offset,
            time: Some(interface.clock.time(units)),
            link_type: interface.link_type,
            bytes: first..first + captured as usize,
            is_whole: captured >= original,
            is_reconstructed: interface.is_reconstructed,
        })
    }

    /// Reads a packet of interface 0 without a timestamp. The captured length follows from the block's length and the
    /// interface's limit.
    fn simple<R: Read>(&self, source: &mut Source<R>, block: Block) -> Result<Found, CaptureError> {
        const FIXED: usize = 4;
        let body = self.body(source, block, ("a simple packet block", FIXED))?;
        let original = self.order.u32(source.bytes(&body), 0);
        let interface = self.interface_of(0, block.offset)?;
        let room = body.len() - FIXED;
        let mut captured = usize::try_from(original).unwrap_or(usize::MAX).min(room);
        if interface.snap_length != 0 {
            captured = captured.min(interface.snap_length as usize);
        }
        let first = body.start + FIXED;
        Ok(Found {
            offset: block.offset,
            time: None,
            link_type: interface.link_type,
            bytes: first..first + captured,
            is_whole: captured as u64 >= u64::from(original),
            is_reconstructed: interface.is_reconstructed,
        })
    }
}
