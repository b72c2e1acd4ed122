//! A temporary directory for a rig's sockets.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::unistd::geteuid;
use tempfile::TempDir;

use super::error::RigError;

/// First part of each directory's name.
const PREFIX: &str = "verbatim-rig-";
/// Name of the lock file. The process that owns the directory holds the lock.
const LOCK: &str = "lock";
/// Minimum age of an abandoned directory. A younger one may belong to a process that has not locked it yet.
const YOUNG: Duration = Duration::from_secs(10);
/// Maximum number of entries of the temporary directory that a scan reads. Other programs may fill the directory, and a
/// scan must not take long.
const MOST_ENTRIES: usize = 10_000;

/// A private temporary directory. Dropping it removes the directory. If the process crashes, a later [`Place::make`] or
/// [`Place::remove_abandoned`] removes the directory.
#[derive(Debug)]
pub struct Place {
    directory: TempDir,
    _lock: File,
}

impl Place {
    /// Creates a directory. Blocks on the disk.
    ///
    /// # Errors
    /// When the directory or its lock file cannot be created.
    pub fn make() -> io::Result<Self> {
        let temporary = std::env::temp_dir();
        remove_what_crashes_left(&temporary);
        let directory = tempfile::Builder::new()
            .prefix(PREFIX)
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(&temporary)?;
        let lock = File::create(directory.path().join(LOCK))?;
        lock.lock()?;
        Ok(Self { directory, _lock: lock })
    }

    pub(super) fn new(rig: &str) -> Result<Self, RigError> {
        Self::make().map_err(|source| RigError::Place {
            rig: rig.into(),
            what: format!("making a directory in {}", std::env::temp_dir().display()),
            source,
        })
    }

    /// Removes the directories of processes that were killed.
    pub fn remove_abandoned() {
        remove_what_crashes_left(&std::env::temp_dir());
    }

    /// Path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Removes the directories of dead processes. Ignores errors, because no caller depends on the removal.
fn remove_what_crashes_left(temporary: &Path) {
    let entries = fs::read_dir(temporary).into_iter().flatten().take(MOST_ENTRIES);
    for entry in entries.flatten() {
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with(PREFIX) && is_abandoned(&path) {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// Returns whether `place` is a directory of this user that is unlocked and older than 10 s. Any user may create an
/// entry with such a name, so the check follows no link, and does not block on a FIFO.
fn is_abandoned(place: &Path) -> bool {
    let own = fs::symlink_metadata(place).is_ok_and(|of| of.is_dir() && of.uid() == geteuid().as_raw());
    let lock = || {
        File::options()
            .read(true)
            .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
            .open(place.join(LOCK))
    };
    let Some(lock) = own.then(lock).and_then(Result::ok) else {
        return false;
    };
    let Ok(file) = lock.metadata() else { return false };
    let age = file.modified().map(|at| at.elapsed());
    file.is_file() && matches!(age, Ok(Ok(age)) if age > YOUNG) && lock.try_lock().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn place_is_private_and_removed_on_drop() {
        let place = Place::new("r").unwrap();
        let path = place.path().to_path_buf();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        drop(place);
        assert!(!path.exists());
    }

    #[test]
    fn removes_only_abandoned_places() {
        let temporary = tempfile::tempdir().unwrap();
        let make = |name: &str, age: u64| {
            let path = temporary.path().join(name);
            fs::create_dir(&path).unwrap();
            let lock = File::create(path.join(LOCK)).unwrap();
            let at = SystemTime::now() - Duration::from_secs(age);
            lock.set_modified(at).unwrap();
            (path, lock)
        };
        let (crashed, _) = make("verbatim-rig-1", 60);
        let (young, _) = make("verbatim-rig-2", 0);
        let (living, lock) = make("verbatim-rig-3", 60);
        lock.lock().unwrap();
        let (foreign, _) = make("other-1", 60);
        remove_what_crashes_left(temporary.path());
        assert!(!crashed.exists());
        assert!(young.exists() && living.exists() && foreign.exists());
    }

    #[test]
    fn ignores_fifo_and_symlink_locks() {
        let temporary = tempfile::tempdir().unwrap();
        let place = |name: &str| {
            let path = temporary.path().join(name);
            fs::create_dir(&path).unwrap();
            path
        };
        let (pipe, link) = (place("verbatim-rig-1"), place("verbatim-rig-2"));
        nix::unistd::mkfifo(&pipe.join(LOCK), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let old = temporary.path().join("old");
        let long_ago = SystemTime::now() - Duration::from_secs(60);
        File::create(&old).unwrap().set_modified(long_ago).unwrap();
        std::os::unix::fs::symlink(&old, link.join(LOCK)).unwrap();
        let elsewhere = place("elsewhere");
        fs::copy(&old, elsewhere.join(LOCK)).unwrap();
        File::open(elsewhere.join(LOCK))
            .unwrap()
            .set_modified(long_ago)
            .unwrap();
        std::os::unix::fs::symlink(&elsewhere, temporary.path().join("verbatim-rig-3")).unwrap();
        remove_what_crashes_left(temporary.path());
        assert!(pipe.exists() && link.exists());
        assert!(elsewhere.join(LOCK).exists() && temporary.path().join("verbatim-rig-3").is_symlink());
    }
}
