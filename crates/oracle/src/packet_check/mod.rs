//! Implements the data packet check of the link layer. The check states whether a conforming port accepts or discards a
//! packet, which failure ranks first, and which counter counts the packet.
//!
//! The check is a pure function of the port and of the bytes that arrived. It reads headers at their offsets and
//! accepts any bytes, including malformed packets. It does not allocate.
//!
//! A RoCE packet has no local route header and no virtual lanes. The same function checks its remaining parts:
//! lengths, the IPv4 checksum or the GRH, the ICRC, TVer and the P_Key.
//!
//! Source: architecture 7.4 (data packet check), 7.8 (CRCs), 9.6.1 (packet header validation), 13.5.3 (packets that an
//! SMI accepts), 16.1.3.5 (counters); annexes A16 and A17 (RoCE). [`Certainty`] states the sources of the ranking.

mod check;
mod explain;
mod judgement;
mod native;
mod port;
mod roce;

pub use check::{Certainty, Check, Checks, Counter};
pub use explain::{Explanation, explain};
pub use judgement::{Absent, Action, Failed, Judgement, UNSETTLED_SHORT, UNSETTLED_VL15_GRH};
pub use port::{Kind, Port, Received};

pub use verbatim_wire::Delimiter;
use verbatim_wire::Medium;

/// Judges a packet at a port.
#[must_use]
pub fn check(port: &Port, packet: &Received<'_>) -> Judgement {
    if !packet.is_whole {
        return Judgement::not_judged("the capture holds only part of the packet");
    }
    match packet.medium {
        Medium::InfiniBand | Medium::InfiniBandNoVcrc => native::check(port, packet),
        Medium::Ethernet => roce::check(port, packet.bytes),
    }
}

#[cfg(test)]
mod tests;
