//! Writes captures of a run's records for Wireshark, and reads captures that other programs made.
//!
//! | module | content |
//! |---|---|
//! | [`Capture`] | the capture of a run, derived from its records |
//! | [`pcapng`] | a pcapng writer |
//! | [`read`] | pcap, pcapng and ERF, one packet at a time, from a file or a pipe |

mod host_lines;
pub mod pcapng;
pub mod read;
mod shown;
mod write;

/// The description of the MAD interface in captures that Verbatim writes. The reader recognizes the interface by this
/// text.
const RECONSTRUCTED: &str = "MADs of the tester's port, headers reconstructed";

pub use write::{Capture, Holds, Recorded};
