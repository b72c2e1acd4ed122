//! The journal file: written and locked by one process, read by others without the lock.

use std::fs::{DirBuilder, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use sha2::{Digest, Sha256};
use verbatim_wire::MKey;

use super::room::{Room, is_full};
use super::witness::Witness;
use super::{Area, Content, Journal, JournalError, Owner, Part, Pending, VERSION};
use crate::Step;

/// File mode: only the owner of a file may read its M_Keys or take its lock.
pub(super) const PRIVATE: u32 = 0o600;

const JOURNAL: &str = ".journal.json";
const LOCK: &str = ".lock";
/// Tries to lock a journal, and the time between two tries.
const LOCK_TRIES: u32 = 10;
const LOCK_TRY_EVERY: Duration = Duration::from_millis(10);
/// The journal file of a rig, locked as long as this value exists. Each rig has a directory of its own, so that a
/// worker process can be given access to that directory alone.
///
/// Each change writes a new file, syncs it, and renames it over the old file. After a crash at any instant, the journal
/// is therefore the complete old file or the complete new file.
#[derive(Debug)]
pub struct FileJournal {
    path: PathBuf,
    content: Content,
    lock: File,
    /// Reserved disk space. `None` if no space could be reserved.
    room: Option<Room>,
}

impl FileJournal {
    /// Opens and locks the journal of a rig in `directory`, which is created if absent. A journal of the same device
    /// under another rig's name is renamed to this rig.
    ///
    /// # Errors
    /// When another process holds the journal, when it cannot be read, and when it belongs to another device.
    pub fn open(directory: &Path, owner: impl Into<Owner>) -> Result<Self, JournalError> {
        let owner = owner.into();
        make(directory, &owner.rig).map_err(io(directory))?;
        let lock = lock(directory, &owner.rig)?;
        let path = place(directory, &owner.rig);
        let mut of_before = None;
        if !path.exists()
            && let Some(rig) = of_the_same_device(directory, &owner)
        {
            let other = place(directory, &rig);
            let _other = self::lock(directory, &rig)?;
            if let Err(Unread::Damaged(what)) = read(directory, &rig) {
                let lock = lock_place(directory, &rig);
                return Err(JournalError::Damaged {
                    path: other,
                    lock,
                    what,
                });
            }
            std::fs::rename(&other, &path).map_err(io(&other))?;
            let (own, its) = (lock_place(directory, &owner.rig), lock_place(directory, &rig));
            of_before = Some(Witness::read(&own).map_or(0, |witness| witness.generation));
            let generation = Witness::read(&its).map_or(0, |witness| witness.generation);
            let moved = Witness {
                generation,
                owner: Some(owner.clone()),
                ..Witness::default()
            };
            moved.write(&lock, &own).map_err(io(&path))?;
            if let Ok(gone) = File::options().read(true).write(true).open(&its) {
                let settled = Witness {
                    generation: generation + 1,
                    ..Witness::default()
                };
                settled.write(&gone, &its).map_err(io(&other))?;
            }
        }
        let content = match read(directory, &owner.rig) {
            Ok(content) => content,
            Err(Unread::Io(source)) => return Err(JournalError::Io { path, source }),
            Err(Unread::Damaged(what)) => {
                let lock = lock_place(directory, &owner.rig);
                return Err(JournalError::Damaged { path, lock, what });
            }
        };
        // A journal with a PortGUID is accepted even if the rig file now names another device, because a cable or
        // socket may have moved. The run compares the PortGUID with the device before the first Set.
        if !content.areas.is_empty() && content.device.is_empty() && !content.owner.is_same_device(&owner) {
            return Err(JournalError::OtherDevice {
                path,
                rig: owner.rig,
                kept: content.owner.device,
                named: owner.device,
            });
        }
        let room = match Room::take(&path.with_extension("room")) {
            Ok(room) => Some(room),
            Err(_) if !content.areas.is_empty() => None,
            Err(source) if is_full(&source) => return Err(JournalError::NoRoom { path, source }),
            Err(source) => return Err(JournalError::Io { path, source }),
        };
        let content = Content { owner, ..content };
        let mut journal = Self {
            path,
            content,
            lock,
            room,
        };
        if let Some(generation) = of_before {
            // The generations of this rig never become smaller.
            journal.content.generation = journal.content.generation.max(generation);
            journal.write()?;
        }
        Ok(journal)
    }

    /// Returns how often the rig's journals have changed so far.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.content.generation
    }

    /// Returns the directory of a rig's journal and its companion files, within the directory of all journals.
    #[must_use]
    pub fn directory(journals: &Path, rig: &str) -> PathBuf {
        journals.join(rig)
    }

    /// Returns the areas that an earlier run left changed.
    #[must_use]
    pub fn pending(&self) -> &[Pending] {
        &self.content.areas
    }

    /// Returns every M_Key that may be in force, the likeliest first.
    #[must_use]
    pub fn keys(&self) -> Vec<MKey> {
        self.content.keys.iter().filter_map(|words| key_of(words)).collect()
    }

    /// Returns the changes that an earlier run left, with the data needed to restore them.
    #[must_use]
    pub fn left(&self) -> Left {
        Left {
            areas: self.content.areas.clone(),
            keys: self.keys(),
            device: self.content.device.clone(),
            path: self.path.clone(),
        }
    }

    /// Returns the PortGUID, as text, of the device that the pending areas belong to; empty if unknown.
    #[must_use]
    pub fn device(&self) -> &str {
        &self.content.device
    }

    /// Returns the path of the journal file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the journal of a rig, or else the journal that another rig left for the same device. Takes no lock.
    /// Returns `None` if nothing is to be restored.
    #[must_use]
    pub fn look(directory: &Path, owner: impl Into<Owner>) -> Option<Unrestored> {
        let owner = owner.into();
        let own = Unrestored::of(directory, &owner.rig).map(|own| own.checked(&owner));
        own.or_else(|| of_the_same_device(directory, &owner).and_then(|rig| Unrestored::of(directory, &rig)))
    }

    /// Reads every journal in a directory. Returns the journals that are damaged or have something to restore, sorted
    /// by rig.
    #[must_use]
    pub fn all(directory: &Path) -> Vec<Unrestored> {
        let mut rigs: Vec<String> = rigs(directory).collect();
        rigs.sort();
        rigs.dedup();
        rigs.iter().filter_map(|rig| Unrestored::of(directory, rig)).collect()
    }

    /// Like [`FileJournal::look`], but searches `all`, a result of [`FileJournal::all`]. For many rigs, the
    /// directory is then read only once.
    #[must_use]
    pub fn among(all: &[Unrestored], owner: impl Into<Owner>) -> Option<Unrestored> {
        let owner = owner.into();
        let name = format!("{}{JOURNAL}", owner.rig);
        let of_rig = |of: &&Unrestored| of.path.file_name().is_some_and(|file| *file == *name);
        let same = |of: &&Unrestored| !owner.device.is_empty() && of.owner.device == owner.device;
        let own = all.iter().find(of_rig).cloned().map(|own| own.checked(&owner));
        own.or_else(|| all.iter().find(same).cloned())
    }

    /// Whether a process holds the lock of a rig's journal.
    #[must_use]
    pub fn is_held(directory: &Path, rig: &str) -> bool {
        File::options()
            .write(true)
            .open(lock_place(directory, rig))
            .is_ok_and(|lock| lock.try_lock().is_err())
    }

    /// Creates the lock file of a rig's journal if it is absent. If the lock file is removed later,
    /// [`FileJournal::miss`] notices.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn prepare(directory: &Path, rig: &str) -> io::Result<()> {
        make(directory, rig)?;
        let path = lock_place(directory, rig);
        let made = File::options().create_new(true).write(true).mode(PRIVATE).open(path);
        match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made.map(drop),
        }
    }

    /// Checks for a removed journal, after a process died while it used the rig. [`FileJournal::prepare`] made a
    /// lock file, so if neither this file nor a journal exists, someone removed them. Then writes a new lock file,
    /// which records that a journal must exist. Returns whether both files were absent.
    ///
    /// # Errors
    /// When the lock file cannot be written.
    pub fn miss(directory: &Path, rig: &str) -> io::Result<bool> {
        if lock_place(directory, rig).exists() || place(directory, rig).exists() {
            return Ok(false);
        }
        Self::require(directory, &rig.into(), 0, "")?;
        Ok(true)
    }

    /// Records in the lock file that a journal of at least this generation must exist. `missed` is the reason why this
    /// journal counts as missing.
    ///
    /// # Errors
    /// When the lock file cannot be written.
    pub fn require(directory: &Path, owner: &Owner, generation: u64, missed: &str) -> io::Result<()> {
        Self::prepare(directory, &owner.rig)?;
        let path = lock_place(directory, &owner.rig);
        let lock = File::options().read(true).write(true).open(&path)?;
        let found = Witness::read(&path).unwrap_or_default();
        let witness = Witness {
            generation: generation.max(found.generation),
            owner: Some(owner.clone()),
            missed: missed.into(),
        };
        witness.write(&lock, &path)
    }

    /// Returns [`FileJournal::generation`] of a rig without its lock; `None` if the journal is damaged.
    #[must_use]
    pub fn generation_of(directory: &Path, rig: &str) -> Option<u64> {
        read(directory, rig).ok().map(|content| content.generation)
    }

    /// Checks for a removed journal, when another source says that the device is still changed. If the journal is
    /// absent, records in the lock file that a journal must exist. Returns whether the journal is absent.
    ///
    /// # Errors
    /// When the lock file cannot be written.
    pub fn must_be_there(directory: &Path, owner: &Owner) -> io::Result<bool> {
        if place(directory, &owner.rig).exists() {
            return Ok(false);
        }
        if Witness::read(&lock_place(directory, &owner.rig)).is_ok_and(|witness| witness.owner.is_none()) {
            Self::require(directory, owner, 0, "")?;
        }
        Ok(true)
    }

    /// Writes the journal. If the disk is full, frees the reserved space and tries again.
    fn write(&mut self) -> Result<(), JournalError> {
        match self.try_to_write() {
            Err(JournalError::Io { source, .. }) if is_full(&source) && self.room.is_some() => {
                self.room.take().inspect(Room::give);
                let written = self.try_to_write();
                self.room = Room::take(&self.path.with_extension("room")).ok();
                written
            }
            written => written,
        }
    }

    fn try_to_write(&mut self) -> Result<(), JournalError> {
        let io = io(&self.path);
        let directory = self.path.parent().unwrap_or(Path::new("."));
        let lock = directory.join(format!("{}{LOCK}", self.content.owner.rig));
        self.content.generation += 1;
        let witness = Witness {
            generation: self.content.generation,
            owner: (!self.content.areas.is_empty()).then(|| self.content.owner.clone()),
            ..Witness::default()
        };
        if self.content.areas.is_empty() {
            // The lock file is cleared before the journal is removed, and filled after the journal is written. After
            // a crash between the two steps, the journal is newer than the record, or one generation older than the
            // record of its end. A crash never leaves the record of a journal that does not exist.
            witness.write(&self.lock, &lock).map_err(&io)?;
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
                .map_err(&io)?;
            self.content.version = VERSION;
            self.content.checksum = checksum(&self.content);
            let text = serde_json::to_vec_pretty(&self.content).expect("a journal is plain data");
            file.write_all(&text).map_err(&io)?;
            file.sync_all().map_err(&io)?;
            std::fs::rename(&part, &self.path).map_err(&io)?;
            witness.write(&self.lock, &lock).map_err(&io)?;
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

    fn identify(&mut self, device: &str) -> Step {
        // Pending areas belong to the device that they were saved from, so their PortGUID is kept.
        if self.content.areas.is_empty() {
            self.content.device = device.into();
        }
        Ok(())
    }
}

impl Drop for FileJournal {
    /// Frees the reserved space, unless areas are still to be restored.
    fn drop(&mut self) {
        if let (true, Some(room)) = (self.content.areas.is_empty(), &self.room) {
            room.give();
        }
    }
}

/// The changes that a run left, with the data needed to restore them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Left {
    /// Areas, in the order in which they were changed.
    pub areas: Vec<Pending>,
    /// Every M_Key that may be in force, the likeliest first.
    pub keys: Vec<MKey>,
    /// PortGUID of the device as text; empty if unknown.
    pub device: String,
    /// The journal's file.
    pub path: PathBuf,
}

/// The content of a journal that has something to restore.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unrestored {
    /// The journal file.
    pub path: PathBuf,
    /// Every M_Key that may be in force, the likeliest first, in hexadecimal.
    pub keys: Vec<String>,
    /// The longest lease period, in seconds, that a test requested.
    pub lease_s: u16,
    /// Areas, in the order in which they were changed.
    pub areas: Vec<Pending>,
    /// The rig that the journal was made for.
    pub owner: Owner,
    /// PortGUID of the device as text; empty if unknown.
    pub device: String,
    /// The reason why the journal cannot be used; empty if it can.
    pub damage: String,
}

impl Unrestored {
    fn of(directory: &Path, rig: &str) -> Option<Self> {
        let (content, damage) = match read(directory, rig) {
            Ok(content) if content.areas.is_empty() => return None,
            Ok(content) => (content, String::new()),
            Err(Unread::Io(error)) => (Content::default(), error.to_string()),
            Err(Unread::Damaged(what)) => (Content::default(), format!("it is no journal: {what}")),
        };
        let owner = if content.owner.rig.is_empty() {
            witnessed(directory, rig)
        } else {
            content.owner
        };
        Some(Self {
            path: place(directory, rig),
            keys: content.keys,
            lease_s: content.lease_s,
            areas: content.areas,
            owner,
            device: content.device,
            damage,
        })
    }

    /// Marks the journal as damaged if it belongs to another device than the rig names now.
    fn checked(mut self, owner: &Owner) -> Self {
        if self.damage.is_empty() && self.device.is_empty() && !self.owner.is_same_device(owner) {
            self.damage = format!(
                "it belongs to {}, but the rig now names {}",
                self.owner.device, owner.device
            );
        }
        self
    }

    /// Returns the path of the lock file. A process locks it while it holds the journal, and its content records
    /// whether a journal must exist.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let rig = name.strip_suffix(JOURNAL).unwrap_or(&name);
        self.path.with_file_name(format!("{rig}{LOCK}"))
    }

    /// Returns the names of the areas, or a description of the damage.
    #[must_use]
    pub fn in_words(&self) -> Vec<String> {
        if self.damage.is_empty() {
            self.areas.iter().map(|pending| pending.area.name.clone()).collect()
        } else {
            vec![format!("unknown: {}: {}", self.path.display(), self.damage)]
        }
    }
}

/// Creates the directory of a rig's journal if it is absent.
fn make(directory: &Path, rig: &str) -> io::Result<()> {
    let of_rig = FileJournal::directory(directory, rig);
    if of_rig.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(of_rig)?;
    // A synced file in the directory survives a crash only if the directory entry is synced, too.
    File::open(directory)?.sync_all()
}

/// Returns the path of a rig's journal.
fn place(directory: &Path, rig: &str) -> PathBuf {
    FileJournal::directory(directory, rig).join(format!("{rig}{JOURNAL}"))
}

/// Returns the path of the lock file of a rig's journal.
fn lock_place(directory: &Path, rig: &str) -> PathBuf {
    FileJournal::directory(directory, rig).join(format!("{rig}{LOCK}"))
}

/// The reason why a journal file cannot be read.
enum Unread {
    Io(io::Error),
    Damaged(String),
}

/// Reads the journal of a rig. If the file is absent, nothing is to be restored, unless the lock file records that a
/// journal must exist. A journal of an older generation than the lock file records is damage too.
fn read(directory: &Path, rig: &str) -> Result<Content, Unread> {
    let mut found = read_once(directory, rig)?;
    // Another process may have saved or settled the journal while this one read the two files.
    for _ in 0..2 {
        if found.is_err() {
            found = read_once(directory, rig)?;
        }
    }
    found.map_err(Unread::Damaged)
}

/// Reads both files once. The inner error is the reason why the two files do not belong together.
fn read_once(directory: &Path, rig: &str) -> Result<Result<Content, String>, Unread> {
    let journal = match std::fs::read(place(directory, rig)) {
        Ok(text) => Some(parse(&text).map_err(Unread::Damaged)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(Unread::Io(error)),
    };
    let witness = match Witness::read(&lock_place(directory, rig)) {
        Ok(witness) => witness,
        Err(what) => return Ok(Err(what)),
    };
    let older = |content: &Content| {
        format!(
            "its generation is {}, but the last change had generation {}: an older copy was put back, such as a backup",
            content.generation, witness.generation
        )
    };
    Ok(match (journal, &witness.owner) {
        (None, None) => Ok(Content {
            generation: witness.generation,
            ..Content::default()
        }),
        (None, Some(_)) if witness.missed.is_empty() => {
            Err("the file is gone, and no record shows that the device was restored".into())
        }
        (None, Some(_)) => Err(witness.missed),
        (Some(content), Some(_)) if content.generation < witness.generation => Err(older(&content)),
        // The process died after it had recorded the restore, and before it removed the journal.
        (Some(content), None) if content.generation + 1 == witness.generation => Ok(Content {
            generation: witness.generation,
            ..Content::default()
        }),
        (Some(content), None) if content.generation < witness.generation => Err(older(&content)),
        (Some(content), _) => Ok(content),
    })
}

/// Returns the owner that the lock file records, or else an owner with the rig's name alone.
fn witnessed(directory: &Path, rig: &str) -> Owner {
    let witness = Witness::read(&lock_place(directory, rig)).unwrap_or_default();
    let owner = witness.owner.filter(|owner| !owner.rig.is_empty());
    owner.unwrap_or_else(|| rig.into())
}

fn io(path: &Path) -> impl Fn(io::Error) -> JournalError + use<> {
    let path = path.to_path_buf();
    move |source| JournalError::Io {
        path: path.clone(),
        source,
    }
}

fn lock(directory: &Path, rig: &str) -> Result<File, JournalError> {
    let path = lock_place(directory, rig);
    let lock = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(PRIVATE)
        .open(&path)
        .map_err(io(&path))?;
    // A child process that another thread starts keeps the lock until it executes its program.
    for try_number in 1.. {
        match lock.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if try_number < LOCK_TRIES => thread::sleep(LOCK_TRY_EVERY),
            Err(TryLockError::WouldBlock) => return Err(JournalError::Busy { rig: rig.into(), path }),
            Err(TryLockError::Error(source)) => return Err(JournalError::Io { path, source }),
        }
    }
    Ok(lock)
}

/// Returns the rigs that have a journal or a lock file.
fn rigs(directory: &Path) -> impl Iterator<Item = String> {
    let names = std::fs::read_dir(directory).into_iter().flatten().flatten();
    names.filter_map(|entry| {
        let rig = entry.file_name().into_string().ok()?;
        (place(directory, &rig).exists() || lock_place(directory, &rig).exists()).then_some(rig)
    })
}

/// Returns another rig that left a journal of the same device, damaged or not.
fn of_the_same_device(directory: &Path, owner: &Owner) -> Option<String> {
    if owner.device.is_empty() {
        return None;
    }
    rigs(directory).filter(|rig| *rig != owner.rig).find(|rig| {
        let its = match read(directory, rig) {
            Ok(content) if content.areas.is_empty() => return false,
            Ok(content) => content.owner,
            Err(Unread::Damaged(_)) => witnessed(directory, rig),
            Err(Unread::Io(_)) => return false,
        };
        its.device == owner.device
    })
}

fn key_of(words: &str) -> Option<MKey> {
    u64::from_str_radix(words.strip_prefix("0x")?, 16).ok().map(MKey)
}

/// Returns the SHA-256 of a journal's content without the checksum itself, in hexadecimal.
fn checksum(content: &Content) -> String {
    let bare = Content {
        checksum: String::new(),
        ..content.clone()
    };
    let text = serde_json::to_vec(&bare).expect("a journal is plain data");
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse(text: &[u8]) -> Result<Content, String> {
    let content: Content = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    match content.version {
        VERSION if content.checksum == checksum(&content) => {}
        VERSION => return Err("its checksum does not match its content: it was altered or damaged".into()),
        other => {
            return Err(format!(
                "it has version {other}, and this program reads version {VERSION}"
            ));
        }
    }
    match content.keys.iter().find(|words| key_of(words).is_none()) {
        Some(words) => Err(format!("{words:?} is no M_Key")),
        None => Ok(content),
    }
}

#[cfg(test)]
mod full_disk;
#[cfg(test)]
mod tests;
