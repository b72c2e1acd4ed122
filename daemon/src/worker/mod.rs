//! Workers: each run on a hardware rig has a process of its own, so that a crash in a vendor library costs one test.
//!
//! The daemon needs no privilege, and starts workers that have no more than it has itself; where a rig needs more, the service
//! manager starts its worker (`unit`), with what the rig needs (`drop_in`). The worker holds the rig's ports, its restore journal and its records. Between them is
//! one connected unix stream with length-delimited `verbatim.worker.v1`. End of stream means that the daemon is gone:
//! the worker stops, restores and exits. A worker deaf past its grace is killed. When one died in mid-run, the next one
//! restores before anything else and goes on with the rest of the run. Virtual rigs run on a thread of the daemon through
//! the same function.

mod child;
mod drop_in;
mod host;
mod hung;
mod output;
mod process;
mod session;
mod turn;
mod unit;

use std::path::PathBuf;

use tokio::sync::{mpsc, watch};
use verbatim_proto::v1::{Cause, RunInfo, RunSpec};
use verbatim_proto::worker::{Lease, RigText};
use verbatim_record::Restored;
use verbatim_rig::RigConfig;
use verbatim_run::state::StateDirectory;
use verbatim_run::{Event, RunId};

pub use child::{WorkerArguments, work};
pub use drop_in::drop_in;
pub use host::Supervision;
pub(crate) use unit::{are_units, out_of_sight};

/// What a worker is to do.
#[derive(Clone, Debug)]
pub struct Job {
    /// The run's id.
    pub run: RunId,
    /// The rig.
    pub rig: RigConfig,
    /// The rig in words that a worker reads.
    pub text: RigText,
    /// What to run on it.
    pub spec: RunSpec,
    /// Where the bundle goes: a directory that does not exist yet.
    pub record: PathBuf,
    /// What the rig is used under, as it stands; none for who needs none.
    pub lease: Option<watch::Receiver<Lease>>,
    /// Where the run goes on, when it gave way before; none at its beginning.
    pub resume: Option<Resumes>,
}

/// Where a run goes on that gave way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resumes {
    /// Tests that have a verdict.
    pub done: u32,
    /// Nanoseconds since 1970 at the start of the run.
    pub started_ns: u64,
}

/// A rig in words that a worker reads.
#[must_use]
pub fn text_of(rig: &RigConfig) -> RigText {
    RigText {
        toml: rig.source.toml.clone(),
        path: rig.source.path.display().to_string(),
    }
}

/// How a job ended. What its tests came to was told meanwhile.
#[derive(Clone, Debug)]
pub enum WorkerEnd {
    /// All tests have a verdict.
    Finished(Box<RunInfo>),
    /// It was asked to let somebody else have the rig, and did between two tests: it can go on from there.
    GaveWay,
    /// Without that: the run is an ERROR.
    Failed {
        /// What that is due to.
        cause: Cause,
        /// What happened, and what to do next.
        reason: String,
        /// Whether the device is left changed: it is to be restored before anything else, and kept from use until then.
        not_restored: bool,
    },
}

/// Runs a job under the usual supervision: see [`Supervision::run_job`].
pub async fn run_job(
    job: Job,
    state: &StateDirectory,
    events: mpsc::UnboundedSender<Event>,
    cancel: watch::Receiver<bool>,
) -> WorkerEnd {
    Supervision::default().run_job(job, state, events, cancel).await
}

/// Restores a rig under the usual supervision: see [`Supervision::restore_rig`].
///
/// # Errors
/// When the device could not be restored: what is left, and what to do next.
pub async fn restore_rig(
    rig: RigConfig,
    text: RigText,
    state: &StateDirectory,
    events: mpsc::UnboundedSender<Event>,
    cancel: watch::Receiver<bool>,
) -> Result<Vec<Restored>, String> {
    Supervision::default()
        .restore_rig(rig, text, state, events, cancel)
        .await
}
