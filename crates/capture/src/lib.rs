//! Captures: what a run's record becomes for Wireshark, and captures that others made.
//!
//! | module | what |
//! |---|---|
//! | [`Capture`] | the capture of a run, derived from its records |
//! | [`pcapng`] | a pcapng writer |
//! | [`read`] | pcap, pcapng and ERF, one packet at a time, from a file or a pipe |

pub mod pcapng;
pub mod read;
mod shown;
mod told;
mod write;

/// How our own captures describe the interface of MADs.
const RECONSTRUCTED: &str = "MADs of the tester's port, headers reconstructed";

pub use write::{Capture, Holds, Recorded};
