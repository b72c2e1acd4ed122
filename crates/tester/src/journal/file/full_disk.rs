//! Tests with a full journal disk. A changed device can still be restored, and a journal without reserved space cannot
//! be opened for a new run.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use verbatim_wire::{AttributeId, MKey};

use super::{Area, FileJournal, Journal, JournalError, Part};

/// A file system in memory, unmounted when dropped.
struct Small(tempfile::TempDir);

impl Small {
    /// Returns `None` if this user may not mount.
    fn mount() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let arguments = ["-t", "tmpfs", "-o", "size=512k,mode=700", "tmpfs"];
        let mounted = Command::new("mount").args(arguments).arg(directory.path()).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(directory));
        }
        eprintln!("skipped: this user may not mount a file system; root may");
        None
    }

    /// Fills the file system to the last byte.
    fn fill(&self) {
        let mut file = File::options()
            .create(true)
            .append(true)
            .open(self.0.path().join("filler"))
            .unwrap();
        for size in [1 << 12, 1] {
            while file.write_all(&vec![1; size]).is_ok() {}
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

fn area(number: u16) -> (Area, Vec<Part>) {
    let area = Area {
        attribute: AttributeId::PORT_INFO.0 + number,
        name: format!("attribute {number}"),
        own: false,
    };
    let part = |modifier| Part {
        modifier,
        data: vec![7; 64],
    };
    (area, (0..32).map(part).collect())
}

fn open(at: &Path) -> Result<FileJournal, JournalError> {
    FileJournal::open(&at.join("journals"), "r")
}

#[test]
fn saves_and_restores_on_full_disk() {
    let Some(disk) = Small::mount() else { return };
    let mut journal = open(disk.0.path()).unwrap();
    let (first, parts) = area(0);
    journal.save(&first, &parts, &[MKey(1)]).unwrap();
    disk.fill();
    for number in 1..4 {
        let (area, parts) = area(number);
        journal.save(&area, &parts, &[MKey(number.into())]).unwrap();
    }
    drop(journal);

    // The next process opens the journal on the full disk and settles all areas.
    disk.fill();
    let mut journal = open(disk.0.path()).unwrap();
    assert_eq!(journal.pending().len(), 4);
    for number in (0..4).rev() {
        journal.settle(&area(number).0).unwrap();
    }
    drop(journal);

    disk.fill();
    let error = open(disk.0.path()).unwrap_err();
    assert!(
        matches!(error, JournalError::NoRoom { .. }) && error.to_string().contains("nothing was sent to the device"),
        "{error}"
    );
    fs::remove_file(disk.0.path().join("filler")).unwrap();
    assert!(open(disk.0.path()).unwrap().pending().is_empty());
}
