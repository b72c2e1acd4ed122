//! What a rig file says of devices that are slow, or that a command brings back.

use core::time::Duration;
use std::path::PathBuf;

/// How much slower than usual a device and its host are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slowness {
    /// How many times slower than our own clock the device's runs, at most.
    pub scale: u32,
    /// How many times slower it runs at least, where that varies.
    pub scale_least: Option<u32>,
    /// How long the agent may take for a command; none for what is usual.
    pub agent_within: Option<Duration>,
    /// How long a frame may wait for room in the device's socket; none for what is usual.
    pub send_within: Option<Duration>,
}

impl Default for Slowness {
    fn default() -> Self {
        Self {
            scale: 1,
            scale_least: None,
            agent_within: None,
            send_within: None,
        }
    }
}

/// The command that brings a device back to where it begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResetConfig {
    /// Program and arguments, as they are: no shell takes them apart.
    pub command: Vec<String>,
    /// Where it runs: the directory of the rig file.
    pub directory: PathBuf,
    /// How long it may take.
    pub within: Duration,
}
