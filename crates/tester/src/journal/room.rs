//! Room on the journal's disk, taken before the device is touched: a disk that others fill in mid-run must not keep a device
//! from being restored, nor what was restored from being told.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};

/// Bytes that are kept: several times the largest journal, which holds each attribute of a device with all its parts; or less,
/// where the journal has used some of it.
const BYTES: [u32; 3] = [64 << 10, 32 << 10, 16 << 10];

/// A file that holds the place until it is needed.
#[derive(Debug)]
pub(super) struct Room(PathBuf);

impl Room {
    /// Takes the room, or keeps what a process before this one took.
    ///
    /// # Errors
    /// When the disk is full, or what else the system says.
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
            // A file system that cannot promise room, or a sandbox that does not let it, gives it to bytes.
            Err(Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::EPERM) => file.write_all(&vec![0; bytes as usize]),
            taken => Ok(taken?),
        }
    }

    /// Gives it up, for the journal to use. Without the file there was none.
    pub(super) fn give(&self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Whether a disk has no room, or its user may have no more of it.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_is_on_the_disk_until_it_is_given_up() {
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
    fn no_room_is_an_error_and_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("absent/r.room");
        assert_eq!(Room::take(&path).unwrap_err().kind(), ErrorKind::NotFound);
        assert!(is_full(&Errno::ENOSPC.into()) && is_full(&Errno::EDQUOT.into()));
        assert!(!is_full(&Errno::EACCES.into()));
    }
}
