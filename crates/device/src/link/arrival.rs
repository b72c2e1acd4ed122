//! A received packet, and its outcome.

use core::ops::Range;

use verbatim_wire::crc::{VCRC_LENGTH, vcrc};
use verbatim_wire::{Delimiter, Layout, Lrh};

/// A packet from the wire, well-formed or not.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// All bytes between the start and the end delimiter, from the LRH to the VCRC.
    pub bytes: &'a [u8],
    /// The end delimiter.
    pub delimiter: Delimiter,
}

/// The outcome of the checks for a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The port accepts the packet. The range covers the bytes for the transport layer, from the end of the LRH to the
    /// start of the ICRC. In a raw packet, the range ends at the start of the VCRC.
    Accepted(Range<usize>),
    /// The port discards the packet.
    Discarded,
    /// The switch or router forwards the packet and marks it as bad: see [`relayed`].
    ForwardedCorrupt,
    /// The switch or router forwards the packet.
    Forwarded,
}

impl<'a> Arrival<'a> {
    /// Creates an arrival that ends with EGP.
    #[must_use]
    pub fn good(bytes: &'a [u8]) -> Self {
        let delimiter = Delimiter::Egp;
        Self { bytes, delimiter }
    }
}

/// Returns the bytes and the delimiter with which a packet leaves a switch on the same VL, or `None` if the packet does
/// not leave.
///
/// A corrupted packet ends with the complement of its right VCRC and with EBP (architecture 7.3). The next port then
/// counts no error of its own link.
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

/// Returns the range of bytes for the transport layer: without the LRH and without the last `trailer` bytes. The range
/// is empty if the packet is too short.
pub(super) fn handed_up(bytes: &[u8], trailer: usize) -> Range<usize> {
    let start = Lrh::SIZE.min(bytes.len());
    start..bytes.len().saturating_sub(trailer).max(start)
}
