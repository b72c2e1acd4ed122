//! The clock of a network adapter that stamps frames itself.
//!
//! Sources: `linux/ethtool.h` (`struct ethtool_ts_info`), `linux/net_tstamp.h` (`struct hwtstamp_config`), and the
//! kernel's convention that an open `/dev/ptpN` is a clock id.
//!
//! Many interfaces have no clock, or have a clock that a time daemon also uses. If the clock cannot be used, the
//! caller therefore uses software stamps and reports no error. Dropping the [`HardwareClock`] restores changed
//! settings.

use std::{
    ffi::c_int,
    fs::File,
    os::fd::{AsRawFd, OwnedFd},
};

use nix::{sys::socket::TimestampingFlag, time::ClockId};

use super::{
    interface::Interface,
    packet::packet_socket,
    stamp::Reading,
    sys::{Ask, HWTSTAMP_FILTER_ALL, HWTSTAMP_TX_ON, TimestampInfo, ask, hwtstamp_config},
};

/// Setting (`tx_type`, `rx_filter`) that stamps all sent and all received frames.
const ALL: (c_int, c_int) = (HWTSTAMP_TX_ON as c_int, HWTSTAMP_FILTER_ALL as c_int);
/// Largest difference between the rates of a free-running adapter clock and the system clock, in parts per
/// million. It is twice the tolerance of a crystal.
pub(super) const DRIFT: u32 = 200;

/// An adapter's clock, with stamping switched on.
#[derive(Debug)]
pub(super) struct HardwareClock {
    device: File,
    /// If the stamping setting was changed: a socket for ioctls, and the previous setting.
    before: Option<(OwnedFd, hwtstamp_config)>,
    interface: String,
}

impl HardwareClock {
    /// Switches stamping on, if the adapter can stamp all sent and received frames and its clock can be read.
    pub(super) fn start(interface: &Interface) -> Option<HardwareClock> {
        let socket = packet_socket().ok()?;
        let index = capable(&socket, &interface.name)?;
        let device = File::open(format!("/dev/ptp{index}")).ok()?;
        let mut clock = HardwareClock {
            device,
            before: None,
            interface: interface.name.clone(),
        };
        clock.read()?;
        let mut found = stamping(&socket, &interface.name, None)?;
        if (found.tx_type, found.rx_filter) != ALL {
            let set = stamping(&socket, &interface.name, Some(ALL))?;
            found.flags = 0;
            clock.before = Some((socket, found));
            if (set.tx_type, set.rx_filter) != ALL {
                return None; // Dropping the clock restores the old setting.
            }
        }
        Some(clock)
    }

    /// Reads the clock between two reads of the monotonic clock.
    pub(super) fn read(&self) -> Option<Reading> {
        // The kernel's encoding of a descriptor as a clock id.
        Reading::take(ClockId::from_raw((!self.device.as_raw_fd() << 3) | 3))
    }
}

impl Drop for HardwareClock {
    fn drop(&mut self) {
        if let Some((socket, before)) = self.before.take() {
            let setting = (before.tx_type, before.rx_filter);
            let _ = stamping(&socket, &self.interface, Some(setting));
        }
    }
}

/// Returns the number of the adapter's clock, if the adapter supports all needed stamps.
fn capable(socket: &OwnedFd, name: &str) -> Option<u32> {
    let mut info = TimestampInfo::default();
    ask(socket, name, Ask::TimestampInfo(&mut info)).ok()?;
    let needed = TimestampingFlag::SOF_TIMESTAMPING_TX_HARDWARE
        | TimestampingFlag::SOF_TIMESTAMPING_RX_HARDWARE
        | TimestampingFlag::SOF_TIMESTAMPING_RAW_HARDWARE;
    let can = info.so_timestamping & needed.bits() == needed.bits()
        && info.tx_types & (1 << HWTSTAMP_TX_ON) != 0
        && info.rx_filters & (1 << HWTSTAMP_FILTER_ALL) != 0;
    u32::try_from(info.phc_index).ok().filter(|_| can)
}

/// Reads the adapter's stamping setting, or changes it to `set`. Returns the setting in effect afterwards.
fn stamping(socket: &OwnedFd, name: &str, set: Option<(c_int, c_int)>) -> Option<hwtstamp_config> {
    let (tx_type, rx_filter) = set.unwrap_or_default();
    let mut config = hwtstamp_config {
        flags: 0,
        tx_type,
        rx_filter,
    };
    let what = match set {
        Some(_) => Ask::SetStamping(&mut config),
        None => Ask::Stamping(&mut config),
    };
    ask(socket, name, what).ok()?;
    Some(config)
}
