//! Memory that a packet of the peer changes on the device. The range follows from the packet's RETH or AtomicETH, from
//! the RETH of its message, or from the receive that its SEND takes.

use std::ops::Range;

use verbatim_wire::packet::RKey;

use super::replay::{Replay, range_of};
use crate::parsed::{Parsed, Part, RequestKind};

impl Replay<'_, '_> {
    /// Returns the range that a request packet changes, if it is in this memory.
    pub(super) fn target(&self, offset: u32) -> Option<Range<usize>> {
        let request = self.requests.get(&offset)?;
        let of = &request.parsed;
        let length = match RequestKind::of(of.opcode) {
            RequestKind::Read => return None,
            RequestKind::Atomic => 8,
            // An ATOMIC WRITE changes 8 bytes, regardless of its length field. The effect of an undefined opcode is
            // unknown.
            RequestKind::Other => of.reth()?.dma_len().max(8) as usize,
            RequestKind::Send(_) | RequestKind::Write(_) => of.length as usize,
        };
        if let Some(atomic) = of.atomic() {
            let begin = self.place_of(atomic.va().0, atomic.r_key())?;
            return Some(begin..begin + length);
        }
        let (first, into) = self.begins(offset)?;
        let opens = &self.requests.get(&first)?.parsed;
        if let Some(reth) = opens.reth() {
            let begin = self.place_of(reth.va().0, reth.r_key())? + into;
            return Some(begin..begin + length);
        }
        let of_it = self.receive_of(first)?;
        let begin = of_it.start + into;
        Some(begin.min(of_it.end)..(begin + length).min(of_it.end))
    }

    /// Returns the whole receive of a SEND packet's message, if it is in this memory.
    pub(super) fn receive(&self, offset: u32) -> Option<Range<usize>> {
        let (first, _) = self.begins(offset)?;
        let opens = &self.requests.get(&first)?.parsed;
        matches!(RequestKind::of(opens.opcode), RequestKind::Send(_)).then(|| self.receive_of(first))?
    }

    /// Returns the receive of the message that begins with this PSN.
    fn receive_of(&self, first: u32) -> Option<Range<usize>> {
        let before = self.requests.range(..first);
        let taken = before.filter(|(_, request)| takes_receive(&request.parsed)).count();
        let receive = self.receives.get(taken).copied().flatten()?;
        (receive.memory == self.handle).then(|| range_of(receive))
    }

    /// Returns the first PSN of the message that the packet belongs to, and the number of the message's bytes
    /// before the packet.
    fn begins(&self, offset: u32) -> Option<(u32, usize)> {
        let is_send = matches!(
            RequestKind::of(self.requests.get(&offset)?.parsed.opcode),
            RequestKind::Send(_)
        );
        let (mut first, mut into) = (offset, 0);
        loop {
            let asks = RequestKind::of(self.requests.get(&first)?.parsed.opcode);
            if matches!(asks, RequestKind::Send(_)) != is_send {
                return None;
            }
            if matches!(asks.part(), Part::First | Part::Only) {
                return Some((first, into));
            }
            first = first.checked_sub(1)?;
            into += self.requests.get(&first)?.parsed.length as usize;
        }
    }

    /// Returns the offset of an address in the memory, if the R_Key is the memory's own.
    pub(super) fn place_of(&self, va: u64, r_key: RKey) -> Option<usize> {
        let offset = va.checked_sub(self.base).filter(|_| r_key == self.r_key)?;
        usize::try_from(offset).ok().filter(|at| *at < usize::MAX / 2)
    }
}

/// Returns whether the payload goes into memory.
pub(super) fn has_payload(parsed: &Parsed<'_>) -> bool {
    matches!(
        RequestKind::of(parsed.opcode),
        RequestKind::Send(_) | RequestKind::Write(_)
    )
}

/// Returns whether the packet carries its own address.
pub(super) fn has_place(parsed: &Parsed<'_>) -> bool {
    parsed.reth().is_some() || parsed.atomic().is_some()
}

/// Returns whether the packet completes a receive.
pub(super) fn takes_receive(parsed: &Parsed<'_>) -> bool {
    match RequestKind::of(parsed.opcode) {
        RequestKind::Send(part) => matches!(part, Part::Last | Part::Only),
        RequestKind::Write(_) => parsed.packet.imm().is_some(),
        _ => false,
    }
}
