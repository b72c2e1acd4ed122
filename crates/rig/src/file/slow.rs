//! Settings of slow devices and of the reset command.

use core::time::Duration;
use std::path::PathBuf;

/// Slowness of a device and its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slowness {
    /// Upper limit of the ratio of host time to device time.
    pub scale: u32,
    /// Lower limit of that ratio, if the device's speed varies.
    pub scale_least: Option<u32>,
    /// Time limit of an agent's command; None for the default.
    pub agent_within: Option<Duration>,
    /// Time limit for sending a frame to the device's socket; None for the default.
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

/// Paths of the logs of Linux hosts' consoles. Verbatim reads the kernels' reports of errors from these logs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Consoles {
    /// Console of the DUT's host. Its kernel is part of the device under test.
    pub dut: Option<PathBuf>,
    /// Console of the tester's host.
    pub tester: Option<PathBuf>,
}

/// The command that resets a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResetConfig {
    /// Program and arguments. No shell interprets them.
    pub command: Vec<String>,
    /// Working directory: that of the rig file.
    pub directory: PathBuf,
    /// Time limit.
    pub within: Duration,
    /// Whether the command runs only when the device does not respond.
    pub only_when_silent: bool,
}
