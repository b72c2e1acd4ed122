//! What does the work: a worker process for a hardware rig, a thread for a virtual one.

use tokio::sync::{mpsc, watch};
use verbatim_proto::worker::RigText;
use verbatim_record::Restored;

use crate::worker::{self, Job, WorkerEnd};
use verbatim_rig::RigConfig;
use verbatim_run::Event;
use verbatim_run::state::StateDirectory;

/// Runs jobs and restores rigs. The scheduler's tests have one of their own.
#[tonic::async_trait]
pub trait Execute: Send + Sync + std::fmt::Debug {
    /// Runs a job; it stops at its next safe point when `cancel` turns true.
    async fn run(&self, job: Job, events: mpsc::UnboundedSender<Event>, cancel: watch::Receiver<bool>) -> WorkerEnd;

    /// Looks whether a rig's device can be reached; why it cannot.
    async fn look(&self, _: RigConfig, _: RigText) -> Result<(), String> {
        Ok(())
    }

    /// Restores what an earlier run left changed, and nothing else.
    async fn restore(
        &self,
        rig: RigConfig,
        text: RigText,
        events: mpsc::UnboundedSender<Event>,
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
