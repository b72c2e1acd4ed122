//! Lock files of devices. Each user has a directory of lock files, which only this user and root can write.
//!
//! Processes of one user exclude each other by file locks. A process cannot open the lock files of another user,
//! but /proc/locks shows which process holds the lock of a file. The caller decides which users' locks count,
//! because a user without access to a device must not lock out others.

use std::fs::{self, DirBuilder, File, Metadata, Permissions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::sys::stat::{major, minor};
use nix::unistd::geteuid;
use serde::{Deserialize, Serialize};

/// Directories in which all users may create entries, but may not remove entries of other users.
const BASES: [&str; 3] = ["/run/lock", "/dev/shm", "/tmp"];
/// Limit of directory names to try; another user may already own some of them.
const NAMES: u16 = 1000;

/// The lock with the previous content of its file, or a description of the process that holds the lock.
pub(super) type Taken = Result<(Lock, Holder), String>;

/// Content of a lock file: the process that took the lock last.
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
    /// Parses a lock file. Malformed content gives the default value.
    fn read(mut file: &File) -> Self {
        let mut text = String::new();
        let read = (&mut file).take(1 << 16).read_to_string(&mut text);
        let told = read.ok().and_then(|_| serde_json::from_str(&text).ok());
        told.unwrap_or_default()
    }
}

/// A held lock. Dropping this value releases the lock.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the content of the lock file.
    ///
    /// # Errors
    /// Error of the system call.
    pub(super) fn tell(&self, holder: &Holder) -> io::Result<()> {
        let text = serde_json::to_vec(holder)?;
        let mut file = &self.file;
        file.rewind()?;
        file.write_all(&text)?;
        self.file.set_len(text.len() as u64)
    }
}

/// Returns the directory that contains the lock directories of all users. It is the same for all users of this
/// host.
///
/// # Errors
/// When no directory qualifies.
pub(super) fn base() -> io::Result<&'static Path> {
    let fits = |path: &&&str| {
        fs::symlink_metadata(path).is_ok_and(|of| {
            let (shared, sticky) = (of.mode() & 0o022 != 0, of.mode() & 0o1000 != 0);
            of.is_dir() && of.uid() == 0 && (sticky || !shared)
        })
    };
    let found = BASES.iter().find(fits).map(Path::new);
    found.ok_or_else(|| {
        let what =
            format!("expected one of {BASES:?} to belong to root, with mode 1777: run `chmod 1777 /tmp` as root");
        io::Error::new(io::ErrorKind::NotFound, what)
    })
}

/// Takes the lock called `name`, unless a process of this user, or of a user whose locks count, has that lock.
///
/// # Errors
/// Error of the system call.
pub(super) fn take(base: &Path, name: &str, counts: impl Fn(u32) -> bool) -> io::Result<Taken> {
    let (me, own) = (geteuid().as_raw(), own_directory(base)?);
    let path = own.join(name);
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(&path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Ok(Err(in_words(&Holder::read(&file).pid.to_string(), me)));
        }
        Err(TryLockError::Error(error)) => return Err(error),
    }
    // If processes of two users take the lock at the same time, each sees the other's lock here, and both fail.
    if let Some(other) = held_elsewhere(base, &own, name, counts)? {
        return Ok(Err(other));
    }
    let before = Holder::read(&file);
    let lock = Lock { file, path };
    lock.tell(&Holder {
        pid: std::process::id(),
        ..before.clone()
    })?;
    Ok(Ok((lock, before)))
}

/// Returns the last content of the lock file `name` of this user, without the lock.
///
/// # Errors
/// Error of the system call.
pub(super) fn peek(base: &Path, name: &str) -> io::Result<Holder> {
    let file = File::options()
        .read(true)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(own_directory(base)?.join(name))?;
    Ok(Holder::read(&file))
}

fn in_words(pid: &str, user: u32) -> String {
    format!("process {pid} of user {user}")
}

/// Returns this user's directory, and creates it if needed.
fn own_directory(base: &Path) -> io::Result<PathBuf> {
    let me = geteuid().as_raw();
    for number in 0..NAMES {
        let path = base.join(format!("verbatim-{me}-{number}"));
        match DirBuilder::new().mode(0o755).create(&path) {
            // Other users must be able to look into the directory, for any umask.
            Ok(()) => fs::set_permissions(&path, Permissions::from_mode(0o755))?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        if owner(&path) == Some(me) {
            return Ok(path);
        }
    }
    let what = format!(
        "all {} directories {}/verbatim-{me}-* belong to other users, so this user cannot create one: remove them as \
         root",
        NAMES,
        base.display()
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
}

/// Returns the owner of a directory; None if other users can write to it too.
fn owner(directory: &Path) -> Option<u32> {
    let of = fs::symlink_metadata(directory).ok()?;
    (of.is_dir() && of.mode() & 0o022 == 0).then(|| of.uid())
}

/// Describes the process that holds the lock `name` in the directory of another user whose locks count.
fn held_elsewhere(base: &Path, own: &Path, name: &str, counts: impl Fn(u32) -> bool) -> io::Result<Option<String>> {
    let me = geteuid().as_raw();
    let mut locks = None;
    for entry in fs::read_dir(base)?.flatten() {
        let path = entry.path();
        if path == own || !entry.file_name().as_encoded_bytes().starts_with(b"verbatim-") {
            continue;
        }
        let Some(owner) = owner(&path) else { continue };
        let Ok(file) = fs::symlink_metadata(path.join(name)) else {
            continue;
        };
        if !file.is_file() || !(owner == me || owner == 0 || counts(owner)) {
            continue;
        }
        if locks.is_none() {
            locks = Some(fs::read_to_string("/proc/locks")?);
        }
        if let Some(pid) = locks.as_deref().and_then(|locks| holder(locks, &file)) {
            return Ok(Some(in_words(pid, owner)));
        }
    }
    Ok(None)
}

/// Returns the process that holds a file's lock, from /proc/locks.
fn holder<'l>(locks: &'l str, file: &Metadata) -> Option<&'l str> {
    let place = format!("{:02x}:{:02x}:{}", major(file.dev()), minor(file.dev()), file.ino());
    locks.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        match fields[..] {
            [_, "FLOCK", _, _, pid, of, ..] if of == place => Some(pid),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a held lock that belongs to another user; None without root's rights.
    fn of_another(base: &Path) -> Option<File> {
        let directory = base.join("verbatim-65534-0");
        fs::create_dir(&directory).unwrap();
        fs::set_permissions(&directory, Permissions::from_mode(0o755)).unwrap();
        let file = File::create(directory.join("d")).unwrap();
        file.try_lock().unwrap();
        for path in [directory.join("d"), directory] {
            std::os::unix::fs::chown(path, Some(65534), None).ok()?;
        }
        Some(file)
    }

    #[test]
    fn lock_is_exclusive_and_names_its_process() {
        let base = tempfile::tempdir().unwrap();
        let held = take(base.path(), "d", |_| false).unwrap().unwrap();
        let who = take(base.path(), "d", |_| false).unwrap().unwrap_err();
        assert_eq!(who, in_words(&std::process::id().to_string(), geteuid().as_raw()));
        assert!(take(base.path(), "e", |_| false).unwrap().is_ok());
        drop(held);
        assert!(take(base.path(), "d", |_| false).unwrap().is_ok());
    }

    #[test]
    fn foreign_lock_counts_only_with_device_access() {
        let base = tempfile::tempdir().unwrap();
        let Some(theirs) = of_another(base.path()) else { return };
        assert!(take(base.path(), "d", |_| false).unwrap().is_ok());
        let who = take(base.path(), "d", |user| user == 65534).unwrap().unwrap_err();
        assert_eq!(who, in_words(&std::process::id().to_string(), 65534));
        drop(theirs);
        assert!(take(base.path(), "d", |_| true).unwrap().is_ok());
    }

    #[test]
    fn ignores_directories_that_others_can_write() {
        let base = tempfile::tempdir().unwrap();
        let squatted = base.path().join(format!("verbatim-{}-0", geteuid()));
        fs::create_dir(&squatted).unwrap();
        fs::set_permissions(&squatted, Permissions::from_mode(0o777)).unwrap();
        let file = File::create(squatted.join("d")).unwrap();
        file.try_lock().unwrap();
        assert!(take(base.path(), "d", |_| true).unwrap().is_ok());
        assert!(base.path().join(format!("verbatim-{}-1", geteuid())).is_dir());
    }
}
