//! Reads the compressed records and bundles of the source tree, for tests.
//!
//! Golden records: `crates/catalog/tests/golden/TEST.tar.zst` holds `TEST.rec` and, for each defect, a
//! `TEST@DEFECT.rec`. The records of a test share most of their bytes, so one archive for each test takes half the
//! space of one archive for each record. `cargo xtask golden` writes the archives. Bundles are `.tar.gz` archives,
//! because users unpack bundles too.

pub mod golden;

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// Unpacks an archive of bundles into a temporary directory, and returns the directory.
///
/// # Panics
/// When the program `tar` is absent or cannot unpack the archive.
#[must_use]
pub fn unpack(archive: &Path) -> TempDir {
    let directory = TempDir::new().unwrap_or_else(|error| panic!("a temporary directory: {error}"));
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(archive).arg("-C").arg(directory.path());
    let status = tar.status().unwrap_or_else(|error| panic!("tar: {error}"));
    assert!(status.success(), "tar cannot unpack {}: {status}", archive.display());
    directory
}
