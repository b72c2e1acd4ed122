//! A device that a run may change: its locks, and its journal of changes to restore.
//!
//! Two rigs may use the same device by different routes. The rig file does not show this, but both routes lead to
//! the same PortGUID. The tester reads the PortGUID before it changes the device, and then also locks the device
//! under the PortGUID.
//!
//! The records of the locks contain the journal directory of the last run, and whether that run left the device
//! changed. A run with another state directory or another route learns of the change from these records.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use verbatim_rig::{RigConfig, RigKind};
use verbatim_tester::{Area, FileJournal, Journal, JournalError, JournalOwner, Left, Part, Pending, Step, Stop};
use verbatim_wire::MKey;

use super::locks::{Holder, Lock, Records};
use super::{DeviceLock, journal_owner, lock};
use crate::RunError;
use crate::lease::Lease;

/// Interval between two tries to lock a device.
const TRIES_EVERY: Duration = Duration::from_millis(100);
/// Time limit of the tries to lock the rig's own device. It is short, because a daemon that checks the device with
/// [`super::look`] holds the lock only for one or two seconds.
const LOOK_AT_MOST: Duration = Duration::from_secs(5);

/// The conditions under which a run waits for a device.
#[derive(Clone, Debug)]
pub(crate) struct Patience {
    /// Set to stop the run.
    pub(crate) cancel: Arc<AtomicBool>,
    pub(crate) lease: Arc<Lease>,
}

/// Exclusive use of a device, with its journal. Dropping this value ends the use.
#[derive(Debug)]
pub(crate) struct Claimed {
    // Fields are dropped in this order: the locks first, so that the device is free once the journal is free.
    by_guid: Option<(String, Lock)>,
    device: DeviceLock,
    journal: FileJournal,
    rig: RigConfig,
    journals: PathBuf,
    patience: Patience,
}

impl Claimed {
    /// Opens a rig's journal and locks the device that the rig file names.
    ///
    /// # Errors
    /// When another process has the journal or the device, when the journal cannot be used, or when a run with another
    /// state directory left the device changed.
    pub(crate) fn open(rig: &RigConfig, journals: &Path, patience: Patience) -> Result<Self, RunError> {
        miss(rig, journals)?;
        let journal = FileJournal::open(journals, journal_owner(rig))?;
        let begun = Instant::now();
        let device = DeviceLock::take_again(rig, || {
            thread::sleep(TRIES_EVERY);
            begun.elapsed() < LOOK_AT_MOST && !patience.cancel.load(Ordering::Relaxed)
        })?;
        if let DeviceLock::Held(lock, before) = &device {
            let identity = rig.device_identity().unwrap_or_default();
            let is_its = |owner: &JournalOwner, _: &str| owner.device == identity;
            left_elsewhere(before, journals, is_its).map_err(|left| left.of(&rig.name, lock.path()))?;
        }
        let claimed = Self {
            by_guid: None,
            device,
            journal,
            rig: rig.clone(),
            journals: true_name(journals),
            patience,
        };
        claimed
            .tell(!claimed.journal.pending().is_empty())
            .map_err(|source| RunError::DeviceLock {
                rig: rig.name.clone(),
                source,
            })?;
        Ok(claimed)
    }

    /// Returns the changes that an earlier run left.
    pub(crate) fn left(&self) -> Left {
        self.journal.left()
    }

    /// Returns the areas that are not restored yet.
    pub(crate) fn pending(&self) -> &[Pending] {
        self.journal.pending()
    }

    /// Writes into the records whether the device is changed.
    fn tell(&self, changed: bool) -> std::io::Result<()> {
        let holder = Holder {
            pid: std::process::id(),
            journals: self.journals.clone(),
            rig: self.rig.name.clone(),
            changed,
            generation: self.journal.generation(),
        };
        if let DeviceLock::Held(lock, _) = &self.device {
            lock.tell(&holder)?;
        }
        self.by_guid.as_ref().map_or(Ok(()), |(_, lock)| lock.tell(&holder))
    }

    fn told(&self, changed: bool) -> Result<(), JournalError> {
        self.tell(changed).map_err(|source| JournalError::Io {
            path: self.journal.path().to_path_buf(),
            source,
        })
    }

    /// Locks the device under its PortGUID. Waits if the run has a lease of a daemon, because another rig of the daemon
    /// may use the device.
    ///
    /// # Errors
    /// [`Stop`], which names the process that has the device, or the run that left it changed.
    pub(crate) fn take_by_guid(&mut self, guid: &str) -> Step {
        // A model is identified by its socket, and several models may report the same GUID.
        let RigKind::Umad { .. } = &self.rig.kind else {
            return Ok(());
        };
        if self.by_guid.as_ref().is_some_and(|(held, _)| held == guid) {
            return Ok(());
        }
        self.by_guid = None;
        let name = format!("port guid {guid} {:?}", self.rig.env);
        let (lock, before) = loop {
            let taken = lock(&name, &self.rig, true);
            let who = match taken
                .map_err(|source| Stop::Tester(format!("the device with PortGUID {guid} cannot be locked: {source}")))?
            {
                Ok(taken) => break taken,
                Err(who) => who,
            };
            if self.patience.cancel.load(Ordering::Relaxed) {
                return Err(Stop::Cancelled);
            }
            if self.patience.lease.is_over() {
                return Err(Stop::LeaseEnded);
            }
            if !self.patience.lease.is_of_a_daemon() {
                return Err(Stop::RigGone(format!(
                    "another process drives the device with PortGUID {guid}, by another rig or route: {who}; wait for it, or \
                     stop it"
                )));
            }
            thread::sleep(TRIES_EVERY);
        };
        let env = format!("{:?}", self.rig.env);
        // According to a record, a run on another rig left the device changed. Do not look for the journal of that
        // rig: a worker in a systemd unit sees only the journal of its own rig.
        let mut records = lock.of_another_rig().into_iter().chain([before.clone()]);
        let is_left = |holder: &Holder| {
            holder.changed && true_name(&holder.journals) == self.journals && holder.rig != self.rig.name
        };
        if let Some(other) = records.find(is_left) {
            return Err(left_by(&other.rig, guid, &self.journals));
        }
        let is_its = |owner: &JournalOwner, device: &str| device == guid && owner.device.ends_with(&env);
        let own = self.journal.path().to_path_buf();
        let mut here = FileJournal::all(&self.journals).into_iter();
        if let Some(other) = here.find(|other| other.path != own && is_its(&other.owner, &other.device)) {
            return Err(left_by(&other.owner.rig, guid, &other.path));
        }
        left_elsewhere(&before, &self.journals, is_its)
            .map_err(|left| Stop::RigGone(left.of(&self.rig.name, lock.path()).to_string()))?;
        self.by_guid = Some((guid.to_owned(), lock));
        self.tell(!self.journal.pending().is_empty())
            .map_err(|source| Stop::Tester(format!("the device's lock cannot be written: {source}")))
    }
}

impl Journal for Claimed {
    fn save(&mut self, area: &Area, parts: &[Part], keys: &[MKey]) -> Result<Vec<Part>, JournalError> {
        let is_first = self.journal.pending().is_empty();
        let kept = self.journal.save(area, parts, keys)?;
        if is_first {
            self.told(true)?;
        }
        Ok(kept)
    }

    fn may_be_in_force(&mut self, keys: &[MKey], lease_s: u16) -> Result<(), JournalError> {
        self.journal.may_be_in_force(keys, lease_s)
    }

    fn settle(&mut self, area: &Area) -> Result<(), JournalError> {
        let is_last = self.journal.pending().iter().all(|pending| pending.area == *area);
        // Clear the mark in the records before the journal. If the process dies between the two steps, an
        // unneeded journal remains, which does no harm. In the other order, a mark without a journal would remain
        // and block the rig.
        if is_last && !self.journal.pending().is_empty() {
            self.told(false)?;
        }
        self.journal.settle(area)
    }

    fn lease_s(&self) -> u16 {
        self.journal.lease_s()
    }

    fn identify(&mut self, device: &str) -> Step {
        self.take_by_guid(device)?;
        self.journal.identify(device)
    }
}

/// Returns the stop for a device that another rig's run left changed.
fn left_by(rig: &str, guid: &str, journal: &Path) -> Stop {
    Stop::RigGone(format!(
        "a run on rig {rig} left the device with PortGUID {guid} changed, and this rig has the same device: restore it \
         with `verbatim rigs restore {rig}`; if that finds nothing to restore, the next run on {rig} names the remedy; \
         the journal is in {}",
        journal.display()
    ))
}

/// Returns the canonical path of a directory, or the path itself if it does not exist.
fn true_name(directory: &Path) -> PathBuf {
    std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_path_buf())
}

/// Changes left by a run with another state directory.
#[derive(Debug)]
enum LeftElsewhere {
    /// The rig's name in that journal, and the journal's path.
    Journal(String, PathBuf),
    /// The journal is missing: its former directory, and the process that changed the device.
    Gone(PathBuf, u32),
}

impl LeftElsewhere {
    fn of(self, rig: &str, lock: &Path) -> RunError {
        let rig = rig.to_owned();
        match self {
            Self::Journal(there, journal) => {
                // STATE/journals/RIG/RIG.journal.json
                let state = journal.ancestors().nth(3).unwrap_or(&journal).to_path_buf();
                RunError::LeftElsewhere {
                    rig,
                    there,
                    state,
                    journal,
                }
            }
            Self::Gone(journals, pid) => RunError::JournalGone {
                rig,
                pid,
                journals,
                lock: lock.to_path_buf(),
            },
        }
    }
}

/// Fails if the last holder of the lock has another journal directory and left the device changed. `is_its` decides by
/// a journal's owner and PortGUID whether the journal belongs to this device.
fn left_elsewhere(
    before: &Holder,
    journals: &Path,
    is_its: impl Fn(&JournalOwner, &str) -> bool,
) -> Result<(), LeftElsewhere> {
    if before.journals.as_os_str().is_empty() || true_name(&before.journals) == true_name(journals) {
        return Ok(());
    }
    let left = FileJournal::all(&before.journals);
    if let Some(left) = left.into_iter().find(|left| is_its(&left.owner, &left.device)) {
        return Err(LeftElsewhere::Journal(left.owner.rig, left.path));
    }
    match before.changed {
        true => Err(LeftElsewhere::Gone(before.journals.clone(), before.pid)),
        false => Ok(()),
    }
}

/// Returns whether the record of a rig's device has a greater generation than the rig's journal. If so, [`miss`] marks
/// the journal. This function takes no lock.
#[must_use]
pub fn is_older(rig: &RigConfig, journals: &Path) -> bool {
    let peeked = rig
        .device_identity()
        .and_then(|device| Some(Records::find().ok()?.peek(&rig.name, &device)));
    peeked.is_some_and(|before| {
        let generation = FileJournal::generation_of(journals, &rig.name);
        before.rig == rig.name
            && true_name(&before.journals) == true_name(journals)
            && generation.is_some_and(|generation| before.generation > generation)
    })
}

/// Marks a rig's journal as missing if the record of its device shows that the journal is missing or older. It is
/// missing if a run with this journal directory left the device changed, but no journal lists the change. It is older
/// if the record has a greater generation: then the whole directory is an older copy. Later attempts to open a marked
/// journal fail.
///
/// # Errors
/// When the mark cannot be written.
pub fn miss(rig: &RigConfig, journals: &Path) -> Result<(), RunError> {
    let Some(device) = rig.device_identity() else {
        return Ok(());
    };
    // Hold the journal and the lock from here on. If another process holds one of them, that process keeps both
    // consistent.
    let journal = match FileJournal::open(journals, journal_owner(rig)) {
        Ok(journal) => Some(journal),
        // The next attempt to open a damaged journal reports the damage. Clear the mark in the record, so that
        // a person needs to remove only the journal.
        Err(JournalError::Damaged { .. }) => None,
        Err(_) => return Ok(()),
    };
    let Ok(Ok((lock, before))) = lock(&device, rig, false) else {
        return Ok(());
    };
    if true_name(&before.journals) != true_name(journals) {
        return Ok(());
    }
    let generation = journal.as_ref().map_or(0, FileJournal::generation);
    // If the journal has no generation, its files are gone.
    let is_copy = generation > 0 || !before.changed;
    let is_older = before.rig == rig.name && before.generation > generation && is_copy;
    let marked = match &journal {
        None => Ok(()),
        Some(_) if is_older => {
            let missed = format!(
                "an older copy of the journals was put back, such as a backup: their generation is {generation}, and \
                 runs on this device have reached {}",
                before.generation
            );
            FileJournal::require(journals, &journal_owner(rig), before.generation, &missed)
        }
        Some(journal) if !before.changed || !journal.pending().is_empty() => return Ok(()),
        Some(_) => FileJournal::must_be_there(journals, &journal_owner(rig)).map(drop),
    };
    let missed = marked.and_then(|()| {
        // The journal directory now shows the problem, so the record no longer needs to.
        lock.tell(&Holder {
            changed: false,
            generation: 0,
            ..before
        })
    });
    missed.map_err(|source| RunError::DeviceLock {
        rig: rig.name.clone(),
        source,
    })
}

#[cfg(test)]
mod tests;
