//! Temporary directories. If their process was killed, the next process removes the directories.

use std::{
    env,
    fs::{self, File},
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use crate::machine::{MachineError, error::path_error};

/// Upper bound (exclusive) of the length of a Unix socket's path, in bytes.
pub(crate) const PATH_LIMIT: usize = 108;

/// A directory of this process. The path is short enough for the sockets in the directory.
#[derive(Debug)]
pub(crate) struct Place {
    // Fields are dropped in order, so the directory is removed before the lock is released.
    directory: TempDir,
    _lock: File,
}

impl Place {
    /// Makes an empty directory, whose name contains `kind`. Removes directories of that kind whose processes have
    /// ended.
    pub(crate) fn new(kind: &str) -> Result<Self, MachineError> {
        let usual = env::temp_dir();
        let above = if usual.as_os_str().len() + 40 < PATH_LIMIT {
            usual
        } else {
            PathBuf::from("/tmp")
        };
        Self::new_in(&above, kind)
    }

    fn new_in(above: &Path, kind: &str) -> Result<Self, MachineError> {
        let prefix = format!("verbatim-{kind}-");
        sweep(above, &prefix);
        let failed = |error| path_error("making a directory in", above)(error);
        let directory = tempfile::Builder::new()
            .prefix(&prefix)
            .tempdir_in(above)
            .map_err(failed)?;
        // Lock the file before it gets its name, so that other processes always see a locked file.
        let lock = tempfile::NamedTempFile::new_in(directory.path()).map_err(failed)?;
        lock.as_file().lock().map_err(failed)?;
        let lock = lock
            .persist(directory.path().join("lock"))
            .map_err(|error| failed(error.error))?;
        Ok(Self { directory, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Removes the directories whose lock is free.
fn sweep(above: &Path, prefix: &str) {
    for entry in fs::read_dir(above).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(prefix);
        if !is_ours {
            continue;
        }
        // Keep a directory without a lock file: another process is making it.
        let free = File::open(entry.path().join("lock")).is_ok_and(|lock| lock.try_lock().is_ok());
        if free {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_only_dead_processes_directories() {
        let above = tempfile::tempdir().unwrap();
        let living = Place::new_in(above.path(), "test").unwrap();
        let dead = above.path().join("verbatim-test-dead");
        let other = above.path().join("other-test");
        for path in [&dead, &other] {
            fs::create_dir(path).unwrap();
            fs::write(path.join("lock"), "").unwrap();
        }
        let second = Place::new_in(above.path(), "test").unwrap();
        assert!(living.path().is_dir() && second.path().is_dir() && other.is_dir());
        assert!(!dead.exists());
        let path = living.path().to_path_buf();
        drop(living);
        assert!(!path.exists());
    }
}
