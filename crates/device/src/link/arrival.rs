//! A packet as it arrives, and what becomes of it.

use core::ops::Range;

use verbatim_wire::crc::{VCRC_LENGTH, vcrc};
use verbatim_wire::{Delimiter, Layout, Lrh};

/// A packet from the wire, good or bad.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// All bytes between the start and the end delimiter: from the LRH to the VCRC.
    pub bytes: &'a [u8],
    /// The end delimiter.
    pub delimiter: Delimiter,
}

/// What becomes of a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It ends here. The range within its bytes goes up: from behind the LRH to the ICRC, of raw packets to the VCRC.
    Accepted(Range<usize>),
    /// It is gone.
    Discarded,
    /// It passes through, marked as bad: see [`relayed`].
    ForwardedCorrupt,
    /// It passes through.
    Forwarded,
}

impl<'a> Arrival<'a> {
    /// A packet that ended as a good one.
    #[must_use]
    pub fn good(bytes: &'a [u8]) -> Self {
        let delimiter = Delimiter::Egp;
        Self { bytes, delimiter }
    }
}

/// The bytes and the delimiter with which a packet leaves a switch, on the same VL; `None` when it does not.
///
/// A corrupted one ends in the complement of its right VCRC and in EBP (architecture 7.3), so that the next port counts
/// no error of its own link.
#[must_use]
pub fn relayed(arrival: &Arrival<'_>, outcome: &Outcome) -> Option<(Vec<u8>, Delimiter)> {
    let mut bytes = arrival.bytes.to_vec();
    match outcome {
        Outcome::Accepted(_) | Outcome::Discarded => None,
        Outcome::Forwarded => Some((bytes, Delimiter::Egp)),
        Outcome::ForwardedCorrupt => {
            bytes.truncate(bytes.len().saturating_sub(VCRC_LENGTH));
            let wrong = vcrc(&bytes).map(|byte| !byte);
            bytes.extend(wrong);
            Some((bytes, Delimiter::Ebp))
        }
    }
}

/// What goes up: all but the LRH, `trailer` bytes at the end left out. Empty where bytes are missing.
pub(super) fn handed_up(bytes: &[u8], trailer: usize) -> Range<usize> {
    let start = Lrh::SIZE.min(bytes.len());
    start..bytes.len().saturating_sub(trailer).max(start)
}
