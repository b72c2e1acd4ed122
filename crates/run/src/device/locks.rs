//! Locks of devices. No lock depends on a file that another user can make, remove or hide.
//!
//! | part of a lock | excludes |
//! |---|---|
//! | an abstract socket for each name of the device | the processes of this network namespace |
//! | a byte of the device's node under `/dev/infiniband` | all processes that open this node |
//! | a name on the port that the kernel gives once | all processes that use this port, in any container |
//!
//! A device model also refuses a second tester by itself. Every user can bind any abstract name. The caller decides
//! which users' locks count, because a user without access to a device must not lock out others.
//!
//! A lock has a record: a file that says which run left the device changed. The records of a user are in a directory
//! of this user. The service manager names another directory in [`VARIABLE`]. There, each rig has a directory of its
//! own, and a worker can write to its own rig's directory only.

use std::cell::Cell;
use std::env;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsRawFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use nix::sys::socket::{
    AddressFamily, Shutdown, SockFlag, SockType, UnixAddr, UnixCredentials, connect, getsockopt, shutdown, socket,
    sockopt::PeerCredentials,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use verbatim_rig::take_name_on_port;

use crate::state::StateDirectory;

/// The environment variable with the directory of the records of a service.
const VARIABLE: &str = "VERBATIM_LOCKS";
/// How many abstract sockets one name has. Users without access to the device may have bound some of them.
const SLOTS: u8 = 8;

/// The lock with the previous content of its record, or a description of the process that holds the lock.
pub(super) type Taken = Result<(Lock, Holder), String>;

/// Content of a record: the run that used the device last.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Holder {
    pub(super) pid: u32,
    /// Directory of the process's restore journals; empty if the process wrote none.
    pub(super) journals: PathBuf,
    /// The process's name for the rig.
    pub(super) rig: String,
    /// Whether the process changed the device and has not restored it yet.
    pub(super) changed: bool,
    /// The generation of the rig's journal; 0 if unknown.
    #[serde(default)]
    pub(super) generation: u64,
}

impl Holder {
    /// Reads a record. A missing or malformed record gives the default value.
    fn read(path: &Path) -> Self {
        let mut text = String::new();
        let read = open(path, false).and_then(|file| file.take(1 << 16).read_to_string(&mut text));
        let told = read.ok().and_then(|_| serde_json::from_str(&text).ok());
        told.unwrap_or_default()
    }
}

/// Opens a record. Follows no link, and does not block if the file is a pipe.
fn open(path: &Path, is_written: bool) -> io::Result<File> {
    File::options()
        .read(true)
        .write(is_written)
        .create(is_written)
        .truncate(false)
        .mode(0o600)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(path)
}

/// The directory of the records.
#[derive(Clone, Debug)]
pub(super) struct Records {
    path: PathBuf,
    /// Whether each rig has a directory of its own.
    pub(super) are_by_rig: bool,
}

impl Records {
    /// Returns the directory in [`VARIABLE`], else the directory of this user, which is made if it is missing.
    ///
    /// # Errors
    /// When no directory can be made.
    pub(super) fn find() -> io::Result<Self> {
        if let Some(path) = env::var_os(VARIABLE).map(PathBuf::from) {
            return Ok(Self { path, are_by_rig: true });
        }
        let mut failure = io::Error::new(
            io::ErrorKind::NotFound,
            "neither XDG_STATE_HOME nor HOME names a directory",
        );
        for state in StateDirectory::of_this_user() {
            let path = state.path().join("locks");
            match make(&path) {
                Ok(()) => {
                    return Ok(Self {
                        path,
                        are_by_rig: false,
                    });
                }
                Err(error) => failure = error,
            }
        }
        let what = format!("no directory for its record: {failure}; set XDG_STATE_HOME to a directory of this user");
        Err(io::Error::new(failure.kind(), what))
    }

    /// Returns the content of the record of a rig's device, without the lock.
    pub(super) fn peek(&self, rig: &str, device: &str) -> Holder {
        Holder::read(&self.of(rig, device))
    }

    /// Returns the path of a record.
    fn of(&self, rig: &str, name: &str) -> PathBuf {
        let directory = match self.are_by_rig {
            true => self.path.join(rig),
            false => self.path.clone(),
        };
        directory.join(hash(name))
    }
}

fn make(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// Makes the directory for the records of a rig's worker, if this process runs in a service.
///
/// # Errors
/// Error of the system call.
pub fn prepare(rig: &str) -> io::Result<()> {
    env::var_os(VARIABLE).map_or(Ok(()), |base| make(&Path::new(&base).join(rig)))
}

/// A held lock. Dropping this value releases the lock.
#[derive(Debug)]
pub(super) struct Lock {
    record: PathBuf,
    records: Records,
    /// Whether the record can be removed: the device is unchanged, and its generation is 0.
    is_over: Cell<bool>,
    _names: Vec<Name>,
    _node: Option<File>,
}

impl Lock {
    /// Returns the path of the record.
    pub(super) fn path(&self) -> &Path {
        &self.record
    }

    /// Writes the record to the disk. After a power failure, an older record would name a change that is restored.
    ///
    /// # Errors
    /// Error of the system call.
    pub(super) fn tell(&self, holder: &Holder) -> io::Result<()> {
        let text = serde_json::to_vec(holder)?;
        if let Some(directory) = self.record.parent() {
            make(directory)?;
        }
        let mut file = open(&self.record, true)?;
        file.rewind()?;
        file.write_all(&text)?;
        file.set_len(text.len() as u64)?;
        file.sync_data()?;
        self.is_over.set(!holder.changed && holder.generation == 0);
        Ok(())
    }

    /// Returns the record of another rig that left this device changed.
    pub(super) fn of_another_rig(&self) -> Option<Holder> {
        let name = self.record.file_name().filter(|_| self.records.are_by_rig)?;
        let rigs = fs::read_dir(&self.records.path).ok()?.flatten();
        let others = rigs
            .map(|rig| rig.path().join(name))
            .filter(|path| *path != self.record);
        others.map(|path| Holder::read(&path)).find(|holder| holder.changed)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.is_over.get() {
            // Ignore an error: a record of an unchanged device does no harm.
            let _ = fs::remove_file(&self.record);
        }
    }
}

/// A bound name. A thread accepts connections, because processes connect to find the holder of the name. Without it,
/// these connections would fill the socket's queue, and later processes would not find the holder.
#[derive(Debug)]
struct Name {
    socket: UnixListener,
    accepting: Option<JoinHandle<()>>,
}

impl Name {
    fn new(socket: UnixListener) -> io::Result<Self> {
        let ours = socket.try_clone()?;
        let accept = move || {
            loop {
                match ours.accept() {
                    Ok(_) => {}
                    // The socket was shut down.
                    Err(error) if error.raw_os_error() == Some(libc::EINVAL) => break,
                    // A lack of descriptors passes.
                    Err(_) => thread::sleep(Duration::from_millis(100)),
                }
            }
        };
        Ok(Self {
            socket,
            accepting: Some(thread::Builder::new().name("lock".into()).spawn(accept)?),
        })
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        // Ends the thread's call. Ignore errors: the socket is open, and the thread cannot panic.
        let _ = shutdown(self.socket.as_raw_fd(), Shutdown::Both);
        let _ = self.accepting.take().map(JoinHandle::join);
    }
}

/// Takes the lock of a device, unless a process of a user whose locks count has it. The device has these names, and may
/// have this node. The record belongs to the first name.
///
/// # Errors
/// Error of the system call.
pub(super) fn take(
    records: &Records,
    rig: &str,
    names: &[String],
    node: Option<&Path>,
    counts: impl Fn(u32) -> bool,
) -> io::Result<Taken> {
    let mut sockets = Vec::new();
    for name in names {
        match take_name(name, &counts)? {
            Ok(taken) => sockets.extend(taken),
            Err(who) => return Ok(Err(who)),
        }
    }
    let node = match node.map(|node| take_node(node, names)).transpose()? {
        Some(Err(who)) => return Ok(Err(who)),
        Some(Ok(taken)) => taken,
        None => None,
    };
    let record = records.of(rig, names.first().map_or("", String::as_str));
    let before = Holder::read(&record);
    let lock = Lock {
        record,
        records: records.clone(),
        is_over: Cell::new(false),
        _names: sockets,
        _node: node,
    };
    Ok(Ok((lock, before)))
}

/// Binds one of a name's abstract sockets. Returns no socket if users whose locks do not count have bound all of them.
fn take_name(name: &str, counts: impl Fn(u32) -> bool) -> io::Result<Result<Option<Name>, String>> {
    let hash = hash(name);
    let names: Vec<String> = (0..SLOTS)
        .map(|slot| format!("verbatim-device-{hash}-{slot}"))
        .collect();
    let mut own = None;
    for name in &names {
        match UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?) {
            Ok(socket) => {
                own = Some((name, socket));
                break;
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
    }
    // Look at the others only now. If two processes take the lock at the same time, at least one sees the other.
    let others = names
        .iter()
        .filter(|name| own.as_ref().is_none_or(|(own, _)| own != name));
    let mut holders = others.filter_map(|name| listener_of(name));
    Ok(match holders.find(|holder| counts(holder.uid())) {
        Some(holder) => Err(format!("process {} of user {}", holder.pid(), holder.uid())),
        None => Ok(own.map(|(_, socket)| Name::new(socket)).transpose()?),
    })
}

/// Returns the process that listens on an abstract socket, and its user. The kernel reports both.
fn listener_of(name: &str) -> Option<UnixCredentials> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None).ok()?;
    connect(socket.as_raw_fd(), &UnixAddr::new_abstract(name.as_bytes()).ok()?).ok()?;
    getsockopt(&socket, PeerCredentials).ok()
}

/// Locks a device's node, one byte for each name. Several devices may be behind one node, so the lock does not cover
/// the whole node. Returns no lock if this process may not open the node: opening the port then reports the reason.
fn take_node(node: &Path, names: &[String]) -> io::Result<Result<Option<File>, String>> {
    let options = OFlag::O_NONBLOCK.bits();
    let Ok(file) = File::options().read(true).write(true).custom_flags(options).open(node) else {
        return Ok(Ok(None));
    };
    for name in names {
        let range = libc::flock {
            l_type: libc::F_WRLCK as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: i64::from(u32::from_be_bytes(first_of(name))),
            l_len: 1,
            l_pid: 0,
        };
        match fcntl(&file, FcntlArg::F_OFD_SETLK(&range)) {
            Ok(_) => {}
            Err(Errno::EAGAIN | Errno::EACCES) => {
                return Ok(Err(format!("a process that has locked {}", node.display())));
            }
            Err(error) => return Err(error.into()),
        }
        // Containers may have nodes of their own for the port, so take the name from the kernel too. Ignore an error: a
        // port without general management has no names.
        if matches!(take_name_on_port(&file, first_of(name)), Ok(false)) {
            return Ok(Err(format!("a process that uses the port of {}", node.display())));
        }
    }
    Ok(Ok(Some(file)))
}

/// Returns the first bytes of a name's digest: the name's position in a node, and its name on a port.
fn first_of(name: &str) -> [u8; 4] {
    let digest = Sha256::digest(name);
    [digest[0], digest[1], digest[2], digest[3]]
}

/// Returns the digest of a name: names of devices are long, and may contain a slash.
fn hash(name: &str) -> String {
    Sha256::digest(name).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::geteuid;

    fn records(base: &Path, are_by_rig: bool) -> Records {
        Records {
            path: base.into(),
            are_by_rig,
        }
    }

    /// Takes a lock by a name that no other test has.
    fn taken(base: &Path, name: &str, node: Option<&Path>, counts: impl Fn(u32) -> bool) -> Taken {
        let name = format!("{name} of {}", base.display());
        take(&records(base, false), "r", &[name], node, counts).unwrap()
    }

    #[test]
    fn lock_is_exclusive_and_names_its_process() {
        let base = tempfile::tempdir().unwrap();
        let held = taken(base.path(), "d", None, |_| true).unwrap();
        let who = taken(base.path(), "d", None, |_| true).unwrap_err();
        assert_eq!(who, format!("process {} of user {}", std::process::id(), geteuid()));
        assert!(taken(base.path(), "e", None, |_| true).is_ok());
        // More processes look than wait in a socket's queue.
        for _ in 0..5000 {
            assert!(taken(base.path(), "d", None, |_| true).is_err());
        }
        drop(held);
        assert!(taken(base.path(), "d", None, |_| true).is_ok());
    }

    #[test]
    fn private_lock_directory_does_not_help() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let names = [format!("d {}", one.path().display())];
        let taken = |base: &Path| take(&records(base, false), "r", &names, None, |_| true).unwrap();
        let _held = taken(one.path()).unwrap();
        assert!(taken(other.path()).is_err());
    }

    #[test]
    fn foreign_lock_counts_only_with_device_access() {
        let base = tempfile::tempdir().unwrap();
        let name = format!("d of {}", base.path().display());
        // Another user has bound every name of the device.
        let squatted = |slot| format!("verbatim-device-{}-{slot}", hash(&name));
        let bound: Vec<_> = (0..SLOTS)
            .map(|slot| UnixListener::bind_addr(&SocketAddr::from_abstract_name(squatted(slot)).unwrap()).unwrap())
            .collect();
        assert!(taken(base.path(), "d", None, |_| false).is_ok());
        assert!(taken(base.path(), "d", None, |user| user == geteuid().as_raw()).is_err());
        drop(bound);
        assert!(taken(base.path(), "d", None, |_| true).is_ok());
    }

    #[test]
    fn node_is_locked_for_each_device_behind_it() {
        let base = tempfile::tempdir().unwrap();
        let (node, link) = (base.path().join("umad0"), base.path().join("link"));
        File::create(&node).unwrap();
        fs::hard_link(&node, &link).unwrap();
        // Other users' sockets do not count here, as in another network namespace.
        let alone = |name, node: &Path| taken(base.path(), name, Some(node), |_| false);
        let held = alone("d", &node).unwrap();
        let who = alone("d", &link).unwrap_err();
        assert!(who.contains("has locked") && who.contains("link"), "{who}");
        assert!(alone("e", &link).is_ok());
        drop(held);
        assert!(alone("d", &link).is_ok());
        assert!(alone("d", &base.path().join("none")).is_ok());
    }

    #[test]
    fn record_with_a_generation_outlives_its_lock() {
        let base = tempfile::tempdir().unwrap();
        let (records, name) = (records(base.path(), false), format!("d of {}", base.path().display()));
        let told = |generation| {
            let holder = Holder {
                generation,
                ..Holder::default()
            };
            let (lock, _) = taken(base.path(), "d", None, |_| true).unwrap();
            lock.tell(&holder).unwrap();
            let path = lock.path().to_path_buf();
            drop(lock);
            assert_eq!(records.peek("r", &name), holder);
            path.exists()
        };
        assert!(told(2));
        assert!(!told(0));
    }

    #[test]
    fn worker_writes_only_its_own_record() {
        let base = tempfile::tempdir().unwrap();
        let of = |rig: &str| take(&records(base.path(), true), rig, &["d".into()], None, |_| false).unwrap();
        let changed = Holder {
            rig: "a".into(),
            changed: true,
            ..Holder::default()
        };
        let (a, _) = of("a").unwrap();
        a.tell(&changed).unwrap();
        assert_eq!(a.path(), base.path().join("a").join(hash("d")));
        let (b, before) = of("b").unwrap();
        assert_eq!((before, b.of_another_rig()), (Holder::default(), Some(changed)));
        assert_eq!(a.of_another_rig(), None);
        a.tell(&Holder::default()).unwrap();
        drop(a);
        assert!(b.of_another_rig().is_none() && !base.path().join("a").join(hash("d")).exists());
    }
}
