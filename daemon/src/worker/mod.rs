//! Workers: each run on a hardware rig has a process of its own, so that a crash in a vendor library costs one run.
//!
//! The daemon needs no privilege; the worker holds the rig's ports, its restore journal and its records. Between them is
//! one connected unix stream with length-delimited `verbatim.worker.v1`. End of stream means that the daemon is gone:
//! the worker stops, restores and exits. A worker deaf past its grace is killed; the next one restores before anything
//! else. Virtual rigs run on a thread of the daemon through the same function.

mod child;
mod frame;
mod host;
mod hung;
mod output;
mod process;
mod session;

use std::path::PathBuf;

use tokio::sync::{mpsc, watch};
use verbatim_record::{Cause, Restored, Verdict};
use verbatim_tester::Test;

pub use child::{WorkerArguments, digest, work};
pub use host::Supervision;

use verbatim_rig::RigConfig;
use verbatim_run::Report;
use verbatim_run::state::StateDirectory;

/// Names this build: a worker serves only a daemon that was built from the same sources in the same way.
pub const BUILD_ID: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("VERBATIM_BUILD"));

/// What a worker is to do.
#[derive(Clone, Debug)]
pub struct Job {
    /// The run's id, for logs.
    pub run: String,
    /// The rig.
    pub rig: RigConfig,
    /// The file that the rig came from; none for a built-in one.
    pub rig_file: Option<PathBuf>,
    /// The tests, in order.
    pub tests: Vec<&'static Test>,
    /// Parameters.
    pub parameters: Vec<(String, u64)>,
    /// Seed.
    pub seed: u64,
    /// Where the bundle goes: a directory that does not exist yet.
    pub record: PathBuf,
}

/// What a worker reports while it works.
#[derive(Clone, Debug)]
pub enum WorkerEvent {
    /// A test began: its id, its place from 0 on, and how many there are.
    Begun(String, u32, u32),
    /// The procedure reached its next step.
    Step(String),
    /// A test ended.
    Ended(Box<Verdict>),
    /// What an earlier run left was restored, or could not be.
    Recovered(Vec<Restored>),
    /// Something that the worker or a library wrote to its output, one line.
    Log(String),
}

/// How a job ended.
#[derive(Clone, Debug)]
pub enum WorkerEnd {
    /// With a report, whatever its outcome.
    Finished(Box<Report>),
    /// Without one: the run is an ERROR.
    Failed {
        /// What that is due to.
        cause: Cause,
        /// What happened, and what to do next.
        reason: String,
        /// Whether the device is left changed: the rig is to be quarantined.
        not_restored: bool,
    },
}

impl WorkerEnd {
    /// Whether the device is left changed: it is to be restored before anything else, and kept from use until then.
    #[must_use]
    pub fn left_changed(&self) -> bool {
        match self {
            Self::Finished(report) => {
                let mut areas = report.verdicts.iter().flat_map(|verdict| &verdict.restored);
                areas.any(|restored| !restored.is_complete())
            }
            Self::Failed { not_restored, .. } => *not_restored,
        }
    }
}

/// Runs a job under the usual supervision: see [`Supervision::run_job`].
pub async fn run_job(
    job: Job,
    state: &StateDirectory,
    events: mpsc::UnboundedSender<WorkerEvent>,
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
    rig_file: Option<PathBuf>,
    state: &StateDirectory,
    events: mpsc::UnboundedSender<WorkerEvent>,
    cancel: watch::Receiver<bool>,
) -> Result<Vec<Restored>, String> {
    Supervision::default()
        .restore_rig(rig, rig_file, state, events, cancel)
        .await
}
