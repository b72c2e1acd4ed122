//! Raw Ethernet frames: through a network interface, or as datagrams to a machine that QEMU emulates.
//!
//! Sources: `packet(7)`, `unix(7)`, the kernel's `Documentation/networking/timestamping.rst`, and QEMU's manual of
//! `-netdev dgram`.
//!
//! - [`PacketSocket`]: an AF_PACKET socket on one interface. It sees every frame that comes in, whatever its
//!   destination, and none that goes out.
//! - [`DatagramPair`]: two unix datagram sockets, one frame a datagram. No rights are needed.
//!
//! Both send and receive whole frames, from the destination address to the end of the payload, without the FCS.
//! Nothing is parsed, padded or answered.
//!
//! ```no_run
//! use std::time::Duration;
//! use verbatim_hw::ether::PacketSocket;
//!
//! let socket = PacketSocket::open("eth1")?;
//! let sent = socket.send(&[0_u8; 60])?;
//! if let Some(frame) = socket.receive(Duration::from_millis(100))? {
//!     let at_least = frame.stamp.earliest.saturating_sub(sent.latest);
//!     println!("{} bytes, {at_least:?} or more after ours", frame.bytes.len());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Time
//!
//! Every frame comes with a [`Stamp`]: two bounds between which it was on the wire, on CLOCK_MONOTONIC, which is what
//! `std::time::Instant` counts on Linux ([`now`] reads the same clock as a plain duration). Bounds, and not one time
//! with a guess of its error: a judge that wants "not before" takes the one, "not later" the other.
//!
//! The kernel stamps on CLOCK_REALTIME, a network adapter on a clock of its own. Either is carried over by reading it
//! between two reads of the monotonic clock, and the width of that bracket goes into the bounds. What we know without
//! any stamp limits the bounds further, and stands alone where there is no stamp or a clock was set meanwhile: a frame
//! was received after its socket was last seen empty and before it was read; it was sent after the call began.
//!
//! The kernel's software stamp is taken where the driver hands the frame over (receiving) or takes it (sending): close
//! to the wire, not on it.

mod datagram;
mod error;
mod hardware;
mod interface;
mod message;
mod packet;
mod stamp;
mod sys;
#[cfg(test)]
mod tests;

pub use datagram::DatagramPair;
pub use error::EtherError;
pub use packet::PacketSocket;
pub use stamp::{Stamp, StampSource, now};

/// A frame that came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// From the destination address to the end of the payload; without the FCS, with the VLAN tag if it had one.
    pub bytes: Vec<u8>,
    /// When.
    pub stamp: Stamp,
}
