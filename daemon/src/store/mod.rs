//! Where runs are kept: what was asked for, what happened, what came of it.
//!
//! [`RunStore`] is the seam: [`FileStore`] keeps each run in a directory of its own, and a database can take its place
//! without a change elsewhere. A store decides nothing; it keeps what the scheduler says and finds it again.

mod files;
mod run;

use std::fmt;
use std::path::PathBuf;

use verbatim_proto::v1::{Outcome, RunEvent, RunState, Verdict};
use verbatim_run::RunId;

use crate::access::{Identity, names};

pub(crate) use files::CAPTURE_PLACE;
pub use files::FileStore;
pub use run::StoredRun;

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
    /// What is kept of a run cannot be understood.
    #[error("{path} is damaged: {what}; the run's record beside it can be judged on its own")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

/// Keeps runs. Calls may block on a disk: call from threads that may.
///
/// Writes of one run come one after the other, in order; reads come at any time. When a write fails, what the store
/// tells from then on is what it was told, so that the daemon can go on; only what is on disk survives its end.
pub trait RunStore: Send + Sync + fmt::Debug {
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

    /// Appends events, whose cursors follow those appended before without a gap.
    ///
    /// # Errors
    /// When they cannot be written: none of them is kept then.
    fn append(&self, id: &RunId, events: &[RunEvent]) -> Result<(), StoreError>;

    /// Makes the events of a run that the end of a daemon interrupted fit for appending: removes what was written of a
    /// last one. The cursor of the last whole event; 0 when there is none.
    ///
    /// # Errors
    /// When they cannot be read or written.
    fn mend_events(&self, id: &RunId) -> Result<u64, StoreError>;

    /// The run of that id.
    ///
    /// # Errors
    /// [`StoreError::Unknown`], or when it cannot be read.
    fn get(&self, id: &RunId) -> Result<StoredRun, StoreError>;

    /// The run that a user's request created before.
    ///
    /// # Errors
    /// When it cannot be read.
    fn of_request(&self, owner: &Identity, request_id: &str) -> Result<Option<StoredRun>, StoreError>;

    /// Runs, the newest first, from the one that follows `after` on. Runs that cannot be read are left out.
    fn list(&self, filter: &Filter, after: Option<&RunId>, at_most: usize) -> Vec<StoredRun>;

    /// The verdicts so far, in order: those of the events.
    ///
    /// # Errors
    /// When they cannot be read.
    fn verdicts(&self, id: &RunId) -> Result<Vec<Verdict>, StoreError>;

    /// Reads events, from the one that follows the cursor on.
    ///
    /// # Errors
    /// When they cannot be read.
    fn events(&self, id: &RunId, after: u64) -> Result<Box<dyn EventReader>, StoreError>;

    /// The directory of the run's record; it need not exist.
    fn record(&self, id: &RunId) -> PathBuf;
}

/// Reads the events of a run one after the other.
pub trait EventReader: Send + fmt::Debug {
    /// The next events, at most that many; none when no more are kept at the moment.
    ///
    /// # Errors
    /// When they cannot be read.
    fn next(&mut self, at_most: usize) -> Result<Vec<RunEvent>, StoreError>;
}
