//! The daemon's end: starts workers, listens to them, ends those that are deaf.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use verbatim_proto::v1::Cause;
use verbatim_proto::worker::{Finished, Restore, RigText, Start, to_worker};
use verbatim_record::Restored;

use super::process::Failure;
use super::session::Session;
use super::{Job, WorkerEnd};
use verbatim_rig::{RigConfig, RigKind};
use verbatim_run::state::StateDirectory;
use verbatim_run::{self as run, Event, Request};

/// How workers are started and watched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Supervision {
    /// The program, which must know `worker`: this process's own.
    pub program: PathBuf,
    /// How often a worker is asked whether it is there.
    pub ping_every: Duration,
    /// How long it may leave that unanswered, and how long it may take to end after its last message.
    pub grace: Duration,
    /// How long it may take from its start to its first message.
    pub start_within: Duration,
    /// How long it may take from a cancel to its last message: restoring may have to wait for a lease period of a
    /// minute.
    pub stop_within: Duration,
    /// How long the thread of the procedure may neither compute nor wake up: then it hangs in a call for good.
    pub hung_after: Duration,
}

impl Default for Supervision {
    fn default() -> Self {
        Self {
            // Also when the file was replaced since this process began.
            program: "/proc/self/exe".into(),
            ping_every: Duration::from_secs(1),
            grace: Duration::from_secs(10),
            start_within: Duration::from_secs(30),
            stop_within: Duration::from_secs(120),
            hung_after: Duration::from_secs(60),
        }
    }
}

/// Stops what runs on another thread when nobody waits for it any more.
struct StopWhenDropped(Arc<AtomicBool>);

impl Drop for StopWhenDropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Supervision {
    /// Runs a job and reports while it goes on. A virtual rig runs on a thread of this process, any other in a worker of
    /// its own. Never fails: what goes wrong is in the end that is returned.
    ///
    /// When the device is left changed, call [`Supervision::restore_rig`] before anything else on that rig. Set `cancel`
    /// to stop the run; a sender that is dropped stops nothing. When the future is dropped, the worker stops, restores
    /// and ends by itself.
    pub async fn run_job(
        &self,
        job: Job,
        state: &StateDirectory,
        events: mpsc::UnboundedSender<Event>,
        cancel: watch::Receiver<bool>,
    ) -> WorkerEnd {
        if matches!(job.rig.kind, RigKind::Virtual(_)) {
            return on_a_thread(job, events, cancel).await;
        }
        let rig = job.rig.clone();
        let ended = match start_of(job) {
            Ok(start) => self.session(&rig, state, &events, cancel, start).await,
            Err(failure) => Err(failure),
        };
        match ended {
            Ok((finished, _)) => match finished.info {
                Some(info) => WorkerEnd::Finished(Box::new(info)),
                None => WorkerEnd::Failed {
                    cause: finished.cause(),
                    not_restored: finished.not_restored,
                    reason: finished.error,
                },
            },
            Err(Failure { cause, reason }) => WorkerEnd::Failed {
                cause,
                reason,
                not_restored: is_left_changed(&rig, state).await,
            },
        }
    }

    /// Restores what an earlier run left changed on a rig, and nothing else, in a worker of its own. Empty when nothing
    /// was left. A cancel does not stop a restore; it bounds how long it may take.
    ///
    /// # Errors
    /// When the device could not be restored: what is left, and what to do next.
    pub async fn restore_rig(
        &self,
        rig: RigConfig,
        text: RigText,
        state: &StateDirectory,
        events: mpsc::UnboundedSender<Event>,
        cancel: watch::Receiver<bool>,
    ) -> Result<Vec<Restored>, String> {
        if matches!(rig.kind, RigKind::Virtual(_)) {
            return Ok(Vec::new());
        }
        let order = to_worker::Message::Restore(Restore { rig: Some(text) });
        let ended = self.session(&rig, state, &events, cancel, order).await;
        match ended {
            Ok((finished, restored)) if finished.error.is_empty() => Ok(restored),
            Ok((finished, _)) => Err(finished.error),
            Err(failure) => Err(failure.reason),
        }
    }

    async fn session(
        &self,
        rig: &RigConfig,
        state: &StateDirectory,
        events: &mpsc::UnboundedSender<Event>,
        cancel: watch::Receiver<bool>,
        order: to_worker::Message,
    ) -> Result<(Finished, Vec<Restored>), Failure> {
        let session = Session::start(self, rig, state, events.clone()).await?;
        session.run(order, cancel).await
    }
}

/// Becomes ready when it is set, and never when it cannot be set any more.
pub(super) async fn cancelled(cancel: &mut watch::Receiver<bool>) {
    if cancel.wait_for(|cancelled| *cancelled).await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn start_of(job: Job) -> Result<to_worker::Message, Failure> {
    Ok(to_worker::Message::Start(Start {
        rig: Some(job.text),
        spec: Some(job.spec),
        record: path_of(job.record)?,
        run: job.run.to_string(),
    }))
}

/// A path that means the same to the worker: its working directory may be another.
fn path_of(path: PathBuf) -> Result<String, Failure> {
    let whole = std::path::absolute(&path)
        .ok()
        .and_then(|path| path.into_os_string().into_string().ok());
    whole.ok_or_else(|| {
        Failure::tester(format!(
            "{} cannot be told to a worker: an absolute path in UTF-8 was expected; give the file or directory another name",
            path.display()
        ))
    })
}

/// Looks into the journal, which is a matter of files.
async fn is_left_changed(rig: &RigConfig, state: &StateDirectory) -> bool {
    let (rig, state) = (rig.clone(), state.clone());
    let look = tokio::task::spawn_blocking(move || run::is_left_changed(&rig, &state));
    look.await.unwrap_or(true)
}

/// Runs a job on a virtual rig.
async fn on_a_thread(job: Job, events: mpsc::UnboundedSender<Event>, mut cancel: watch::Receiver<bool>) -> WorkerEnd {
    let stop = StopWhenDropped(Arc::default());
    let request = Request {
        id: job.run,
        rig: job.rig,
        spec: job.spec,
        record: Some(job.record),
        cancel: Arc::clone(&stop.0),
    };
    let mut run = tokio::task::spawn_blocking(move || {
        run::execute(&request, &mut |event| {
            // Nobody may be listening.
            let _ = events.send(event);
        })
    });
    let ended = tokio::select! {
        ended = &mut run => ended,
        () = cancelled(&mut cancel) => {
            stop.0.store(true, Ordering::Release);
            run.await
        }
    };
    let failed = |cause, reason| WorkerEnd::Failed {
        cause,
        reason,
        not_restored: false,
    };
    match ended {
        Ok(Ok(report)) => WorkerEnd::Finished(Box::new(report.run)),
        Ok(Err(error)) => failed(error.cause(), error.to_string()),
        Err(panic) => failed(
            Cause::Tester,
            format!("the run broke off ({panic}): a defect of Verbatim"),
        ),
    }
}
