//! A directory of a rig's own, for its sockets.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::unistd::geteuid;
use tempfile::TempDir;

use super::error::RigError;

/// How the names of all of them begin.
const PREFIX: &str = "verbatim-rig-";
/// Locked as long as the directory's owner lives.
const LOCK: &str = "lock";
/// A directory that is not older may belong to a process that has not locked it yet.
const YOUNG: Duration = Duration::from_secs(10);
/// Entries of the temporary directory that are looked at: others may fill it, and nothing waits for more than these.
const MOST_ENTRIES: usize = 10_000;

/// A private temporary directory, removed when dropped; after a crash, when the next one is made.
#[derive(Debug)]
pub struct Place {
    directory: TempDir,
    _lock: File,
}

impl Place {
    /// Makes one. Blocks on the disk.
    ///
    /// # Errors
    /// When none can be made.
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

    /// Removes what processes left that were killed.
    pub fn remove_abandoned() {
        remove_what_crashes_left(&std::env::temp_dir());
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Removes the directories of processes that are no more. Nothing depends on it: what cannot be removed stays.
fn remove_what_crashes_left(temporary: &Path) {
    let entries = fs::read_dir(temporary).into_iter().flatten().take(MOST_ENTRIES);
    for entry in entries.flatten() {
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with(PREFIX) && is_abandoned(&path) {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// Everybody may make a directory of such a name: what is not this user's is left alone, and nothing in it is waited for.
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
    fn a_place_is_private_and_goes_with_its_owner() {
        let place = Place::new("r").unwrap();
        let path = place.path().to_path_buf();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        drop(place);
        assert!(!path.exists());
    }

    #[test]
    fn what_a_crash_left_is_removed_and_a_living_place_is_not() {
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
    fn a_pipe_or_a_link_in_place_of_a_lock_is_left_alone_and_not_waited_for() {
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
