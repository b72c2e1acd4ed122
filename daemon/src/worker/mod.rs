//! Workers: each run has its own process, except on virtual rigs, so that a crash in a vendor library costs one
//! test.
//!
//! The daemon needs no privileges, and the workers that it starts have none either. If a rig needs privileges, the
//! service manager starts its worker (`unit`) with the required privileges (`drop_in`). The worker opens the rig's
//! ports, and writes the rig's restore journal and records.
//!
//! Daemon and worker are connected by a unix stream with length-delimited messages of `verbatim.worker.v1`. The
//! end of the stream tells the worker that the daemon has died: the worker stops, restores and exits. The daemon
//! kills a worker that does not respond within its grace time. When a worker dies during a run, the next worker
//! first restores the device, and then continues with the rest of the run. A virtual rig has no worker:
//! [`run_job`] runs its tests on a thread of the daemon.

mod child;
mod drop_in;
mod host;
mod hung;
mod output;
mod process;
mod session;
mod turn;
mod unit;

use std::path::{Path, PathBuf};

use tokio::sync::{mpsc, watch};
use verbatim_proto::v1::{Cause, LogLine, RunInfo, RunSpec};
use verbatim_proto::worker::{Lease, RigText};
use verbatim_record::{Bundle, Restored};
use verbatim_rig::RigConfig;
use verbatim_run::state::StateDirectory;
use verbatim_run::{Event, RunId};

pub use child::{WorkerArguments, work};
pub use drop_in::drop_in;
pub use host::Supervision;
pub(crate) use unit::{are_units, out_of_sight};

/// A job for a worker.
#[derive(Clone, Debug)]
pub struct Job {
    /// The run's id.
    pub run: RunId,
    /// The rig.
    pub rig: RigConfig,
    /// The rig in the form that the worker parses.
    pub text: RigText,
    /// The tests to run.
    pub spec: RunSpec,
    /// The directory for the record, which must not exist yet.
    pub record: PathBuf,
    /// The current lease of the rig; `None` if no lease is needed.
    pub lease: Option<watch::Receiver<Lease>>,
    /// Where to continue a run that gave way; `None` at the start of a run.
    pub resume: Option<Resumes>,
}

/// Where to continue a run that gave way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resumes {
    /// The number of tests that have a verdict.
    pub done: u32,
    /// The start of the run, in nanoseconds since 1970.
    pub started_ns: u64,
}

/// Returns a rig in the form that a worker parses.
#[must_use]
pub fn text_of(rig: &RigConfig) -> RigText {
    RigText {
        toml: rig.source.toml.clone(),
        path: rig.source.path.display().to_string(),
    }
}

/// How a job ended. The verdicts of its tests were sent as events.
#[derive(Clone, Debug)]
pub enum WorkerEnd {
    /// All tests have a verdict.
    Finished(Box<RunInfo>),
    /// The run gave way to another lease between two tests, and can continue with the next test.
    GaveWay,
    /// The job failed: the run is an ERROR.
    Failed {
        /// The cause.
        cause: Cause,
        /// The reason, and what to do next.
        reason: String,
        /// Whether the device is left changed. A changed device must be restored before any other use.
        not_restored: bool,
    },
}

/// Runs a job with the default supervision: see [`Supervision::run_job`].
pub async fn run_job(
    job: Job,
    state: &StateDirectory,
    events: mpsc::UnboundedSender<Event>,
    cancel: watch::Receiver<bool>,
) -> WorkerEnd {
    Supervision::default().run_job(job, state, events, cancel).await
}

/// Restores a rig with the default supervision: see [`Supervision::restore_rig`].
///
/// # Errors
/// When the device could not be restored. The error names the changes that remain, and what to do next.
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

/// Compresses the large records of a finished run. After an error they stay as they are, which is only logged.
fn pack(record: &Path, tell: &mut dyn FnMut(Event)) {
    if let Err(error) = Bundle::open_unread(record).and_then(|bundle| bundle.pack()) {
        let text = format!("the records of the run stay uncompressed: {error}");
        tell(Event::LogLine(LogLine { text }));
    }
}
