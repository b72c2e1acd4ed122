//! Image of the DUT's memory after the peer's WRITEs and atomics, executed once and in order. Walks take the compare
//! operands of CmpSwaps from this image.

use verbatim_tester::peer::ChannelOptions;
use verbatim_wire::packet::{Opcode, Packet};

use crate::transport::rc::effect;

/// An image of the DUT's memory.
#[derive(Clone, Debug)]
pub(super) struct Image {
    bytes: Vec<u8>,
    base: u64,
    /// Offset of the next packet's payload.
    at: usize,
}

impl Image {
    /// Makes an image of the bytes that the host wrote, followed by zeros.
    pub(super) fn new(mut bytes: Vec<u8>, base: u64) -> Self {
        bytes.resize(bytes.len().max(ChannelOptions::MEMORY as usize), 0);
        Self { bytes, base, at: 0 }
    }

    /// Returns the number at an offset, as the host reads it.
    pub(super) fn word(&self, at: usize) -> u64 {
        let bytes = self.bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        u64::from_le_bytes(bytes.unwrap_or_default())
    }

    /// Returns the offset of an address.
    pub(super) fn place(&self, va: u64) -> usize {
        usize::try_from(va.wrapping_sub(self.base)).unwrap_or(usize::MAX / 2)
    }

    /// Applies a packet of a message.
    pub(super) fn take(&mut self, packet: &Packet<'_>) {
        let opcode = packet.opcode();
        if let Some(atomic) = packet.atomic() {
            let at = self.place(atomic.va().0);
            let original = self.word(at);
            let after = match opcode {
                Opcode::RC_FETCH_ADD => original.wrapping_add(atomic.swap_add().0),
                _ if original == atomic.compare().0 => atomic.swap_add().0,
                _ => original,
            };
            return self.put(at, &after.to_le_bytes());
        }
        match packet.reth() {
            Some(reth) => self.at = self.place(reth.va().0),
            // The image does not track the buffers of receives.
            None if matches!(opcode.0, 0x00 | 0x04 | 0x05) => self.at = usize::MAX / 2,
            None => {}
        }
        if opcode == Opcode::RC_READ_REQUEST {
            return;
        }
        self.put(self.at, packet.payload());
        self.at += packet.payload().len();
    }

    /// Copies bytes into the image at an offset.
    pub(super) fn put(&mut self, at: usize, bytes: &[u8]) {
        effect::put(&mut self.bytes, u32::try_from(at).unwrap_or(u32::MAX), bytes);
    }
}
