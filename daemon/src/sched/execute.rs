//! Execution of runs: in a thread for a virtual rig, in a worker process for any other rig.

use tokio::sync::{mpsc, watch};
use verbatim_proto::worker::RigText;
use verbatim_record::Restored;

use crate::worker::{self, Job, WorkerEnd};
use verbatim_rig::RigConfig;
use verbatim_run::Event;
use verbatim_run::state::StateDirectory;

/// Runs jobs, checks devices and restores rigs. The scheduler's tests have their own implementation.
#[tonic::async_trait]
pub trait Execute: Send + Sync + std::fmt::Debug {
    /// Runs a job, which stops at its next safe point when `cancel` becomes true.
    async fn run(&self, job: Job, events: mpsc::UnboundedSender<Event>, cancel: watch::Receiver<bool>) -> WorkerEnd;

    /// Checks whether a rig's device can be reached. The error is the reason why the device cannot be reached.
    async fn look(&self, _: RigConfig, _: RigText) -> Result<(), String> {
        Ok(())
    }

    /// Restores a device that an earlier run left changed, and runs no tests.
    async fn restore(
        &self,
        rig: RigConfig,
        text: RigText,
        events: mpsc::UnboundedSender<Event>,
        cancel: watch::Receiver<bool>,
    ) -> Result<Vec<Restored>, String>;
}

/// The implementation with real workers.
#[derive(Clone, Debug)]
pub struct Workers {
    /// The state directory, which holds the journals.
    pub state: StateDirectory,
}

#[tonic::async_trait]
impl Execute for Workers {
    async fn run(&self, job: Job, events: mpsc::UnboundedSender<Event>, cancel: watch::Receiver<bool>) -> WorkerEnd {
        worker::run_job(job, &self.state, events, cancel).await
    }

    async fn look(&self, rig: RigConfig, text: RigText) -> Result<(), String> {
        worker::Supervision::default().check_rig(&rig, text, &self.state).await
    }

    async fn restore(
        &self,
        rig: RigConfig,
        text: RigText,
        events: mpsc::UnboundedSender<Event>,
        cancel: watch::Receiver<bool>,
    ) -> Result<Vec<Restored>, String> {
        worker::restore_rig(rig, text, &self.state, events, cancel).await
    }
}
