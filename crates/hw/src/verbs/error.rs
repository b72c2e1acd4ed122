//! Errors. Each message gives the expected value, the seen value, the place, and what to do next.

use std::{ffi::OsStr, io};

use nix::errno::Errno;
use verbatim_wire::verbs::QpState;

/// The reason why a verbs call failed or was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerbsError {
    /// The shared library could not be loaded.
    #[error(
        "verbs unavailable: the library {library} could not be loaded ({seen}); install it with `apt-get install \
         libibverbs1 ibverbs-providers` (Debian, Ubuntu) or `dnf install libibverbs`"
    )]
    Library {
        /// The requested file.
        library: String,
        /// The dynamic loader's message.
        seen: String,
    },
    /// The library was loaded but lacks a function.
    #[error(
        "verbs unavailable: {library} was loaded but has no function {symbol} ({seen}); expected libibverbs of \
         rdma-core 32 or later: upgrade it with `apt-get install libibverbs1`, or check what the library path points to"
    )]
    Symbol {
        /// The file that was loaded.
        library: String,
        /// The missing function.
        symbol: &'static str,
        /// The dynamic loader's message.
        seen: String,
    },
    /// The devices of this machine could not be listed.
    #[error(
        "verbs unavailable: the devices could not be listed ({seen}); the kernel module is missing, or this \
         process may not use it: `modprobe ib_uverbs`; give a container /dev/infiniband and /sys/class/infiniband"
    )]
    List {
        /// The system's error.
        seen: io::Error,
    },
    /// There is no such device.
    #[error("no verbs device {device:?} on this machine; {}", no_device(.existing))]
    NoDevice {
        /// The requested device.
        device: String,
        /// The devices that exist.
        existing: Vec<String>,
    },
    /// The device exists but could not be opened.
    #[error(
        "verbs device {device:?} could not be opened ({seen}); expected a file /dev/infiniband/uverbs* that this \
         process may read and write, and the device's driver in ibverbs-providers: see `ibv_devinfo -d {device}`"
    )]
    Open {
        /// The requested device.
        device: String,
        /// The system's error.
        seen: io::Error,
    },
    /// A call on an open device failed.
    #[error("{call} on {device} failed ({seen}){}", remedy(.call, .seen))]
    Call {
        /// The function of libibverbs.
        call: &'static str,
        /// The device, followed by the affected part in parentheses.
        device: String,
        /// The error number.
        seen: io::Error,
    },
    /// The device's driver lacks this function.
    #[error("{device}: its driver in ibverbs-providers offers no {call}; use another device, or upgrade the package")]
    NotOffered {
        /// The function of libibverbs.
        call: &'static str,
        /// The device.
        device: String,
    },
    /// Modifying a queue pair failed.
    #[error(
        "ibv_modify_qp of QP {qpn:#x} on {device} from {} to {to} with {} failed ({seen}){}",
        from.map_or("a state that could not be read".into(), |from| from.to_string()),
        if given.is_empty() { "no attributes".into() } else { given.join(", ") },
        remedy("ibv_modify_qp", seen)
    )]
    Modify {
        /// The device.
        device: String,
        /// Queue pair number.
        qpn: u32,
        /// The state before, if it could be read.
        from: Option<QpState>,
        /// The requested state.
        to: QpState,
        /// The given attributes.
        given: Vec<&'static str>,
        /// The error number.
        seen: io::Error,
    },
    /// The range is not inside the memory region; nothing was done.
    #[error(
        "bytes {offset}..{offset}+{length} are not inside the memory region, which has {size} bytes: correct the \
         offset or the length, or register more"
    )]
    OutOfRegion {
        /// Requested offset in bytes.
        offset: usize,
        /// Requested length in bytes.
        length: usize,
        /// Length of the region in bytes.
        size: usize,
    },
    /// The arguments are invalid; the library was not called.
    #[error("{call} on {device}: {what}")]
    Argument {
        /// The function of libibverbs that was not called.
        call: &'static str,
        /// The device.
        device: String,
        /// The expected and the seen value.
        what: String,
    },
}

impl VerbsError {
    pub(super) fn library(path: &OsStr, source: &dyn std::error::Error) -> Self {
        Self::Library {
            library: path.to_string_lossy().into_owned(),
            seen: cause(source),
        }
    }

    pub(super) fn symbol(path: &OsStr, symbol: &'static str, source: &dyn std::error::Error) -> Self {
        Self::Symbol {
            library: path.to_string_lossy().into_owned(),
            symbol,
            seen: cause(source),
        }
    }

    /// Returns the error number, if a call returned one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::List { seen } | Self::Open { seen, .. } | Self::Call { seen, .. } | Self::Modify { seen, .. } => {
                seen.raw_os_error()
            }
            _ => None,
        }
    }
}

/// Returns the dynamic loader's message, which libloading stores as the source of its error.
fn cause(error: &dyn std::error::Error) -> String {
    error.source().unwrap_or(error).to_string()
}

fn no_device(existing: &[String]) -> String {
    if existing.is_empty() {
        "it has none: load the adapter's driver (or `rdma link add rxe0 type rxe netdev eth0`) and \
         `modprobe ib_uverbs`; see `ibv_devices`"
            .to_owned()
    } else {
        format!("these exist: {}: correct the name of the device", existing.join(", "))
    }
}

/// Returns the remedy for common failures.
fn remedy(call: &str, seen: &io::Error) -> &'static str {
    match (call, seen.raw_os_error().map(Errno::from_raw)) {
        ("ibv_reg_mr", Some(Errno::ENOMEM)) => {
            "; registered memory is locked: raise `ulimit -l` (LimitMEMLOCK=infinity in a unit), or register less"
        }
        ("ibv_reg_mr", Some(Errno::EINVAL)) => "; remote write and remote atomic access need local write access too",
        ("ibv_create_ah" | "ibv_modify_qp", Some(Errno::ETIMEDOUT | Errno::EHOSTUNREACH | Errno::ENETUNREACH)) => {
            "; the destination GID was not resolved to a MAC address: is the other side up and on this network?"
        }
        ("ibv_create_cq" | "ibv_create_qp", Some(Errno::EINVAL | Errno::ENOMEM)) => {
            "; compare the requested sizes with max_cqe and max_qp_wr of the device"
        }
        ("ibv_post_send" | "ibv_post_recv", Some(Errno::ENOMEM)) => {
            "; the queue is full: poll its completion queue first, or create the queue pair with a deeper one"
        }
        ("ibv_post_send" | "ibv_post_recv", Some(Errno::EINVAL)) => {
            "; the state of the queue pair does not allow it (receiving needs INIT, sending RTS), or the request has \
             a segment that the device does not take, or an atomic is not 8 aligned bytes"
        }
        ("ibv_query_port" | "ibv_query_pkey", Some(Errno::EINVAL)) => "; no such port, or no such index of its table",
        ("ibv_modify_qp", Some(Errno::EINVAL)) => {
            "; expected a legal change of state, with exactly the attributes that it needs (see `man ibv_modify_qp`), \
             and values that the device supports: compare port, pkey_index, path_mtu, max_rd_atomic, \
             max_dest_rd_atomic, sgid_index and GID (on Ethernet the address needs one) with `ibv_devinfo -v`"
        }
        (_, Some(Errno::EIO | Errno::ENODEV)) => "; the device went away: see `dmesg`, then open it again",
        _ => "",
    }
}
