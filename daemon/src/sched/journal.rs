//! A look at a rig's restore journal, without its lock: it is the worker's. And whether there is such a worker.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use verbatim_tester::Pending;

/// What a journal says is to be restored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Journal {
    /// Its file.
    pub path: PathBuf,
    /// Every M_Key that may be in force, the likeliest first, in hexadecimal.
    pub keys: Vec<String>,
    /// The longest lease period in seconds that a test asked for.
    pub lease_s: u16,
    /// Areas, in the order in which they were changed.
    pub areas: Vec<Pending>,
    /// Why it cannot be read; empty when it can.
    pub damage: String,
}

#[derive(Deserialize)]
struct Content {
    keys: Vec<String>,
    lease_s: u16,
    areas: Vec<Pending>,
}

impl Journal {
    /// The journal of a rig, if something is left to restore, or nobody can tell.
    #[must_use]
    pub fn look(directory: &Path, rig: &str) -> Option<Self> {
        let path = directory.join(format!("{rig}.journal.json"));
        let read = std::fs::read(&path).map(|text| serde_json::from_slice::<Content>(&text));
        let empty = |path: PathBuf, damage: String| Self {
            path,
            keys: Vec::new(),
            lease_s: 0,
            areas: Vec::new(),
            damage,
        };
        match read {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => Some(empty(path, error.to_string())),
            Ok(Err(error)) => Some(empty(path, format!("it is no journal: {error}"))),
            Ok(Ok(content)) if content.areas.is_empty() => None,
            Ok(Ok(content)) => Some(Self {
                path,
                keys: content.keys,
                lease_s: content.lease_s,
                areas: content.areas,
                damage: String::new(),
            }),
        }
    }

    /// The areas, or the damage, in words.
    #[must_use]
    pub fn in_words(&self) -> Vec<String> {
        if self.damage.is_empty() {
            self.areas.iter().map(|pending| pending.area.name.clone()).collect()
        } else {
            vec![format!("unknown: {}: {}", self.path.display(), self.damage)]
        }
    }
}

/// Whether a process holds the rig: the worker of a daemon that died may still be restoring it.
#[must_use]
pub(super) fn is_held(directory: &Path, rig: &str) -> bool {
    open_lock(directory, rig).is_ok_and(|lock| lock.try_lock().is_err())
}

/// Returns when no process holds the rig any more.
pub(super) fn wait_until_free(directory: &Path, rig: &str) {
    // Without the file nobody holds it.
    if let Ok(lock) = open_lock(directory, rig) {
        let _ = lock.lock();
    }
}

fn open_lock(directory: &Path, rig: &str) -> io::Result<File> {
    File::options().write(true).open(directory.join(format!("{rig}.lock")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbatim_tester::{Area, FileJournal, Journal as _, Part};
    use verbatim_wire::MKey;

    #[test]
    fn a_journal_is_read_while_a_worker_holds_it() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(Journal::look(directory.path(), "r"), None);
        let mut held = FileJournal::open(directory.path(), "r").unwrap();
        let area = Area {
            attribute: 0x15,
            name: "PortInfo".into(),
        };
        let part = Part {
            modifier: 1,
            data: vec![0; 64],
        };
        held.save(&area, &[part], &[MKey(0x1234)]).unwrap();
        held.may_be_in_force(&[MKey(0x77)], 15).unwrap();
        let seen = Journal::look(directory.path(), "r").unwrap();
        let mut keys = seen.keys.clone();
        keys.sort();
        assert_eq!(keys, ["0x0000000000000077", "0x0000000000001234"]);
        assert_eq!((seen.lease_s, seen.in_words()), (15, vec!["PortInfo".to_string()]));
        held.settle(&area).unwrap();
        assert_eq!(Journal::look(directory.path(), "r"), None);
    }

    #[test]
    fn a_rig_is_held_until_who_holds_it_lets_go() {
        let directory = tempfile::tempdir().unwrap();
        assert!(!is_held(directory.path(), "r"));
        wait_until_free(directory.path(), "r");
        let held = FileJournal::open(directory.path(), "r").unwrap();
        assert!(is_held(directory.path(), "r") && !is_held(directory.path(), "other"));
        let path = directory.path().to_path_buf();
        let waiting = std::thread::spawn(move || wait_until_free(&path, "r"));
        drop(held);
        waiting.join().unwrap();
        assert!(!is_held(directory.path(), "r"));
    }

    #[test]
    fn a_journal_that_cannot_be_read_counts_as_something_to_restore() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("r.journal.json"), "{").unwrap();
        let seen = Journal::look(directory.path(), "r").unwrap();
        assert!(seen.in_words()[0].contains("it is no journal"), "{seen:?}");
    }
}
