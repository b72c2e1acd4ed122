//! What does the work: a worker process for a hardware rig, a thread for a virtual one.

use std::path::PathBuf;

use tokio::sync::{mpsc, watch};
use verbatim_record::Restored;

use crate::worker::{self, Job, WorkerEnd, WorkerEvent};
use verbatim_rig::RigConfig;
use verbatim_run::state::StateDirectory;

/// Runs jobs and restores rigs. The scheduler's tests have one of their own.
#[tonic::async_trait]
pub trait Execute: Send + Sync + std::fmt::Debug {
    /// Runs a job; it stops at its next safe point when `cancel` turns true.
    async fn run(
        &self,
        job: Job,
        events: mpsc::UnboundedSender<WorkerEvent>,
        cancel: watch::Receiver<bool>,
    ) -> WorkerEnd;

    /// Restores what an earlier run left changed, and nothing else.
    async fn restore(
        &self,
        rig: RigConfig,
        rig_file: Option<PathBuf>,
        events: mpsc::UnboundedSender<WorkerEvent>,
        cancel: watch::Receiver<bool>,
    ) -> Result<Vec<Restored>, String>;
}

/// The real thing.
#[derive(Clone, Debug)]
pub struct Workers {
    /// Where the journals are.
    pub state: StateDirectory,
}

#[tonic::async_trait]
impl Execute for Workers {
    async fn run(
        &self,
        job: Job,
        events: mpsc::UnboundedSender<WorkerEvent>,
        cancel: watch::Receiver<bool>,
    ) -> WorkerEnd {
        worker::run_job(job, &self.state, events, cancel).await
    }

    async fn restore(
        &self,
        rig: RigConfig,
        rig_file: Option<PathBuf>,
        events: mpsc::UnboundedSender<WorkerEvent>,
        cancel: watch::Receiver<bool>,
    ) -> Result<Vec<Restored>, String> {
        worker::restore_rig(rig, rig_file, &self.state, events, cancel).await
    }
}
