//! The state directory and the socket, which only one daemon may use.

use std::fs::{self, DirBuilder, File, Permissions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use listenfd::ListenFd;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::unistd::geteuid;
use verbatim_run::state::StateDirectory;
use verbatim_socket::{BindError, Bound};

/// The directory of the socket when the service manager names none.
const USUAL_DIRECTORY: &str = "/run/verbatim";
const SOCKET: &str = "verbatim.sock";
/// The file mode of the socket: its owner and group may connect.
const MODE: u32 = 0o660;

/// Why the daemon cannot start.
#[derive(Debug, thiserror::Error)]
pub(super) enum PlaceError {
    #[error(
        "the state directory {path} cannot be used ({source}); correct its owner or mode so that this user can write \
         there and other users cannot, or name another one with --state"
    )]
    State { path: PathBuf, source: io::Error },
    #[error(
        "the state directory {path} is in use by another daemon ({who}); stop that one, or name another directory with \
         --state"
    )]
    StateInUse { path: PathBuf, who: String },
    #[error(
        "the socket's directory {path} cannot be used ({source}); correct its owner or mode so that this user can \
         write there but not every user can, or name another socket with --socket"
    )]
    Directory { path: PathBuf, source: io::Error },
    #[error(
        "the socket {path} is in use by another daemon ({who}); stop that one, or name another socket with --socket"
    )]
    InUse { path: PathBuf, who: String },
    #[error("{path} exists and is not a socket; remove it, or name another socket with --socket")]
    NoSocket { path: PathBuf },
    #[error(
        "the service manager passed on {seen}, expected one listening unix stream socket: one ListenStream=PATH in the \
         socket unit"
    )]
    Inherited { seen: String },
    #[error(
        "the socket {path} cannot be made ({source}); expected a path of at most 107 bytes in a writable directory"
    )]
    Bind { path: PathBuf, source: io::Error },
}

/// Checks that no other user can create or replace files in a directory. The directory must belong to this user or
/// root, and must not be writable by all. The group may write, because the owner has chosen the group.
fn private(directory: &Path) -> io::Result<()> {
    let of = fs::metadata(directory)?;
    let (owner, mode) = (of.uid(), of.mode());
    let wrong = |what: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    if owner != 0 && owner != geteuid().as_raw() {
        return wrong(format!("it belongs to user {owner}, expected this user or root"));
    }
    if mode & 0o002 != 0 {
        let mode = mode & 0o7777;
        return wrong(format!(
            "all users may write there (mode {mode:04o}, expected 0755 or less)"
        ));
    }
    Ok(())
}

/// How long to wait for the locks of a killed daemon. A child that the daemon had just forked holds the locks
/// until the child executes its program.
const CHILDREN_LET_GO_WITHIN: Duration = Duration::from_secs(10);

/// Locks a file and writes the id of this process into it. The inner error names the process that holds the lock.
///
/// Waits if the file names a dead process, because the children of that process may still hold the lock. Does not
/// wait for a living process.
fn lock(path: &Path) -> io::Result<Result<File, String>> {
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        // Follow no symbolic link, which could redirect the write to another file. Do not block if the file is a pipe.
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(path)?;
    // Let no other user open the file: such a user could hold its lock, and block this daemon.
    file.set_permissions(Permissions::from_mode(0o600))?;
    let until = Instant::now() + CHILDREN_LET_GO_WITHIN;
    loop {
        match file.try_lock() {
            Ok(()) => {
                file.set_len(0)?;
                writeln!(file, "{}", std::process::id())?;
                return Ok(Ok(file));
            }
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                file.seek(SeekFrom::Start(0))?;
                let _ = file.read_to_string(&mut holder);
                let holder = holder.trim();
                if lives(holder) || Instant::now() > until {
                    return Ok(Err(format!("process {holder}")));
                }
                // Check at intervals, because a blocking lock call has no time limit.
                thread::sleep(Duration::from_millis(20));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Returns whether the process exists and is not a zombie. Returns true if the text is no process id.
fn lives(pid: &str) -> bool {
    if pid.parse::<u32>().is_err() {
        return true;
    }
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

/// The lock of the state directory.
#[derive(Debug)]
pub(super) struct StateLock {
    _file: File,
}

impl StateLock {
    pub(super) fn take(state: &StateDirectory) -> Result<Self, PlaceError> {
        let unusable = |source| PlaceError::State {
            path: state.path().into(),
            source,
        };
        let made = DirBuilder::new().recursive(true).mode(0o700).create(state.path());
        // Let no other user in: the directory holds M_Keys of devices.
        let closed = made.and_then(|()| fs::set_permissions(state.path(), Permissions::from_mode(0o700)));
        closed.and_then(|()| private(state.path())).map_err(unusable)?;
        match lock(&state.path().join("daemon.lock")).map_err(unusable)? {
            Ok(file) => Ok(Self { _file: file }),
            Err(who) => Err(PlaceError::StateInUse {
                path: state.path().into(),
                who,
            }),
        }
    }
}

/// The socket of this daemon. A socket that the daemon made itself is removed on drop.
#[derive(Debug)]
pub(super) struct Socket {
    path: PathBuf,
    listener: Listener,
}

#[derive(Debug)]
enum Listener {
    Own(
        Bound<UnixListener>,
        #[expect(dead_code, reason = "held, not read")] File,
    ),
    Manager(UnixListener),
}

/// Returns the socket that a service manager passed on (`LISTEN_FDS`), if any. Removes the variables from the
/// environment, because workers must not see them. Call this function before the first thread is started: another
/// thread might read the environment at the same time.
pub(super) fn inherited() -> Result<Option<UnixListener>, PlaceError> {
    let mut passed = ListenFd::from_env();
    if passed.len() > 1 {
        return Err(PlaceError::Inherited {
            seen: format!("{} sockets", passed.len()),
        });
    }
    passed.take_unix_listener(0).map_err(|error| PlaceError::Inherited {
        seen: format!("something else ({error})"),
    })
}

impl Socket {
    /// Uses the socket that [`inherited`] returned.
    pub(super) fn activated(listener: UnixListener) -> Result<Self, PlaceError> {
        let prepare = || {
            // Workers must not inherit the socket.
            fcntl(&listener, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
            listener.set_nonblocking(true)?;
            listener.local_addr()
        };
        let address = prepare().map_err(|error| PlaceError::Inherited {
            seen: format!("a socket that cannot be used ({error})"),
        })?;
        Ok(Self {
            path: address.as_pathname().unwrap_or(Path::new("(no path)")).into(),
            listener: Listener::Manager(listener),
        })
    }

    /// Creates the socket. Replaces a socket that a dead daemon left.
    pub(super) fn bind(given: Option<&Path>) -> Result<Self, PlaceError> {
        let path = path(given, std::env::var_os("RUNTIME_DIRECTORY").as_deref());
        let parent = path.parent().unwrap_or(Path::new("/"));
        let unusable = |source| PlaceError::Directory {
            path: parent.into(),
            source,
        };
        fs::create_dir_all(parent)
            .and_then(|()| private(parent))
            .map_err(unusable)?;
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(".lock");
        let held = lock(&parent.join(name)).map_err(unusable)?;
        let in_use = |who| PlaceError::InUse {
            path: path.clone(),
            who,
        };
        let lock = held.map_err(in_use)?;
        let bind = || {
            let listener = UnixListener::bind(&path)?;
            fs::set_permissions(&path, Permissions::from_mode(MODE))?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let listener = Bound::new(&path, bind).map_err(|error| match error {
            BindError::NotASocket { .. } => PlaceError::NoSocket { path: path.clone() },
            BindError::InUse => in_use("it answers".into()),
            BindError::System(source) => PlaceError::Bind {
                path: path.clone(),
                source,
            },
        })?;
        Ok(Self {
            path,
            listener: Listener::Own(listener, lock),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a listener for the server. Must be called within the runtime.
    pub(super) fn listener(&self) -> io::Result<tokio::net::UnixListener> {
        let listener = match &self.listener {
            Listener::Own(bound, _) => bound.try_clone(),
            Listener::Manager(listener) => listener.try_clone(),
        };
        tokio::net::UnixListener::from_std(listener?)
    }
}

/// Returns the path of the socket: `given`, or else a path in the first directory of `runtime`, or else a path in
/// the default directory.
fn path(given: Option<&Path>, runtime: Option<&std::ffi::OsStr>) -> PathBuf {
    if let Some(given) = given {
        return std::path::absolute(given).unwrap_or_else(|_| given.into());
    }
    let first = runtime.and_then(|list| std::env::split_paths(list).next());
    first
        .filter(|directory| directory.is_absolute())
        .unwrap_or_else(|| USUAL_DIRECTORY.into())
        .join(SOCKET)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_path_has_fallbacks() {
        let runtime = Some("/run/v:/run/w".as_ref());
        assert_eq!(path(Some(Path::new("/x/s")), runtime), Path::new("/x/s"));
        assert_eq!(path(None, runtime), Path::new("/run/v/verbatim.sock"));
        assert_eq!(path(None, None), Path::new("/run/verbatim/verbatim.sock"));
        assert_eq!(path(None, Some("".as_ref())), Path::new("/run/verbatim/verbatim.sock"));
    }

    #[test]
    fn replaces_stale_socket() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/s");
        fs::create_dir(directory.path().join("new")).unwrap();
        drop(UnixListener::bind(&path).unwrap());
        let socket = Socket::bind(Some(&path)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        let error = Socket::bind(Some(&path)).unwrap_err().to_string();
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn keeps_files_and_live_sockets() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("f");
        fs::write(&file, "mine").unwrap();
        assert!(
            Socket::bind(Some(&file))
                .unwrap_err()
                .to_string()
                .contains("is not a socket")
        );
        let foreign = directory.path().join("g");
        let _listener = UnixListener::bind(&foreign).unwrap();
        assert!(Socket::bind(Some(&foreign)).unwrap_err().to_string().contains("in use"));
    }

    #[test]
    fn rejects_world_writable_directory() {
        let directory = tempfile::tempdir().unwrap();
        let open = |mode| fs::set_permissions(directory.path(), Permissions::from_mode(mode)).unwrap();
        open(0o1777);
        let error = Socket::bind(Some(&directory.path().join("s"))).unwrap_err().to_string();
        assert!(error.contains("mode 1777") && error.contains("--socket"), "{error}");
        open(0o755);
        assert!(Socket::bind(Some(&directory.path().join("s"))).is_ok());
    }

    #[test]
    fn rejects_symlink_as_lock() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory::at(directory.path());
        let (lock, other) = (directory.path().join("daemon.lock"), directory.path().join("other"));
        fs::write(&other, "mine").unwrap();
        std::os::unix::fs::symlink(&other, &lock).unwrap();
        assert!(StateLock::take(&state).is_err());
        assert_eq!(fs::read_to_string(&other).unwrap(), "mine");
    }

    #[test]
    fn waits_for_lock_of_dead_daemon() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("daemon.lock");
        let mut dead = std::process::Command::new("true").spawn().unwrap();
        dead.wait().unwrap();
        let held = File::create(&path).unwrap();
        writeln!(&held, "{}", dead.id()).unwrap();
        held.try_lock().unwrap();
        let second = thread::spawn(move || lock(&path).unwrap());
        thread::sleep(Duration::from_millis(50));
        assert!(!second.is_finished(), "refused while the child has it");
        drop(held);
        assert!(second.join().unwrap().is_ok());
    }

    #[test]
    fn lives_tells_dead_processes() {
        assert!(lives(&std::process::id().to_string()));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id().to_string();
        child.wait().unwrap();
        assert!(!lives(&pid));
        assert!(lives(""), "a file that names none");
    }

    #[test]
    fn state_directory_has_one_daemon() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory::at(directory.path().join("state"));
        let first = StateLock::take(&state).unwrap();
        assert!(
            StateLock::take(&state)
                .unwrap_err()
                .to_string()
                .contains("in use by another daemon")
        );
        drop(first);
        assert!(StateLock::take(&state).is_ok());
    }
}
