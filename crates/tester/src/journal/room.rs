//! Disk space that a run reserves for the journal before it changes the device. If other programs fill the disk during
//! the run, the device can still be restored and the restore recorded.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};

/// Bytes to reserve, the preferred size first. The preferred size is several times the largest journal, which
/// contains each attribute of a device with all parts. The smaller sizes are tried if the disk is too full, for
/// example because the journal used some of the reserved space.
const BYTES: [u32; 3] = [64 << 10, 32 << 10, 16 << 10];

/// A file that occupies the reserved space.
#[derive(Debug)]
pub(super) struct Room(PathBuf);

impl Room {
    /// Reserves the space, or keeps the space that an earlier process reserved.
    ///
    /// # Errors
    /// When the disk is full, and on any other error of the system.
    pub(super) fn take(path: &Path) -> io::Result<Self> {
        let room = Self(path.to_path_buf());
        let taken = room.fill();
        if taken.is_err() {
            room.give();
        }
        taken.map(|()| room)
    }

    fn fill(&self) -> io::Result<()> {
        let [most, fewer, least] = BYTES;
        self.fill_with(most)
            .or_else(|_| self.fill_with(fewer))
            .or_else(|_| self.fill_with(least))
    }

    fn fill_with(&self, bytes: u32) -> io::Result<()> {
        let mut file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(super::file::PRIVATE)
            .open(&self.0)?;
        match fallocate(&file, FallocateFlags::empty(), 0, bytes.into()) {
            // Writes zeros if the file system does not support `fallocate`, or if a sandbox forbids the call.
            Err(Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::EPERM) => file.write_all(&vec![0; bytes as usize]),
            taken => Ok(taken?),
        }
    }

    /// Frees the reserved space. Ignores errors, for example if the file is already absent.
    pub(super) fn give(&self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Whether the disk is full or the user's quota is used up.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_occupies_disk_until_given() {
        use std::os::unix::fs::MetadataExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("r.room");
        let room = Room::take(&path).unwrap();
        assert!(fs::metadata(&path).unwrap().blocks() * 512 >= u64::from(BYTES[0]));
        drop(Room::take(&path).unwrap());
        room.give();
        room.give();
        assert!(!path.exists());
    }

    #[test]
    fn failed_reservation_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("absent/r.room");
        assert_eq!(Room::take(&path).unwrap_err().kind(), ErrorKind::NotFound);
        assert!(is_full(&Errno::ENOSPC.into()) && is_full(&Errno::EDQUOT.into()));
        assert!(!is_full(&Errno::EACCES.into()));
    }
}
