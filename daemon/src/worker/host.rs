//! The daemon's end: starts workers, listens to them, ends those that are deaf.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use verbatim_proto::worker::{Finished, Restore, Start, to_worker};
use verbatim_record::{Cause, Restored};

use super::process::Failure;
use super::session::Session;
use super::{Job, WorkerEnd, WorkerEvent};
use verbatim_rig::{RigConfig, RigKind};
use verbatim_run::state::StateDirectory;
use verbatim_run::{self as run, Event, Report, Request};

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
    /// When [`WorkerEnd::left_changed`], call [`Supervision::restore_rig`] before anything else on that rig. Set `cancel`
    /// to stop the run; a sender that is dropped stops nothing. When the future is dropped, the worker stops, restores
    /// and ends by itself.
    pub async fn run_job(
        &self,
        job: Job,
        state: &StateDirectory,
        events: mpsc::UnboundedSender<WorkerEvent>,
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
            Ok((finished, _)) if finished.error.is_empty() => match serde_json::from_str(&finished.report_json) {
                Ok(report) => WorkerEnd::Finished(Box::new(report)),
                Err(error) => WorkerEnd::Failed {
                    cause: Cause::Tester,
                    reason: format!("the report of the worker of rig {} cannot be read: {error}", rig.name),
                    not_restored: is_left_changed(&rig, state).await,
                },
            },
            Ok((finished, _)) => WorkerEnd::Failed {
                cause: cause_of(&finished),
                reason: finished.error,
                not_restored: finished.not_restored,
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
        rig_file: Option<PathBuf>,
        state: &StateDirectory,
        events: mpsc::UnboundedSender<WorkerEvent>,
        cancel: watch::Receiver<bool>,
    ) -> Result<Vec<Restored>, String> {
        if matches!(rig.kind, RigKind::Virtual(_)) {
            return Ok(Vec::new());
        }
        let order = path_of(rig_file.unwrap_or_default()).map(|rig_file| {
            to_worker::Message::Restore(Restore {
                rig_file,
                rig: rig.name.clone(),
            })
        });
        let ended = match order {
            Ok(order) => self.session(&rig, state, &events, cancel, order).await,
            Err(failure) => Err(failure),
        };
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
        events: &mpsc::UnboundedSender<WorkerEvent>,
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
        rig_file: path_of(job.rig_file.unwrap_or_default())?,
        rig: job.rig.name,
        tests: job.tests.iter().map(|test| test.id.into()).collect(),
        parameters: job.parameters.into_iter().collect(),
        seed: job.seed,
        record: path_of(job.record)?,
        run: job.run,
    }))
}

/// A path that means the same to the worker: its working directory may be another.
fn path_of(path: PathBuf) -> Result<String, Failure> {
    if path.as_os_str().is_empty() {
        return Ok(String::new());
    }
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

fn cause_of(finished: &Finished) -> Cause {
    let known = [
        Cause::Dut,
        Cause::Tester,
        Cause::Rig,
        Cause::Operator,
        Cause::SpecAmbiguous,
    ];
    let named = known.into_iter().find(|cause| cause.to_string() == finished.cause);
    named.unwrap_or(Cause::Tester)
}

/// Looks into the journal, which is a matter of files.
async fn is_left_changed(rig: &RigConfig, state: &StateDirectory) -> bool {
    let (rig, state) = (rig.clone(), state.clone());
    let look = tokio::task::spawn_blocking(move || run::is_left_changed(&rig, &state));
    look.await.unwrap_or(true)
}

/// Runs a job on a virtual rig.
async fn on_a_thread(
    job: Job,
    events: mpsc::UnboundedSender<WorkerEvent>,
    mut cancel: watch::Receiver<bool>,
) -> WorkerEnd {
    let stop = StopWhenDropped(Arc::default());
    let request = Request {
        id: Some(job.run),
        rig: job.rig,
        tests: job.tests,
        parameters: job.parameters,
        seed: job.seed,
        record: Some(job.record),
        cancel: Arc::clone(&stop.0),
    };
    let mut run = tokio::task::spawn_blocking(move || {
        run::execute(&request, &mut |event| {
            // Nobody may be listening.
            let _ = events.send(told(&event));
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
        Ok(Ok(report)) => finished(report),
        Ok(Err(error)) => failed(error.cause(), error.to_string()),
        Err(panic) => failed(
            Cause::Tester,
            format!("the run broke off ({panic}): a defect of Verbatim"),
        ),
    }
}

fn finished(report: Report) -> WorkerEnd {
    WorkerEnd::Finished(Box::new(report))
}

fn told(event: &Event<'_>) -> WorkerEvent {
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    match event {
        Event::Begun(test, place, total) => WorkerEvent::Begun(test.id.into(), number(*place), number(*total)),
        Event::Step(label) => WorkerEvent::Step((*label).into()),
        Event::Ended(verdict) => WorkerEvent::Ended(Box::new((*verdict).clone())),
        Event::Recovered(areas) => WorkerEvent::Recovered(areas.to_vec()),
    }
}
