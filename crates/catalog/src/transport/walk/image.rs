//! What messages of the peer do to the DUT, executed once and in order: its memory, and its receives.

use std::collections::VecDeque;

use verbatim_tester::peer::ChannelOptions;
use verbatim_wire::packet::{Opcode, Packet};

use crate::transport::rc::effect::{self, Received};

/// A picture of the DUT's memory and receives.
#[derive(Clone, Debug)]
pub(super) struct Image {
    /// The memory, from its beginning on.
    pub(super) bytes: Vec<u8>,
    /// The receives that ought to have completed.
    pub(super) completed: Vec<Received>,
    /// Number and place of the receives that are posted.
    receives: VecDeque<(u64, u32)>,
    base: u64,
    /// Where the next packet's payload goes.
    at: usize,
    /// Bytes of the message so far.
    length: u32,
}

impl Image {
    /// What the host wrote, and behind it what was registered: zeros.
    pub(super) fn new(mut bytes: Vec<u8>, base: u64) -> Self {
        bytes.resize(bytes.len().max(ChannelOptions::MEMORY as usize), 0);
        Self {
            bytes,
            base,
            completed: Vec::new(),
            receives: VecDeque::new(),
            at: 0,
            length: 0,
        }
    }

    /// A receive was posted.
    pub(super) fn post(&mut self, wr_id: u64, place: u32) {
        self.receives.push_back((wr_id, place));
    }

    /// Where the receives lie that were posted and that no message has taken.
    pub(super) fn open_receives(&self) -> impl Iterator<Item = usize> + '_ {
        self.receives.iter().map(|(_, place)| *place as usize)
    }

    /// The number at a place, as the host has it.
    pub(super) fn word(&self, at: usize) -> u64 {
        let bytes = self.bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        u64::from_le_bytes(bytes.unwrap_or_default())
    }

    /// The place of an address.
    pub(super) fn place(&self, va: u64) -> usize {
        usize::try_from(va.wrapping_sub(self.base)).unwrap_or(usize::MAX / 2)
    }

    /// A packet of a message is executed.
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
        let is_send = matches!(opcode.0, 0x00..=0x05);
        let begins = matches!(opcode.0, 0x00 | 0x04..=0x06 | 0x0A | 0x0B);
        if begins {
            self.length = 0;
        }
        match packet.reth() {
            Some(reth) => self.at = self.place(reth.va().0),
            None if begins => self.at = self.receives.front().map_or(usize::MAX / 2, |of| of.1 as usize),
            None => {}
        }
        if opcode == Opcode::RC_READ_REQUEST {
            return;
        }
        self.put(self.at, packet.payload());
        self.at += packet.payload().len();
        self.length += packet.payload().len() as u32;
        let imm = packet.imm().map(|imm| imm.data().0);
        let ends_send = is_send && matches!(opcode.0, 0x02..=0x05);
        if ends_send || imm.is_some() {
            let (wr_id, _) = self.receives.pop_front().unwrap_or_default();
            self.completed.push(Received {
                wr_id,
                byte_len: self.length,
                imm,
            });
        }
    }

    /// Puts bytes where they belong.
    pub(super) fn put(&mut self, at: usize, bytes: &[u8]) {
        effect::put(&mut self.bytes, u32::try_from(at).unwrap_or(u32::MAX), bytes);
    }
}
