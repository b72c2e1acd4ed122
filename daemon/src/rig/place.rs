//! A directory of a rig's own, for what libraries and sockets leave behind.

use std::io;
use std::path::PathBuf;

use tempfile::TempDir;

use super::error::RigError;

/// A private temporary directory, removed when dropped.
pub(super) fn make(rig: &str) -> Result<TempDir, RigError> {
    tempfile::Builder::new()
        .prefix("verbatim-rig-")
        .tempdir()
        .map_err(|source| RigError::Place {
            rig: rig.into(),
            what: format!("making a directory in {}", std::env::temp_dir().display()),
            source,
        })
}

/// The working directory of the process is a private one until this is dropped.
///
/// ibsim's preload writes `sys-<process>/` where the process is, and would leave it behind after a crash.
#[derive(Debug)]
pub(super) struct WorkingPlace {
    before: PathBuf,
    /// Dropped, and so removed, after the process left it.
    _directory: TempDir,
}

impl WorkingPlace {
    pub(super) fn enter(rig: &str) -> Result<Self, RigError> {
        let failed = |what: String| {
            let rig = rig.to_owned();
            move |source: io::Error| RigError::Place { rig, what, source }
        };
        // A working directory that is gone is no reason to fail: the root always is.
        let before = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        let directory = make(rig)?;
        std::env::set_current_dir(directory.path())
            .map_err(failed(format!("entering {}", directory.path().display())))?;
        Ok(Self {
            before,
            _directory: directory,
        })
    }
}

impl Drop for WorkingPlace {
    fn drop(&mut self) {
        if std::env::set_current_dir(&self.before).is_err() {
            let _ = std::env::set_current_dir("/");
        }
    }
}
