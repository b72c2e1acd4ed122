//! A directory of a rig's own, for what libraries and sockets leave behind.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tempfile::TempDir;

use super::error::RigError;

const PREFIX: &str = "verbatim-rig-";
/// Locked as long as the directory's owner lives.
const LOCK: &str = "lock";
/// A directory that is not older may belong to a process that has not locked it yet.
const YOUNG: Duration = Duration::from_secs(10);

/// A private temporary directory, removed when dropped; after a crash, when the next one is made.
#[derive(Debug)]
pub(super) struct Place {
    directory: TempDir,
    _lock: File,
}

impl Place {
    pub(super) fn new(rig: &str) -> Result<Self, RigError> {
        let temporary = std::env::temp_dir();
        remove_what_crashes_left(&temporary);
        let make = || -> io::Result<Self> {
            let directory = tempfile::Builder::new()
                .prefix(PREFIX)
                .permissions(Permissions::from_mode(0o700))
                .tempdir_in(&temporary)?;
            let lock = File::create(directory.path().join(LOCK))?;
            lock.lock()?;
            Ok(Self { directory, _lock: lock })
        };
        make().map_err(|source| RigError::Place {
            rig: rig.into(),
            what: format!("making a directory in {}", temporary.display()),
            source,
        })
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Removes the directories of processes that are no more. Nothing depends on it: what cannot be removed stays.
fn remove_what_crashes_left(temporary: &Path) {
    for entry in fs::read_dir(temporary).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with(PREFIX) && is_abandoned(&path) {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

fn is_abandoned(place: &Path) -> bool {
    let Ok(lock) = File::open(place.join(LOCK)) else {
        return false;
    };
    let age = lock.metadata().and_then(|file| file.modified()).map(|at| at.elapsed());
    matches!(age, Ok(Ok(age)) if age > YOUNG) && lock.try_lock().is_ok()
}

/// What ibsim's preload wrote into the last working place, to be found there again by the next one: it writes once in
/// the life of a process, and reads at every open.
static PRELOAD_FILES: Mutex<Vec<(PathBuf, Vec<u8>)>> = Mutex::new(Vec::new());

/// The working directory of the process is a private one until this is dropped.
///
/// ibsim's preload keeps `sys-<process>/` in the working directory, and leaves it behind after a crash.
#[derive(Debug)]
pub(super) struct WorkingPlace {
    before: PathBuf,
    place: Place,
}

impl WorkingPlace {
    pub(super) fn enter(rig: &str) -> Result<Self, RigError> {
        // A working directory that is gone is no reason to fail: the root always is.
        let before = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        let place = Place::new(rig)?;
        let enter = || -> io::Result<()> {
            let files = PRELOAD_FILES.lock().unwrap_or_else(PoisonError::into_inner);
            for (name, content) in files.iter() {
                let path = place.path().join(name);
                fs::create_dir_all(path.parent().unwrap_or(place.path()))?;
                fs::write(path, content)?;
            }
            std::env::set_current_dir(place.path())
        };
        enter().map_err(|source| RigError::Place {
            rig: rig.into(),
            what: format!("entering {}", place.path().display()),
            source,
        })?;
        Ok(Self { before, place })
    }
}

impl Drop for WorkingPlace {
    fn drop(&mut self) {
        if std::env::set_current_dir(&self.before).is_err() {
            let _ = std::env::set_current_dir("/");
        }
        let own = format!("sys-{}", std::process::id());
        let mut files = Vec::new();
        collect(self.place.path(), Path::new(&own), &mut files);
        if !files.is_empty() {
            *PRELOAD_FILES.lock().unwrap_or_else(PoisonError::into_inner) = files;
            // The preload removes its directory when the process ends, and complains on stderr when there is none.
            let _ = fs::create_dir(&own);
        }
    }
}

/// The files below `place/name`, by their path from `place` on.
fn collect(place: &Path, name: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) {
    for entry in fs::read_dir(place.join(name)).into_iter().flatten().flatten() {
        let name = name.join(entry.file_name());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(place, &name, files);
        } else if let Ok(content) = fs::read(entry.path()) {
            files.push((name, content));
        }
    }
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
}
