//! The journal's file: written, locked, and looked at by who does not hold it.

use std::fs::{DirBuilder, File, Permissions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use verbatim_wire::MKey;

use super::{Area, Content, Journal, JournalError, Part, Pending};

/// Only its owner may read what has M_Keys in it, or hold a lock that others wait for.
const PRIVATE: u32 = 0o600;

/// Also where a version before this one made the file.
fn keep_private(file: &File) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(PRIVATE))
}

/// A journal on disk, one for each rig, locked for as long as it is open.
///
/// Each change writes a new file, syncs it, and renames it over the old one: after a crash at any instant
/// the journal is the old one or the new one.
#[derive(Debug)]
pub struct FileJournal {
    path: PathBuf,
    content: Content,
    _lock: File,
}

impl FileJournal {
    /// Opens and locks the journal of a rig in a directory, which is made if absent.
    ///
    /// # Errors
    /// When another process holds it, or it cannot be read.
    pub fn open(directory: &Path, rig: &str) -> Result<Self, JournalError> {
        let io = |path: &Path| {
            let path = path.to_path_buf();
            move |source| JournalError::Io { path, source }
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(io(directory))?;
        let lock_path = lock_place(directory, rig);
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(PRIVATE)
            .open(&lock_path)
            .map_err(io(&lock_path))?;
        keep_private(&lock).map_err(io(&lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(JournalError::Busy {
                    rig: rig.into(),
                    path: lock_path,
                });
            }
            Err(TryLockError::Error(source)) => {
                return Err(JournalError::Io {
                    path: lock_path,
                    source,
                });
            }
        }
        let path = place(directory, rig);
        let content = match read(&path) {
            Ok(content) => content,
            Err(Unread::Io(source)) => return Err(JournalError::Io { path, source }),
            Err(Unread::Damaged(what)) => return Err(JournalError::Damaged { path, what }),
        };
        Ok(Self {
            path,
            content,
            _lock: lock,
        })
    }

    /// Areas that an earlier run left changed.
    #[must_use]
    pub fn pending(&self) -> &[Pending] {
        &self.content.areas
    }

    /// Every M_Key that may be in force, the likeliest first.
    #[must_use]
    pub fn keys(&self) -> Vec<MKey> {
        self.content.keys.iter().filter_map(|words| key_of(words)).collect()
    }

    /// PortGUID of the device that the pending areas belong to, in words; empty when it did not tell.
    #[must_use]
    pub fn device(&self) -> &str {
        &self.content.device
    }

    /// The journal's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the journal of a rig lists, whether or not a process holds it; nothing when there is nothing to restore.
    #[must_use]
    pub fn look(directory: &Path, rig: &str) -> Option<Unrestored> {
        let path = place(directory, rig);
        let (content, damage) = match read(&path) {
            Ok(content) if content.areas.is_empty() => return None,
            Ok(content) => (content, String::new()),
            Err(Unread::Io(error)) => (Content::default(), error.to_string()),
            Err(Unread::Damaged(what)) => (Content::default(), format!("it is no journal: {what}")),
        };
        Some(Unrestored {
            path,
            keys: content.keys,
            lease_s: content.lease_s,
            areas: content.areas,
            damage,
        })
    }

    /// Whether a process holds the journal of a rig.
    #[must_use]
    pub fn is_held(directory: &Path, rig: &str) -> bool {
        File::options()
            .write(true)
            .open(lock_place(directory, rig))
            .is_ok_and(|lock| lock.try_lock().is_err())
    }

    /// Returns when no process holds the journal of a rig any more.
    pub fn wait_until_free(directory: &Path, rig: &str) {
        // Without the file nobody holds it.
        if let Ok(lock) = File::options().write(true).open(lock_place(directory, rig)) {
            let _ = lock.lock();
        }
    }

    fn write(&self) -> Result<(), JournalError> {
        let io = |source| JournalError::Io {
            path: self.path.clone(),
            source,
        };
        let directory = self.path.parent().unwrap_or(Path::new("."));
        if self.content.areas.is_empty() {
            match std::fs::remove_file(&self.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io(error)),
                _ => {}
            }
        } else {
            let part = self.path.with_extension("json.part");
            let mut file = File::options()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(PRIVATE)
                .open(&part)
                .map_err(io)?;
            keep_private(&file).map_err(io)?;
            let text = serde_json::to_vec_pretty(&self.content).expect("a journal is plain data");
            file.write_all(&text).map_err(io)?;
            file.sync_all().map_err(io)?;
            std::fs::rename(&part, &self.path).map_err(io)?;
        }
        File::open(directory)
            .and_then(|directory| directory.sync_all())
            .map_err(io)
    }
}

impl Journal for FileJournal {
    fn save(&mut self, area: &Area, parts: &[Part], keys: &[MKey]) -> Result<Vec<Part>, JournalError> {
        let kept = self.content.save(area, parts, keys);
        self.write()?;
        Ok(kept)
    }

    fn may_be_in_force(&mut self, keys: &[MKey], lease_s: u16) -> Result<(), JournalError> {
        let longer = lease_s > self.content.lease_s;
        self.content.lease_s = self.content.lease_s.max(lease_s);
        if self.content.add_keys(keys) || longer {
            self.write()
        } else {
            Ok(())
        }
    }

    fn settle(&mut self, area: &Area) -> Result<(), JournalError> {
        self.content.settle(area);
        self.write()
    }

    fn lease_s(&self) -> u16 {
        self.content.lease_s
    }

    fn identify(&mut self, device: &str) {
        // What is pending belongs to the device that it was saved of.
        if self.content.areas.is_empty() {
            self.content.device = device.into();
        }
    }
}

/// What a journal says is to be restored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unrestored {
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

impl Unrestored {
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

/// Where the journal of a rig is.
fn place(directory: &Path, rig: &str) -> PathBuf {
    directory.join(format!("{rig}.journal.json"))
}

/// What is locked for as long as a process holds it.
fn lock_place(directory: &Path, rig: &str) -> PathBuf {
    directory.join(format!("{rig}.lock"))
}

/// Why a journal's file tells nothing.
enum Unread {
    Io(io::Error),
    Damaged(String),
}

/// What a file holds; without the file, nothing is to be restored.
fn read(path: &Path) -> Result<Content, Unread> {
    match std::fs::read(path) {
        Ok(text) => parse(&text).map_err(Unread::Damaged),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Content::default()),
        Err(error) => Err(Unread::Io(error)),
    }
}

fn key_of(words: &str) -> Option<MKey> {
    u64::from_str_radix(words.strip_prefix("0x")?, 16).ok().map(MKey)
}

fn parse(text: &[u8]) -> Result<Content, String> {
    let content: Content = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    if content.version != 1 {
        return Err(format!("version {}, this program knows 1", content.version));
    }
    match content.keys.iter().find(|words| key_of(words).is_none()) {
        Some(words) => Err(format!("{words:?} is no M_Key")),
        None => Ok(content),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::area;
    use super::*;

    #[test]
    fn what_was_saved_is_there_after_reopening_and_gone_after_settling() {
        let directory = tempfile::tempdir().unwrap();
        let (area, parts) = area();
        let mut journal = FileJournal::open(directory.path(), "r").unwrap();
        journal.save(&area, &parts, &[MKey(0)]).unwrap();
        journal.may_be_in_force(&[MKey(7)], 15).unwrap();
        drop(journal);
        let mut journal = FileJournal::open(directory.path(), "r").unwrap();
        assert_eq!(
            journal.pending(),
            [Pending {
                area: area.clone(),
                parts
            }]
        );
        assert_eq!(journal.keys(), [MKey(7), MKey(0)], "the likeliest first");
        assert_eq!(journal.lease_s(), 15);
        journal.settle(&area).unwrap();
        assert!(!journal.path().exists());
    }

    #[test]
    fn a_second_process_is_told_that_the_rig_is_in_use() {
        let directory = tempfile::tempdir().unwrap();
        let _first = FileJournal::open(directory.path(), "r").unwrap();
        let error = FileJournal::open(directory.path(), "r").unwrap_err();
        assert!(matches!(error, JournalError::Busy { .. }), "{error}");
    }

    #[test]
    fn a_damaged_journal_is_an_error_that_says_what_to_do_and_never_an_empty_one() {
        let directory = tempfile::tempdir().unwrap();
        let (area, parts) = area();
        let mut journal = FileJournal::open(directory.path(), "r").unwrap();
        journal.save(&area, &parts, &[MKey(1)]).unwrap();
        let path = journal.path().to_path_buf();
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let error = FileJournal::open(directory.path(), "r").unwrap_err();
            assert!(matches!(error, JournalError::Damaged { .. }), "cut at {cut}: {error}");
        }
    }

    #[test]
    fn a_journal_is_read_while_a_worker_holds_it() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(FileJournal::look(directory.path(), "r"), None);
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
        let seen = FileJournal::look(directory.path(), "r").unwrap();
        let mut keys = seen.keys.clone();
        keys.sort();
        assert_eq!(keys, ["0x0000000000000077", "0x0000000000001234"]);
        assert_eq!((seen.lease_s, seen.in_words()), (15, vec!["PortInfo".to_string()]));
        held.settle(&area).unwrap();
        assert_eq!(FileJournal::look(directory.path(), "r"), None);
    }

    #[test]
    fn a_rig_is_held_until_who_holds_it_lets_go() {
        let directory = tempfile::tempdir().unwrap();
        assert!(!FileJournal::is_held(directory.path(), "r"));
        FileJournal::wait_until_free(directory.path(), "r");
        let held = FileJournal::open(directory.path(), "r").unwrap();
        assert!(FileJournal::is_held(directory.path(), "r") && !FileJournal::is_held(directory.path(), "other"));
        let path = directory.path().to_path_buf();
        let waiting = std::thread::spawn(move || FileJournal::wait_until_free(&path, "r"));
        drop(held);
        waiting.join().unwrap();
        assert!(!FileJournal::is_held(directory.path(), "r"));
    }

    #[test]
    fn a_journal_that_cannot_be_read_counts_as_something_to_restore() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("r.journal.json"), "{").unwrap();
        let seen = FileJournal::look(directory.path(), "r").unwrap();
        assert!(seen.in_words()[0].contains("it is no journal"), "{seen:?}");
    }
}
