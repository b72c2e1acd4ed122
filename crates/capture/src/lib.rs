//! Captures: what a run's record becomes for Wireshark, and captures that others made.
//!
//! | module | what |
//! |---|---|
//! | [`fn@write`] | the capture of a run, derived from its records |
//! | [`pcapng`] | a pcapng writer |
//! | [`read`] | pcap, pcapng and ERF, one packet at a time, from a file or a pipe |

pub mod pcapng;
pub mod read;
mod write;

pub use write::{Recorded, write};
