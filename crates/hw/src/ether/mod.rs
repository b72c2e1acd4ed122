//! Raw Ethernet frames: through a network interface, or as datagrams to a machine that QEMU emulates.
//!
//! Sources: `packet(7)`, `unix(7)`, the kernel's `Documentation/networking/timestamping.rst`, and QEMU's manual of
//! `-netdev dgram`.
//!
//! - [`PacketSocket`]: an AF_PACKET socket on one interface. It receives every incoming frame, for any destination, and
//!   no outgoing frame.
//! - [`DatagramPair`]: two unix datagram sockets, one frame per datagram. It needs no privileges.
//!
//! Both send and receive whole frames, from the destination address to the end of the payload, without the FCS. They do
//! not parse, pad or answer frames.
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
//! Every frame has a [`Stamp`]: a lower and an upper bound of the time when the frame was on the wire, on
//! CLOCK_MONOTONIC. `std::time::Instant` uses this clock on Linux, and [`now`] reads it as a plain duration. A
//! judge uses the lower bound for "not before" and the upper bound for "not later". A single time with an
//! estimated error would not permit such checks.
//!
//! The kernel stamps on CLOCK_REALTIME, a network adapter on its own clock. To convert such a stamp, the crate reads
//! the stamp's clock between two reads of the monotonic clock. The time between these two reads widens the bounds.
//! Two facts that need no stamp limit the bounds further. A frame was received after its socket was last seen empty
//! and before it was read. A frame was sent after the call began. These facts alone determine the bounds if there
//! is no stamp, or if a clock was set between the stamp and the conversion.
//!
//! The kernel takes the software stamp when the driver delivers a received frame or accepts a frame to send. This time
//! is close to the time on the wire, but not equal.

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

/// A received frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Bytes from the destination address to the end of the payload, without the FCS, with the VLAN tag if there was
    /// one.
    pub bytes: Vec<u8>,
    /// Bounds of the time when the frame was on the wire.
    pub stamp: Stamp,
}
