//! Errors. Each message gives the expected value, the seen value, the place, and what to do next.

use std::{ffi::OsStr, io, path::PathBuf, time::Duration};

use nix::errno::Errno;

/// libibumad cannot be used in this process.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// The shared library could not be loaded.
    #[error(
        "umad unavailable: the library {library} could not be loaded ({seen}); install it with `apt-get install \
         libibumad3` (Debian, Ubuntu) or `dnf install libibumad`"
    )]
    Library {
        /// The requested file.
        library: String,
        /// The dynamic loader's message.
        seen: String,
    },
    /// The library was loaded but lacks a function.
    #[error(
        "umad unavailable: {library} was loaded but has no function {symbol} ({seen}); expected libibumad of rdma-core \
         17 or later: upgrade it with `apt-get install libibumad3`, or check what the library path points to"
    )]
    Symbol {
        /// The file that was loaded.
        library: String,
        /// The missing function.
        symbol: &'static str,
        /// The dynamic loader's message.
        seen: String,
    },
}

impl Unavailable {
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
}

/// The devices of this machine could not be listed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// The library call did not return within the time limit.
    #[error("listing the umad devices did not end within {bound:?}; the driver does not answer: look at `dmesg`")]
    TimedOut {
        /// How long the caller waited.
        bound: Duration,
    },
    /// An earlier call of this process is still stuck inside the library.
    #[error("the umad devices were not listed: {}", still_opening(.bound))]
    StillOpening {
        /// How long the caller waited for that call.
        bound: Duration,
    },
    /// No helper thread could be started.
    #[error("listing the umad devices needs a helper thread, and the system refused one ({0}); see `ulimit -u`")]
    Thread(io::Error),
}

/// A port could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The library call did not return within the time limit.
    #[error(
        "opening port {port} of umad device {device:?} did not end within {bound:?}; the driver does not answer: look at \
         `dmesg`"
    )]
    TimedOut {
        /// The requested device.
        device: String,
        /// The requested port.
        port: u8,
        /// How long the caller waited.
        bound: Duration,
    },
    /// An earlier call of this process is still stuck inside the library. The library is not thread-safe, so the
    /// port was not opened.
    #[error("the umad port was not opened: {}", still_opening(.bound))]
    StillOpening {
        /// How long the caller waited for that call.
        bound: Duration,
    },
    /// There is no such device.
    #[error("no umad device {device:?} on this machine; {}", no_device(.existing))]
    NoDevice {
        /// The requested device.
        device: String,
        /// The devices that exist.
        existing: Vec<String>,
    },
    /// The device has no such port.
    #[error(
        "umad device {device:?} has no port {port}; its ports are {}: name one of them",
        numbers(.existing)
    )]
    NoPort {
        /// The requested device.
        device: String,
        /// The requested port.
        port: u8,
        /// The ports that exist.
        existing: Vec<u8>,
    },
    /// The device and its port exist, but they have no umad interface.
    #[error(
        "port {port} of {device:?} exists but has no umad interface (nothing in /sys/class/infiniband_mad names it); \
         load the kernel module with `modprobe ib_umad`"
    )]
    NoKernelModule {
        /// The requested device.
        device: String,
        /// The requested port.
        port: u8,
    },
    /// The device file is missing.
    #[error(
        "port {port} of {device:?} should be {path}, which does not exist; load the module with `modprobe ib_umad`, \
         then check that udev runs (in a container: pass the device file in)"
    )]
    NoDeviceFile {
        /// The requested device.
        device: String,
        /// The requested port.
        port: u8,
        /// The expected file.
        path: PathBuf,
    },
    /// This user may not open the device file.
    #[error(
        "port {port} of {device:?}: this process may not open {path} for reading and writing ({seen}); run it \
         as a member of the group that owns it, or add the udev rule \
         `KERNEL==\"umad*\", GROUP=\"rdma\", MODE=\"0660\"` and put the user into that group"
    )]
    NotPermitted {
        /// The requested device.
        device: String,
        /// The requested port.
        port: u8,
        /// The file that could not be opened.
        path: PathBuf,
        /// The system's error and, if they could be read, the file's owner and mode.
        seen: String,
    },
    /// The port is open, but the kernel refused every management class.
    #[error(
        "port {port} of {device:?} opened, but the kernel registers none of the management classes 0x01, 0x81 and 0x04 \
         ({seen}); a port is needed with subnet or general management (a RoCE port has class 0x04 only), and \
         no more than 32 agents of one process"
    )]
    ClassesRefused {
        /// The requested device.
        device: String,
        /// The requested port.
        port: u8,
        /// The kernel's error for the last attempt.
        seen: io::Error,
    },
    /// Any other failure of the library.
    #[error(
        "opening port {port} of umad device {device:?} failed: libibumad returned {code} ({seen}); compare with \
         `ibstat {device} {port}` on this machine"
    )]
    Failed {
        /// The requested device.
        device: String,
        /// The requested port.
        port: u8,
        /// The library's return value.
        code: i32,
        /// The error number after the call.
        seen: io::Error,
    },
    /// No helper thread could be started.
    #[error("opening a umad port needs a helper thread, and the system refused one ({0}); see `ulimit -u`")]
    Thread(io::Error),
}

/// A MAD was not sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The port was lost.
    #[error(transparent)]
    PortGone(#[from] PortGone),
    /// The kernel does not let this process send the MAD's management class on this port.
    #[error(
        "a MAD of management class {class:#04x} cannot be sent on {device}/{port}: the kernel refused to register \
         that class ({seen}); a RoCE port has no subnet management, the SMI device of a multi-plane adapter has only \
         that, and vendor classes 0x30..=0x4f are not supported"
    )]
    ClassRefused {
        /// The management class, byte 1 of the MAD.
        class: u8,
        /// The device.
        device: String,
        /// The port.
        port: u8,
        /// The kernel's error.
        seen: String,
    },
    /// The kernel refused this MAD; the port is still usable.
    #[error(
        "the kernel refused a MAD on {device}/{port} ({seen}); EINVAL: another request with the same low 32 bits of \
         the transaction id is on its way, the address is impossible, or the directed route does not leave by this port; \
         ENOMEM: too many are on their way"
    )]
    Refused {
        /// The device.
        device: String,
        /// The port.
        port: u8,
        /// The kernel's error.
        seen: io::Error,
    },
}

/// The port was lost: the device was removed, the module was unloaded, or the simulator ended. The loss is final;
/// nothing more can be sent or received.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "umad port {device}/{port} went away while {during} ({}): expected an open port; check that the device is still \
     there with `ibstat {device}` (or that the simulator still runs), then open the port again in a new process",
    errno_text(.during, *.errno)
)]
pub struct PortGone {
    /// The device.
    pub device: String,
    /// The port.
    pub port: u8,
    /// The operation that failed: `"sending"` or `"receiving"`.
    pub during: &'static str,
    /// The error number that showed the loss.
    pub errno: i32,
}

/// Returns the dynamic loader's message, which libloading stores as the source of its error.
fn cause(error: &dyn std::error::Error) -> String {
    error.source().unwrap_or(error).to_string()
}

fn errno_text(during: &str, errno: i32) -> String {
    let seen = io::Error::from_raw_os_error(errno);
    match Errno::from_raw(errno) {
        // A MAD that does not fit the buffer stays at the head of the kernel's queue forever.
        Errno::ENOSPC | Errno::EINVAL if during == "receiving" => format!(
            "{seen}: a MAD of more than 256 bytes has arrived, as on Omni-Path or with the kernel's RMPP; the tester \
             requested neither"
        ),
        _ => seen.to_string(),
    }
}

fn still_opening(bound: &Duration) -> String {
    format!(
        "an earlier call of this process is still stuck inside libibumad (waited {bound:?} for it), and a second call \
         beside it is not safe; end this process and start again. The driver does not answer: look at `dmesg`"
    )
}

fn no_device(existing: &[String]) -> String {
    if existing.is_empty() {
        "it has none: load the adapter's driver and `modprobe ib_umad`; see `ibv_devices` or \
         `ls /sys/class/infiniband`"
            .to_owned()
    } else {
        format!("these exist: {}: name one of them", existing.join(", "))
    }
}

fn numbers(existing: &[u8]) -> String {
    if existing.is_empty() {
        return "none".to_owned();
    }
    existing.iter().map(u8::to_string).collect::<Vec<_>>().join(", ")
}
