//! The clock of a network adapter that stamps frames itself.
//!
//! Sources: `linux/ethtool.h` (`struct ethtool_ts_info`), `linux/net_tstamp.h` (`struct hwtstamp_config`), and the
//! kernel's convention that an open `/dev/ptpN` is a clock id.
//!
//! Most interfaces have no such clock, and some share theirs with a time daemon. So each step that fails leaves the
//! software stamps, without an error; what was changed is put back at the end.

use std::{
    ffi::{c_int, c_uint},
    fs::File,
    os::fd::{AsRawFd, OwnedFd},
    path::PathBuf,
};

use super::{
    interface::Interface,
    stamp::Reading,
    sys::{interface_ioctl, interface_request, packet_socket},
};

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const ETHTOOL_GET_TS_INFO: u32 = 0x41;
/// Stamping of all frames that are sent, and of all that are received.
const ALL: (c_int, c_int) = (libc::HWTSTAMP_TX_ON as c_int, libc::HWTSTAMP_FILTER_ALL as c_int);
/// How many parts per million a free-running adapter clock may differ from ours: what crystals have, twice.
pub(super) const DRIFT: u32 = 200;

/// `struct ethtool_ts_info`.
#[repr(C)]
#[derive(Debug, Default)]
struct TimestampInfo {
    cmd: u32,
    so_timestamping: u32,
    phc_index: i32,
    tx_types: u32,
    tx_reserved: [u32; 3],
    rx_filters: u32,
    rx_reserved: [u32; 3],
}

const _: () = assert!(size_of::<TimestampInfo>() == 44 && std::mem::offset_of!(TimestampInfo, rx_filters) == 28);

/// An adapter's clock, with stamping switched on.
#[derive(Debug)]
pub(super) struct HardwareClock {
    device: File,
    /// A socket for ioctls, and what stamping was set to before, if we changed it.
    before: Option<(OwnedFd, libc::hwtstamp_config)>,
    interface: String,
}

impl HardwareClock {
    /// Switches stamping on, if the adapter can stamp all frames both ways and its clock can be read.
    pub(super) fn start(interface: &Interface) -> Option<HardwareClock> {
        let socket = packet_socket().ok()?;
        let index = capable(&socket, &interface.name)?;
        let device = File::open(PathBuf::from(format!("/dev/ptp{index}"))).ok()?;
        let mut clock = HardwareClock {
            device,
            before: None,
            interface: interface.name.clone(),
        };
        clock.read()?;
        let mut found = configuration(&socket, &interface.name, libc::SIOCGHWTSTAMP as _, (0, 0))?;
        if (found.tx_type, found.rx_filter) != ALL {
            let set = configuration(&socket, &interface.name, libc::SIOCSHWTSTAMP as _, ALL)?;
            found.flags = 0;
            clock.before = Some((socket, found));
            if (set.tx_type, set.rx_filter) != ALL {
                return None; // Dropping the clock puts the old setting back.
            }
        }
        Some(clock)
    }

    /// Reads it between two reads of the monotonic clock.
    pub(super) fn read(&self) -> Option<Reading> {
        // How the kernel makes a clock id of a descriptor.
        Reading::take((!self.device.as_raw_fd() << 3) | 3)
    }
}

impl Drop for HardwareClock {
    fn drop(&mut self) {
        if let Some((socket, before)) = self.before.take() {
            let setting = (before.tx_type, before.rx_filter);
            let _ = configuration(&socket, &self.interface, libc::SIOCSHWTSTAMP as _, setting);
        }
    }
}

/// Number of the adapter's clock, if the adapter stamps all that we need.
fn capable(socket: &OwnedFd, name: &str) -> Option<c_uint> {
    let mut info = TimestampInfo {
        cmd: ETHTOOL_GET_TS_INFO,
        ..TimestampInfo::default()
    };
    let mut request = interface_request(name).ok()?;
    request.ifr_ifru.ifru_data = (&raw mut info).cast();
    // SAFETY: this command of SIOCETHTOOL fills an ethtool_ts_info.
    unsafe { interface_ioctl(socket, SIOCETHTOOL, &mut request) }.ok()?;
    let needed =
        libc::SOF_TIMESTAMPING_TX_HARDWARE | libc::SOF_TIMESTAMPING_RX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
    let can = info.so_timestamping & needed == needed
        && info.tx_types & (1 << libc::HWTSTAMP_TX_ON) != 0
        && info.rx_filters & (1 << libc::HWTSTAMP_FILTER_ALL) != 0;
    c_uint::try_from(info.phc_index).ok().filter(|_| can)
}

/// Reads or sets stamping; returns what is set then.
fn configuration(
    socket: &OwnedFd,
    name: &str,
    code: libc::c_ulong,
    (tx_type, rx_filter): (c_int, c_int),
) -> Option<libc::hwtstamp_config> {
    let mut config = libc::hwtstamp_config {
        flags: 0,
        tx_type,
        rx_filter,
    };
    let mut request = interface_request(name).ok()?;
    request.ifr_ifru.ifru_data = (&raw mut config).cast();
    // SAFETY: both codes take a hwtstamp_config, and write to it.
    unsafe { interface_ioctl(socket, code, &mut request) }.ok()?;
    Some(config)
}
