//! Packet of a connection, parsed once for all rules.

use core::time::Duration;

use verbatim_record::Time;
use verbatim_wire::packet::{Opcode, Packet, Psn, Reth, Syndrome};
use verbatim_wire::{Aeth, AtomicEth, Bth};

/// Longest time that a packet may wait in the queue of the sender's port.
pub(super) const QUEUED: Duration = Duration::from_millis(5);

/// Packet with the time at which it was captured.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// Number of the packet in the capture or record.
    pub number: u64,
    /// Time at the capture point, if the capture has times.
    pub at: Option<Time>,
    /// The packet.
    pub packet: Packet<'a>,
    /// Whether the capture has only the headers, so that payload and checksums are unknown.
    pub is_cut: bool,
}

/// Packet with the fields that the rules need.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parsed<'a> {
    pub(super) number: u64,
    pub(super) at: Option<Time>,
    pub(super) packet: Packet<'a>,
    pub(super) bth: Bth,
    pub(super) opcode: Opcode,
    pub(super) psn: Psn,
    aeth: Option<Aeth>,
    reth: Option<Reth>,
    /// Payload bytes without padding.
    pub(super) length: u32,
    /// Whether payload and checksums are unknown.
    pub(super) is_cut: bool,
    /// Whether a conforming port accepts the packet: ICRC and TVer are right, and no header is missing.
    pub(super) is_taken: bool,
}

impl<'a> Parsed<'a> {
    pub(super) fn of(event: &Event<'a>) -> Self {
        let packet = event.packet;
        let bth = packet.bth();
        Self {
            number: event.number,
            at: event.at,
            bth,
            opcode: bth.opcode(),
            psn: bth.psn(),
            aeth: packet.aeth(),
            reth: packet.reth(),
            is_cut: event.is_cut,
            length: u32::try_from(packet.payload().len()).unwrap_or(u32::MAX),
            is_taken: bth.tver() == 0 && packet.icrc_is_right() && packet.missing_header().is_none(),
            packet,
        }
    }

    pub(super) fn reth(&self) -> Option<Reth> {
        self.reth
    }

    pub(super) fn atomic(&self) -> Option<AtomicEth> {
        self.packet.atomic()
    }

    pub(super) fn aeth(&self) -> Option<Aeth> {
        self.aeth
    }

    pub(super) fn syndrome(&self) -> Option<Syndrome> {
        self.aeth().map(|aeth| aeth.syndrome())
    }

    /// Returns the digests of the extended headers and of the payload. A retransmission must repeat both.
    pub(super) fn digests(&self) -> (u32, u32) {
        let offsets = self.packet.offsets();
        let after_bth = &self.packet.bytes()[offsets.bth + 12..offsets.padding];
        let (headers, payload) = after_bth.split_at(after_bth.len().saturating_sub(self.packet.payload().len()));
        (digest(headers), digest(payload))
    }
}

/// Returns a hash of the bytes. Four independent states speed up the pass over the payload.
fn digest(bytes: &[u8]) -> u32 {
    const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
    let mix = |state: u64, word: u64| (state.rotate_left(23) ^ word).wrapping_mul(ODD);
    let mut states = [bytes.len() as u64, 1, 2, 3];
    let (blocks, rest) = bytes.as_chunks::<32>();
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for (state, word) in states.iter_mut().zip(words) {
            *state = mix(*state, u64::from_le_bytes(*word));
        }
    }
    let [mut state, others @ ..] = states;
    let (words, rest) = rest.as_chunks::<8>();
    for word in words {
        state = mix(state, u64::from_le_bytes(*word));
    }
    for word in others.into_iter().chain(rest.iter().copied().map(u64::from)) {
        state = mix(state, word);
    }
    // Without this step, the highest bits of the last word would not reach the result.
    ((state ^ (state >> 32)).wrapping_mul(ODD) >> 32) as u32
}

/// Position of a packet in its message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// First of several packets.
    First,
    /// Packet between the first and the last packet.
    Middle,
    /// Last of several packets.
    Last,
    /// Only packet of its message.
    Only,
}

/// Kind of an RC request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RequestKind {
    Send(Part),
    Write(Part),
    Read,
    Atomic,
    /// FLUSH and ATOMIC WRITE, which no rule covers, and undefined opcodes.
    Other,
}

impl RequestKind {
    pub(super) fn of(opcode: Opcode) -> Self {
        use Part::{First, Last, Middle, Only};
        match opcode.0 {
            0x00 => Self::Send(First),
            0x01 => Self::Send(Middle),
            0x02 | 0x03 | 0x16 => Self::Send(Last),
            0x04 | 0x05 | 0x17 => Self::Send(Only),
            0x06 => Self::Write(First),
            0x07 => Self::Write(Middle),
            0x08 | 0x09 => Self::Write(Last),
            0x0A | 0x0B => Self::Write(Only),
            0x0C => Self::Read,
            0x13 | 0x14 => Self::Atomic,
            _ => Self::Other,
        }
    }

    /// Returns the position in the message; READs and atomics are whole messages.
    pub(super) fn part(self) -> Part {
        match self {
            Self::Send(part) | Self::Write(part) => part,
            Self::Read | Self::Atomic | Self::Other => Part::Only,
        }
    }

    /// Returns whether the response to the request carries data, as for a READ or atomic, and is not an ACK alone.
    pub(super) fn returns_data(self) -> bool {
        matches!(self, Self::Read | Self::Atomic)
    }

    /// Returns whether a message ends with the packet.
    pub(super) fn ends(self) -> bool {
        matches!(self.part(), Part::Last | Part::Only)
    }
}

#[cfg(test)]
mod tests {
    use super::digest;

    #[test]
    fn any_flipped_bit_changes_the_digest() {
        for length in 1..100 {
            let bytes = vec![0xA5; length];
            for bit in 0..8 * length {
                let mut altered = bytes.clone();
                altered[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(digest(&altered), digest(&bytes), "bit {bit} of {length} bytes");
            }
        }
    }
}
