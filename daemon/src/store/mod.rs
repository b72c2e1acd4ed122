//! The store of runs and leases: requests, events and results.
//!
//! [`HistoryStore`] and [`LeaseStore`] are the interfaces of the store, and [`Lab`] connects several daemons.
//! [`SqlStore`] implements all three, with SQLite for one daemon or PostgreSQL for several daemons. The scheduler makes
//! the decisions; a store only stores and finds data.

mod lab;
mod lease;
pub mod retention;
mod run;
mod sql;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};

use verbatim_proto::v1::{Outcome, RunEvent, RunState, Verdict};
use verbatim_run::RunId;

use crate::access::{Identity, names};

pub use lab::{Elsewhere, Lab, RemoteRequest};
pub use lease::{AskedLease, BootTimes, LeaseId, LeaseStore, StoredLease};
pub use run::{AskedRun, Patience, RunEntry, StoredRun};
pub use sql::{Address, Clock, SqlStore};

/// Returns the directory in which captures are prepared for download. The directory is next to the directory of the
/// runs, on the disk that is meant for large files.
pub(crate) fn captures(runs: &Path) -> PathBuf {
    runs.with_file_name("captures")
}

/// The name of the number of created runs among the generations of a store.
pub const RUNS: &str = "runs";

/// Returns the name of the generation of a rig's journal in a store.
#[must_use]
pub fn generation_of_rig(rig: &str) -> String {
    format!("rigs/{rig}")
}

/// A filter of runs. A run must match every term that is set.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// The rig of the run.
    pub rig: Option<String>,
    /// The owner of the run.
    pub owner: Option<Identity>,
    /// The accepted states; empty for any state.
    pub states: Vec<RunState>,
    /// Patterns of rigs, as [`names`] matches them; `None` for any rig.
    pub sees: Option<Vec<String>>,
    /// The accepted outcomes; empty for any outcome or none yet.
    pub outcomes: Vec<Outcome>,
    /// Whether only runs of this daemon's host match.
    pub own: bool,
}

impl Filter {
    /// Returns whether a run with these properties matches. Ignores `own` and `owner`.
    #[must_use]
    pub fn takes(&self, rig: &str, state: RunState, outcome: Option<Outcome>) -> bool {
        self.rig.as_deref().is_none_or(|wanted| wanted == rig)
            && self.sees.as_ref().is_none_or(|patterns| names(patterns, rig))
            && (self.states.is_empty() || self.states.contains(&state))
            && (self.outcomes.is_empty() || outcome.is_some_and(|outcome| self.outcomes.contains(&outcome)))
    }
}

/// An error of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file or directory cannot be read or written.
    #[error("{path}: {source}; free space or mend the permissions of the state directory")]
    Io {
        /// The path.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A run with this id exists already.
    #[error("a run {0} exists already; ids must be new")]
    Exists(RunId),
    /// No run has this id.
    #[error("there is no run {0}; `verbatim runs` lists the runs")]
    Unknown(RunId),
    /// The run is pinned, so it cannot be deleted.
    #[error("run {0} is pinned; `verbatim runs unpin` it first")]
    Pinned(RunId),
    /// No lease has this id.
    #[error("there is no lease {0}")]
    NoLease(LeaseId),
    /// Another lease holds the rig.
    #[error("rig {0} is held by another lease; please report this")]
    Held(String),
    /// The lease has ended, or the daemon of another host took it first.
    #[error("lease {0} got a rig of another host, or has ended")]
    Taken(LeaseId),
    /// The database does not respond.
    #[error(
        "the {place} is away: {what}; the daemon grants no rigs until it is back, and running tests continue. Check \
         the database server, the network to it, and `store` in the daemon's configuration"
    )]
    Away {
        /// The database, without secrets.
        place: String,
        /// The error.
        what: String,
    },
    /// Two daemons use the same host name.
    #[error(
        "another daemon has the name {host:?} in this database, and was active {silent_s} s ago; give this daemon \
         another name (host = \"NAME\" in its configuration), or stop the other daemon and wait 10 s"
    )]
    TwoHosts {
        /// The name.
        host: String,
        /// Seconds since the other daemon's last heartbeat.
        silent_s: u64,
    },
    /// Two hosts have a rig with the same name.
    #[error(
        "host {host:?} has a rig {rig} too, and is active or has a lease on it; rig names must differ in one lab: \
         rename one of the two, or stop the other daemon if the rig was moved here"
    )]
    RigOfAnother {
        /// The rig.
        rig: String,
        /// The other host.
        host: String,
    },
    /// The run has not ended.
    #[error("run {0} has not ended; cancel it, or wait for its end")]
    Unfinished(RunId),
    /// The tables of the database have a version that this program doesn't know.
    #[error("{path} has tables of version {found}, and this program works with version {known}: {remedy}")]
    OtherVersion {
        /// The file, or the database.
        path: PathBuf,
        /// The version of the tables.
        found: u64,
        /// The version that this program works with.
        known: u64,
        /// The remedy to show to the user.
        remedy: String,
    },
    /// Stored data is damaged.
    #[error("{path} is damaged: {what}; the records of runs, in runs/RIG/ID/record, can be judged on their own")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The damage.
        what: String,
    },
}

/// How much of a verdict to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Detail {
    /// Without checks and observations, for lists.
    Heads,
    /// The whole verdict.
    Whole,
}

/// Returns a verdict without its checks and observations.
#[must_use]
pub fn head_of(of: &Verdict) -> Verdict {
    Verdict {
        findings: Vec::new(),
        passed: Vec::new(),
        observations: Vec::new(),
        ..of.clone()
    }
}

/// The complete store of a daemon, for runs and leases.
pub trait Store: HistoryStore + LeaseStore {}

impl<S: HistoryStore + LeaseStore> Store for S {}

/// The interface of a store of runs. Calls may block on a disk, so call from threads that may block.
///
/// The caller makes the writes of one run one after the other; reads may come at any time. After a failed write,
/// the store still returns the latest state of that run from memory, so that the daemon can go on. After a restart
/// of the daemon, the store returns the state on disk.
pub trait HistoryStore: Send + Sync + fmt::Debug {
    /// Stores a new run.
    ///
    /// # Errors
    /// [`StoreError::Exists`], or when the run cannot be written. The store then does not contain the run.
    fn create(&self, run: &StoredRun) -> Result<(), StoreError>;

    /// Stores the current state of a run.
    ///
    /// # Errors
    /// When the run cannot be written.
    fn update(&self, run: &StoredRun) -> Result<(), StoreError>;

    /// Appends events and the verdicts in them. The cursors of the events follow the last stored cursor without a gap.
    ///
    /// # Errors
    /// When the events cannot be written; then none of them is stored.
    fn append(&self, id: &RunId, events: &[RunEvent]) -> Result<(), StoreError>;

    /// Returns the run with this id.
    ///
    /// # Errors
    /// [`StoreError::Unknown`], or when the run cannot be read.
    fn get(&self, id: &RunId) -> Result<RunEntry, StoreError>;

    /// Returns the run that this request of a user created.
    ///
    /// # Errors
    /// When the run cannot be read.
    fn of_request(&self, owner: &Identity, request_id: &str) -> Result<Option<StoredRun>, StoreError>;

    /// Returns at most `at_most` matching runs, newest first, starting after the run `after`. Leaves out damaged runs.
    ///
    /// # Errors
    /// When the runs cannot be read.
    fn list(&self, filter: &Filter, after: Option<&RunId>, at_most: usize) -> Result<Vec<RunEntry>, StoreError>;

    /// Returns the verdicts of a run so far, in the order of the events that hold them.
    ///
    /// # Errors
    /// When the verdicts cannot be read.
    fn verdicts(&self, id: &RunId, detail: Detail) -> Result<Vec<Verdict>, StoreError>;

    /// Returns at most `at_most` events after the cursor `after`; an empty list if there are no more events yet.
    ///
    /// # Errors
    /// When the events cannot be read.
    fn events(&self, id: &RunId, after: u64, at_most: usize) -> Result<Vec<RunEvent>, StoreError>;

    /// Returns the last event of a run.
    ///
    /// # Errors
    /// When the event cannot be read.
    fn last_event(&self, id: &RunId) -> Result<Option<RunEvent>, StoreError>;

    /// Returns the cursor of the last event of each run that has not ended, by run. For a run that is missing in the
    /// map, call [`HistoryStore::last_event`].
    ///
    /// # Errors
    /// When the cursors cannot be read.
    fn last_cursors(&self) -> Result<HashMap<RunId, u64>, StoreError> {
        Ok(HashMap::new())
    }

    /// Pins or unpins a run. A pinned run and its files are not deleted.
    ///
    /// # Errors
    /// [`StoreError::Unknown`], or when the change cannot be written.
    fn pin(&self, id: &RunId, pinned: bool) -> Result<(), StoreError>;

    /// Deletes a run with its events, verdicts and files.
    ///
    /// # Errors
    /// [`StoreError::Unknown`], [`StoreError::Pinned`], [`StoreError::Unfinished`], or when the change cannot be
    /// written.
    fn delete(&self, id: &RunId) -> Result<(), StoreError>;

    /// Returns the runs whose files may be deleted, in the order in which they ended.
    ///
    /// # Errors
    /// When the runs cannot be read.
    fn with_files(&self) -> Result<Vec<retention::Files>, StoreError>;

    /// Removes the files of a run if the run has ended and is not pinned.
    ///
    /// # Errors
    /// When the change cannot be written.
    fn remove_files(&self, id: &RunId, now_ns: u64) -> Result<(), StoreError>;

    /// Returns the directory of the run's record, inside the directory of its rig. The directory need not exist.
    fn record(&self, run: &StoredRun) -> PathBuf;

    /// Stores a generation of this host: the number of changes so far.
    ///
    /// # Errors
    /// When the change cannot be written.
    fn set_generation(&self, _name: &str, _generation: u64) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns the generations of this host by name. The store itself counts the runs of [`HistoryStore::create`] as
    /// [`RUNS`].
    ///
    /// # Errors
    /// When the generations cannot be read.
    fn generations(&self) -> Result<BTreeMap<String, u64>, StoreError> {
        Ok(BTreeMap::new())
    }

    /// Checks all stored data for damage, which may take long.
    ///
    /// # Errors
    /// [`StoreError::Damaged`], or when the data cannot be read.
    fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
