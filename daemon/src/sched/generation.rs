//! Finds parts of the daemon's state that are older copies. Examples are a backup that was put back, and a database
//! without its log file.
//!
//! Three places count the changes of a rig's journal: the lock file beside the journal, the record of the device's lock,
//! and the store. The record is outside of the state directory. The store and a file in the state directory count
//! the runs.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use verbatim_report::counted;
use verbatim_rig::{RigConfig, RigFile};
use verbatim_run::journal_owner;
use verbatim_tester::FileJournal;

use super::{Scheduler, outlives_us};
use crate::store::{RUNS, Store, StoreError, generation_of_rig};

/// The number of runs that the daemon has created, in the state directory.
#[derive(Debug)]
pub(super) struct Runs {
    path: PathBuf,
    created: Mutex<u64>,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    runs: u64,
    sum: String,
}

impl Runs {
    pub(super) fn of(state: &Path, created: u64) -> Self {
        Self {
            path: state.join("generation.json"),
            created: Mutex::new(created),
        }
    }

    /// Counts a run that was stored.
    pub(super) fn add(&self) {
        let mut created = self.created.lock().unwrap_or_else(PoisonError::into_inner);
        *created += 1;
        self.keep(*created);
    }

    /// Writes the number of the store's runs to the file. Call this after [`look`] has reported missing runs.
    pub(super) fn settle(&self) {
        let created = *self.created.lock().unwrap_or_else(PoisonError::into_inner);
        if self.read() != created {
            self.keep(created);
        }
    }

    fn keep(&self, runs: u64) {
        let kept = Kept { runs, sum: sum(runs) };
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        let written = serde_json::to_vec(&kept).map_err(io::Error::from).and_then(|text| {
            let mut file = tempfile::NamedTempFile::new_in(directory)?;
            file.write_all(&text)?;
            file.persist(&self.path)?;
            Ok(())
        });
        if let Err(error) = written {
            tracing::warn!(path = %self.path.display(), %error, "the number of runs cannot be kept");
        }
    }

    /// Returns the number in the file; 0 without a valid file.
    fn read(&self) -> u64 {
        let Ok(text) = fs::read(&self.path) else { return 0 };
        match serde_json::from_slice::<Kept>(&text) {
            Ok(kept) if kept.sum == sum(kept.runs) => kept.runs,
            _ => {
                tracing::error!(path = %self.path.display(), "the number of runs was altered, and is ignored");
                0
            }
        }
    }
}

fn sum(runs: u64) -> String {
    let digest = Sha256::digest(format!("runs {runs}"));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Compares the generations of store, journals and records of locks. Marks the older journals, which quarantines their
/// rigs. Returns the rigs to drain because their journals are newer than the store, each with the reason. Blocks on
/// the disk.
///
/// # Errors
/// When the store cannot be read.
pub(super) fn look(
    store: &dyn Store,
    rigs: &RigFile,
    journals: &Path,
    runs: &Runs,
) -> Result<BTreeMap<String, String>, StoreError> {
    let known = store.generations()?;
    let stored = |name: &str| known.get(name).copied().unwrap_or(0);
    let missing = runs.read().saturating_sub(stored(RUNS));
    let lost = counted(missing, "run is missing", "runs are missing");
    if missing > 0 {
        tracing::error!(
            missing,
            "the database is an older copy, or lost its log file (-wal): {lost}, whose files may still be there"
        );
    }
    let mut drained = BTreeMap::new();
    for rig in rigs.rigs.iter().filter(|rig| outlives_us(rig)) {
        // A worker of an earlier daemon still changes its journal.
        if FileJournal::is_held(journals, &rig.name) {
            continue;
        }
        // Damage is reported when the rig's device is restored.
        let Some(found) = FileJournal::generation_of(journals, &rig.name) else {
            continue;
        };
        let in_store = stored(&generation_of_rig(&rig.name));
        if in_store > found {
            older_journals(store, rig, journals, (found, in_store));
        } else if missing > 0 && found > in_store {
            let name = &rig.name;
            let why = format!(
                "drained, because the database is an older copy, or lost its log file (-wal): {lost}, and the journal \
                 of this rig has changed since. Look at the device, then: verbatim rigs undrain {name}"
            );
            tracing::error!("rig {name} is {why}");
            drained.insert(name.clone(), why);
            set(store, rig, found);
        }
        if verbatim_run::is_older(rig, journals)
            && let Err(error) = verbatim_run::miss(rig, journals)
        {
            tracing::error!(rig = rig.name, %error, "the generation of the rig's journal cannot be checked");
        }
    }
    Ok(drained)
}

fn older_journals(store: &dyn Store, rig: &RigConfig, journals: &Path, (found, in_store): (u64, u64)) {
    let fence = FileJournal::directory(journals, &rig.name).join(format!("{}.token", rig.name));
    let token = fs::read_to_string(fence).ok().and_then(|text| text.trim().parse().ok());
    let leases = store.leases(true, usize::MAX).unwrap_or_default().into_iter();
    let later = leases.filter(|lease| lease.rig == rig.name && lease.token > token.unwrap_or(0_u64));
    let missed = format!(
        "an older copy of the journals was put back, such as a backup: their generation is {found}, and the database \
         has {in_store}; {}",
        counted(
            later.count() as u64,
            "run or lease came later",
            "runs or leases came later"
        )
    );
    if let Err(error) = FileJournal::require(journals, &journal_owner(rig), in_store, &missed) {
        tracing::error!(rig = rig.name, %error, "{missed}, and the rig's lock file cannot be written");
    }
}

fn set(store: &dyn Store, rig: &RigConfig, generation: u64) {
    if let Err(error) = store.set_generation(&generation_of_rig(&rig.name), generation) {
        tracing::debug!(rig = rig.name, %error, "the generation of the rig's journal cannot be stored");
    }
}

impl Scheduler {
    /// Stores the generation of a rig's journal. Blocks on the disk.
    pub(super) fn keep_generation(&self, rig: &RigConfig) {
        if outlives_us(rig)
            && let Some(generation) = FileJournal::generation_of(&self.journals, &rig.name)
        {
            set(self.store.as_ref(), rig, generation);
        }
    }
}
