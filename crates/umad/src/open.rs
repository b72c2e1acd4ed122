//! Opens a port on a helper thread with a time limit, because opening can block forever. If the library fails to
//! open a port, determines the reason.

use std::{
    ffi::{CStr, CString, OsStr, c_char, c_long},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

use nix::errno::Errno;

use super::{
    error::OpenError,
    ffi::{MASK_WORDS, Symbols},
    library::{describe, names},
};

/// Management classes registered at open: LID-routed and directed-route subnet management, and performance.
const CLASSES: [u8; 3] = [0x01, 0x81, 0x04];
/// Directory in which the kernel lists the devices, with or without a umad interface.
const DRIVER_DEVICES: &str = "/sys/class/infiniband";
/// Method number of Trap.
const TRAP: u32 = 0x05;

/// Serialises the calls of this process that list or open devices, because the library's device list is not
/// thread-safe.
static OPENING: Gate = Gate {
    busy: Mutex::new(false),
    free: Condvar::new(),
};

struct Gate {
    busy: Mutex<bool>,
    free: Condvar,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters the gate. Waits at most `bound` for another thread to leave; returns `None` if that thread is still
    /// inside.
    fn enter(&'static self, bound: Duration) -> Option<Inside> {
        let (mut busy, waited) = self
            .free
            .wait_timeout_while(self.lock(), bound, |busy| *busy)
            .unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() && *busy {
            return None;
        }
        *busy = true;
        Some(Inside(self))
    }
}

/// Proof that no other thread is inside the gate. The proof moves into the helper thread, so a stuck call keeps the
/// gate closed even after its caller gave up.
struct Inside(&'static Gate);

impl Drop for Inside {
    fn drop(&mut self) {
        *self.0.lock() = false;
        self.0.free.notify_one();
    }
}

/// The reason why [`bounded`] has no result.
pub(super) enum Helper {
    /// The call did not return in time. It continues, and its result is dropped.
    TimedOut,
    /// An earlier call is still running.
    Busy,
    /// The system refused a thread.
    Thread(io::Error),
}

/// Runs `call` on a helper thread and waits for it at most `bound`.
pub(super) fn bounded<T: Send + 'static>(
    bound: Duration,
    call: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Helper> {
    let start = Instant::now();
    let inside = OPENING.enter(bound).ok_or(Helper::Busy)?;
    let (sender, receiver) = mpsc::sync_channel(1);
    thread::Builder::new()
        .name("umad-open".into())
        .spawn(move || {
            let result = call();
            drop(inside);
            // If the caller has given up, the result is dropped. Dropping an opened port closes it.
            let _ = sender.send(result);
        })
        .map_err(Helper::Thread)?;
    receiver
        .recv_timeout(bound.saturating_sub(start.elapsed()))
        .map_err(|_| Helper::TimedOut)
}

/// An open port id and its agents. Dropping it closes the port.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) symbols: Arc<Symbols>,
    pub(super) id: i32,
    pub(super) agents: Agents,
}

impl Drop for Opened {
    fn drop(&mut self) {
        for agent in self.agents.registered() {
            // SAFETY: the port is open and the agent was registered on it.
            unsafe { (self.symbols.umad_unregister)(self.id, agent) };
        }
        // SAFETY: the port is open, and nothing uses the id afterwards.
        unsafe { (self.symbols.umad_close_port)(self.id) };
    }
}

/// The agents of the management classes.
#[derive(Debug)]
pub(super) struct Agents {
    /// By class number: the agent id or the refusal, or `None` before the first attempt to register the class.
    by_class: [Option<Result<i32, Errno>>; 256],
    /// Whether this process receives traps of subnet management.
    pub(super) traps: bool,
}

impl Agents {
    fn none() -> Self {
        Self {
            by_class: [None; 256],
            traps: false,
        }
    }

    fn registered(&self) -> impl Iterator<Item = i32> + '_ {
        self.by_class.iter().flatten().filter_map(|agent| agent.ok())
    }

    pub(super) fn refusal(&self, class: u8) -> Option<Errno> {
        self.by_class[usize::from(class)]?.err()
    }

    /// Returns the agent of a management class. Registers the class at its first use.
    pub(super) fn of(&mut self, symbols: &Symbols, id: i32, class: u8) -> Result<i32, Errno> {
        *self.by_class[usize::from(class)].get_or_insert_with(|| register(symbols, id, class, false))
    }
}

/// Registers a class; with `traps` also for unsolicited Traps. Returns the error number on a refusal.
fn register(symbols: &Symbols, id: i32, class: u8, traps: bool) -> Result<i32, Errno> {
    if (0x30..=0x4f).contains(&class) {
        return Err(Errno::EOPNOTSUPP); // These need an OUI.
    }
    let version = if class == 0x03 { 2 } else { 1 }; // SubnAdm has class version 2.
    let mut mask: [c_long; MASK_WORDS] = [0; MASK_WORDS];
    if traps {
        mask[0] = 1 << TRAP;
    }
    // SAFETY: the port is open; the mask has 128 bits and is read before the call returns.
    let agent = unsafe { (symbols.umad_register)(id, class.into(), version, 0, mask.as_mut_ptr()) };
    if agent >= 0 {
        return Ok(agent);
    }
    Err(match Errno::last() {
        Errno::UnknownErrno => Errno::EPERM,
        errno => errno,
    })
}

/// Opens a port and registers its classes; runs on the helper thread.
pub(super) fn open(symbols: Arc<Symbols>, device: &str, port: u8) -> Result<Opened, OpenError> {
    let Ok(c_device) = CString::new(device) else {
        return Err(OpenError::NoDevice {
            device: device.to_owned(),
            existing: names(&symbols),
        });
    };
    if device.is_empty() {
        // For an empty name the library would choose a device itself.
        return Err(OpenError::NoDevice {
            device: String::new(),
            existing: names(&symbols),
        });
    }
    // SAFETY: the call takes nothing and only prepares the library's own state.
    unsafe { (symbols.umad_init)() };
    Errno::clear();
    // SAFETY: the name is NUL-terminated.
    let id = unsafe { (symbols.umad_open_port)(c_device.as_ptr(), port.into()) };
    if id < 0 {
        return Err(explain(&symbols, &c_device, port, id, io::Error::last_os_error()));
    }
    let mut opened = Opened {
        symbols,
        id,
        agents: Agents::none(),
    };
    let mut refusal = Errno::EPERM;
    for class in CLASSES {
        let symbols = &opened.symbols;
        let agent = if class == 0x04 {
            register(symbols, id, class, false)
        } else {
            match register(symbols, id, class, true) {
                Ok(agent) => {
                    opened.agents.traps = true;
                    Ok(agent)
                }
                // Another program, such as a subnet manager, receives the traps of this port.
                Err(_) => register(symbols, id, class, false),
            }
        };
        if let Err(errno) = agent {
            refusal = errno;
        }
        opened.agents.by_class[usize::from(class)] = Some(agent);
    }
    if opened.agents.registered().next().is_none() {
        let seen = refusal.into();
        return Err(OpenError::ClassesRefused {
            device: device.to_owned(),
            port,
            seen,
        });
    }
    Ok(opened)
}

/// Determines why `umad_open_port` failed.
fn explain(symbols: &Symbols, device: &CStr, port: u8, code: i32, seen: io::Error) -> OpenError {
    let name = device.to_string_lossy().into_owned();
    let existing = names(symbols);
    if !existing.contains(&name) {
        // Without the kernel module the library lists no device; the driver's directory shows whether the device
        // exists.
        return match Path::new(DRIVER_DEVICES).join(&name).is_dir() {
            true => OpenError::NoKernelModule { device: name, port },
            false => OpenError::NoDevice { device: name, existing },
        };
    }
    let ports: Vec<u8> = describe(symbols, &name)
        .map(|found| found.ports.iter().map(|p| p.number).collect())
        .unwrap_or_default();
    if !ports.is_empty() && port != 0 && !ports.contains(&port) {
        return OpenError::NoPort {
            device: name,
            port,
            existing: ports,
        };
    }
    let Some(path) = device_file(symbols, device, port) else {
        return OpenError::NoKernelModule { device: name, port };
    };
    match seen.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EACCES | Errno::EPERM) => {
            let seen = match std::fs::metadata(&path) {
                Ok(file) => {
                    format!(
                        "{seen}; the file has owner {}:{} and mode {:o}",
                        file.uid(),
                        file.gid(),
                        file.mode() & 0o777
                    )
                }
                Err(_) => seen.to_string(),
            };
            OpenError::NotPermitted {
                device: name,
                port,
                path,
                seen,
            }
        }
        Some(Errno::ENOENT | Errno::ENXIO | Errno::ENODEV) => OpenError::NoDeviceFile {
            device: name,
            port,
            path,
        },
        _ => OpenError::Failed {
            device: name,
            port,
            code,
            seen,
        },
    }
}

/// Returns the path `/dev/infiniband/umadN` of a port. The number N comes from the path of the port's `issmN` file,
/// which the library reports.
fn device_file(symbols: &Symbols, device: &CStr, port: u8) -> Option<PathBuf> {
    let mut path = [0 as c_char; 256];
    // SAFETY: the name is NUL-terminated; `path` has the given 256 bytes.
    let code = unsafe { (symbols.umad_get_issm_path)(device.as_ptr(), port.into(), path.as_mut_ptr(), 256) };
    if code < 0 {
        return None;
    }
    let bytes: Vec<u8> = path.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect();
    let sibling = PathBuf::from(<OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(&bytes));
    let number = sibling.file_name()?.to_str()?.strip_prefix("issm")?.to_owned();
    Some(sibling.with_file_name(format!("umad{number}")))
}
