//! Where runs and leases are kept: what was asked for, what happened, what came of it.
//!
//! [`HistoryStore`] and [`LeaseStore`] are the seams, [`Lab`] is where several daemons meet: [`SqlStore`] keeps it all, in SQLite
//! for one daemon or in PostgreSQL for many. A store decides nothing; it keeps what the scheduler says and finds it again.

mod lab;
mod lease;
pub mod retention;
mod run;
mod sql;

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

use verbatim_proto::v1::{Outcome, RunEvent, RunState, Verdict};
use verbatim_run::RunId;

use crate::access::{Identity, names};

pub use lab::{Elsewhere, Lab, Wish};
pub use lease::{BootTimes, LeaseId, LeaseStore, StoredLease};
pub use run::{Kept, Patience, StoredRun};
pub use sql::{Address, Clock, SqlStore};

/// Where captures are made that somebody reads, beside the directory of the runs: on the disk that is meant for such sizes.
pub(crate) fn captures(runs: &Path) -> PathBuf {
    runs.with_file_name("captures")
}

/// Which runs are wanted: those that fit every term that is set.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// On this rig.
    pub rig: Option<String>,
    /// In one of these states; in any when empty.
    pub states: Vec<RunState>,
    /// On one of these rigs, as [`names`] has it; on any when none.
    pub sees: Option<Vec<String>>,
    /// With one of these outcomes; with any, or none yet, when empty.
    pub outcomes: Vec<Outcome>,
    /// Of this daemon's host alone.
    pub own: bool,
}

impl Filter {
    /// Whether a run with these properties is wanted.
    #[must_use]
    pub fn takes(&self, rig: &str, state: RunState, outcome: Option<Outcome>) -> bool {
        self.rig.as_deref().is_none_or(|wanted| wanted == rig)
            && self.sees.as_ref().is_none_or(|patterns| names(patterns, rig))
            && (self.states.is_empty() || self.states.contains(&state))
            && (self.outcomes.is_empty() || outcome.is_some_and(|outcome| self.outcomes.contains(&outcome)))
    }
}

/// Why a run cannot be kept or found.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file or directory cannot be read or written.
    #[error("{path}: {source}; free space or mend the permissions of the state directory")]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// There is a run of that id already.
    #[error("a run {0} exists already; ids must be new")]
    Exists(RunId),
    /// There is no run of that id.
    #[error("there is no run {0}")]
    Unknown(RunId),
    /// It must stay.
    #[error("run {0} is pinned; `verbatim runs unpin` it first")]
    Pinned(RunId),
    /// There is no lease of that id.
    #[error("there is no lease {0}")]
    NoLease(LeaseId),
    /// Another lease holds the rig.
    #[error("rig {0} is held by another lease; please report this")]
    Held(String),
    /// The daemon of another host was faster.
    #[error("lease {0} was given a rig of another host, or has ended")]
    Taken(LeaseId),
    /// The database does not answer.
    #[error(
        "the {place} is away: {what}; nobody gets a rig until it is back, what is under way goes on. Look at the database \
         server and the way to it, and at `store` in the daemon's configuration"
    )]
    Away {
        /// Which, without what is secret.
        place: String,
        /// What went wrong.
        what: String,
    },
    /// Two daemons have one name.
    #[error(
        "another daemon calls itself host {host:?} in this database, and was heard of {silent_s} s ago; give this one another \
         name (host = \"NAME\" in its configuration), or stop the other and wait 10 s"
    )]
    TwoHosts {
        /// The name.
        host: String,
        /// Since when the other is silent.
        silent_s: u64,
    },
    /// Two hosts have a rig of one name.
    #[error(
        "rig {rig} is one of host {host:?} too, which is there or has a lease on it; rigs have different names in one lab: \
         rename one of the two, or stop the other daemon, if the rig was moved here"
    )]
    RigOfAnother {
        /// The rig.
        rig: String,
        /// The host.
        host: String,
    },
    /// It has not ended.
    #[error("run {0} has not ended; cancel it, or wait for its end")]
    Unfinished(RunId),
    /// The tables of the database are not those of this program.
    #[error("{path} has tables of version {found}, and this program works with version {known}: {remedy}")]
    OtherVersion {
        /// The file, or the database.
        path: PathBuf,
        /// The version of its tables.
        found: u64,
        /// The version of this program's.
        known: u64,
        /// What to do.
        remedy: String,
    },
    /// What is kept of a run cannot be understood.
    #[error("{path} is damaged: {what}; the records of runs, in runs/RIG/ID/record, can be judged on their own")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

/// How much of a verdict is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Detail {
    /// Without checks and observations, for lists.
    Heads,
    /// All of it.
    Whole,
}

/// A verdict without its checks and observations.
#[must_use]
pub fn head_of(of: &Verdict) -> Verdict {
    Verdict {
        findings: Vec::new(),
        passed: Vec::new(),
        observations: Vec::new(),
        ..of.clone()
    }
}

/// All that a daemon keeps.
pub trait Store: HistoryStore + LeaseStore {}

impl<S: HistoryStore + LeaseStore> Store for S {}

/// Keeps runs. Calls may block on a disk: call from threads that may.
///
/// Writes of one run come one after the other, in order; reads come at any time. When a write fails, what the store
/// tells of that run from then on is what it was told, so that the daemon can go on; only what is on disk survives its
/// end.
pub trait HistoryStore: Send + Sync + fmt::Debug {
    /// Keeps a new run.
    ///
    /// # Errors
    /// [`StoreError::Exists`], or when it cannot be written: then there is no such run.
    fn create(&self, run: &StoredRun) -> Result<(), StoreError>;

    /// Keeps a run as it stands now.
    ///
    /// # Errors
    /// When it cannot be written.
    fn update(&self, run: &StoredRun) -> Result<(), StoreError>;

    /// Appends events, whose cursors follow those appended before without a gap, and the verdicts in them.
    ///
    /// # Errors
    /// When they cannot be written: none of them is kept then.
    fn append(&self, id: &RunId, events: &[RunEvent]) -> Result<(), StoreError>;

    /// The run of that id.
    ///
    /// # Errors
    /// [`StoreError::Unknown`], or when it cannot be read.
    fn get(&self, id: &RunId) -> Result<Kept, StoreError>;

    /// The run that a user's request created before.
    ///
    /// # Errors
    /// When it cannot be read.
    fn of_request(&self, owner: &Identity, request_id: &str) -> Result<Option<StoredRun>, StoreError>;

    /// Runs, the newest first, from the one that follows `after` on. Runs that cannot be understood are left out.
    ///
    /// # Errors
    /// When they cannot be read.
    fn list(&self, filter: &Filter, after: Option<&RunId>, at_most: usize) -> Result<Vec<Kept>, StoreError>;

    /// The verdicts so far, in order: those of the events.
    ///
    /// # Errors
    /// When they cannot be read.
    fn verdicts(&self, id: &RunId, detail: Detail) -> Result<Vec<Verdict>, StoreError>;

    /// Events, from the one that follows the cursor on, at most that many; none when no more are kept at the moment.
    ///
    /// # Errors
    /// When they cannot be read.
    fn events(&self, id: &RunId, after: u64, at_most: usize) -> Result<Vec<RunEvent>, StoreError>;

    /// The last event.
    ///
    /// # Errors
    /// When it cannot be read.
    fn last_event(&self, id: &RunId) -> Result<Option<RunEvent>, StoreError>;

    /// The cursor of the last event of each run that has not ended; of one that is not among them, [`HistoryStore::last_event`]
    /// tells.
    ///
    /// # Errors
    /// When they cannot be read.
    fn last_cursors(&self) -> Result<HashMap<RunId, u64>, StoreError> {
        Ok(HashMap::new())
    }

    /// Pins a run, so that neither it nor its files go, or lets it go again.
    ///
    /// # Errors
    /// [`StoreError::Unknown`], or when that cannot be written.
    fn pin(&self, id: &RunId, pinned: bool) -> Result<(), StoreError>;

    /// Deletes a run with all that it left.
    ///
    /// # Errors
    /// [`StoreError::Unknown`], [`StoreError::Pinned`], [`StoreError::Unfinished`], or when that cannot be written.
    fn delete(&self, id: &RunId) -> Result<(), StoreError>;

    /// The runs whose files may go, in the order in which they ended.
    ///
    /// # Errors
    /// When they cannot be read.
    fn with_files(&self) -> Result<Vec<retention::Files>, StoreError>;

    /// Removes the files of a run that ended and is not pinned; of any other nothing.
    ///
    /// # Errors
    /// When that cannot be written.
    fn remove_files(&self, id: &RunId, now_ns: u64) -> Result<(), StoreError>;

    /// The directory of the run's record, within that of its rig; it need not exist.
    fn record(&self, run: &StoredRun) -> PathBuf;

    /// Looks at all that is kept, also what nobody asks for: it takes its time.
    ///
    /// # Errors
    /// [`StoreError::Damaged`], or when it cannot be read.
    fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
