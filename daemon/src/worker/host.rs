//! The daemon's side: starts workers, follows their messages, and ends workers that stop responding.

use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use verbatim_proto::v1::{Cause, LogLine};
use verbatim_proto::worker::{Check, Finished, Lease, Restore, Resume, RigText, Start, to_worker};
use verbatim_record::Restored;

use super::process::{Failure, Reached};
use super::session::Session;
use super::{Job, Resumes, WorkerEnd};
use super::{turn, unit};
use verbatim_rig::{RigConfig, RigKind};
use verbatim_run::state::StateDirectory;
use verbatim_run::{self as run, Event, Request, RunError, now_ns};

/// How the daemon starts and watches workers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Supervision {
    /// The program with the `worker` command; by default the program of this process.
    pub program: PathBuf,
    /// The directory with a socket `RIG.sock` for each rig whose worker the service manager starts. `None` if the
    /// service manager starts no workers.
    pub units: Option<PathBuf>,
    /// The interval of pings.
    pub ping_every: Duration,
    /// How long a worker may take to answer a ping, and to end after its last message.
    pub grace: Duration,
    /// The time limit from the start of a worker to its first message.
    pub start_within: Duration,
    /// The time limit from a cancel to the last message. A restore may have to wait for an M_Key lease period of a
    /// minute.
    pub stop_within: Duration,
    /// The thread of the procedure counts as hung if it neither computes nor wakes up for this time.
    pub hung_after: Duration,
}

impl Default for Supervision {
    fn default() -> Self {
        Self {
            // This path works even if the program's file was replaced after this process started.
            program: "/proc/self/exe".into(),
            units: std::env::var_os(unit::VARIABLE).map(PathBuf::from),
            ping_every: Duration::from_secs(1),
            grace: Duration::from_secs(60),
            start_within: Duration::from_secs(30),
            stop_within: Duration::from_secs(120),
            hung_after: Duration::from_secs(60),
        }
    }
}

/// On drop, sets the stop flag of a run on another thread.
struct StopWhenDropped(Arc<AtomicBool>);

impl Drop for StopWhenDropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Supervision {
    /// Runs a job, and sends its events while it runs. A virtual rig runs on a thread of this process, any other rig in
    /// a worker of its own. Never fails: errors are part of the returned end.
    ///
    /// When a worker dies during a run, its current test becomes an ERROR. A new worker restores the device and
    /// continues with the rest of the run. The run ends instead if no test had begun, or if the new worker also dies
    /// before it completes a test.
    ///
    /// If the device is left changed, call [`Supervision::restore_rig`] before any other use of the rig. Set `cancel`
    /// to stop the run; dropping its sender stops nothing. If the future is dropped, the worker stops, restores and
    /// ends by itself.
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
        let (rig, lease) = (job.rig.clone(), job.lease.clone());
        let started_ns = job.resume.map_or_else(now_ns, |resume| resume.started_ns);
        let mut start = match start_of(job) {
            Ok(start) => start,
            Err(failure) => return failed(failure.reason, false),
        };
        // Why the previous worker died.
        let mut died: Option<String> = None;
        loop {
            start.lease = lease.as_ref().map(|lease| *lease.borrow());
            let order = to_worker::Message::Start(start.clone());
            let until = (cancel.clone(), lease.clone());
            let ended = self.session(&rig, state, &events, until, order).await;
            let after = |reason: String| match &died {
                None => reason,
                Some(died) => format!("{died}; the worker that replaced it failed too: {reason}"),
            };
            let failure = match ended {
                Ok((Finished { info: Some(info), .. }, _)) => return WorkerEnd::Finished(Box::new(info)),
                Ok((finished, _)) if finished.gave_way => return WorkerEnd::GaveWay,
                Ok((finished, _)) => {
                    return WorkerEnd::Failed {
                        // If a worker died before, that death is the reason for the incomplete run.
                        cause: died.as_ref().map_or(finished.cause(), |_| Cause::Tester),
                        not_restored: finished.not_restored,
                        reason: after(finished.error),
                    };
                }
                Err(failure) => failure,
            };
            let further = |reached: &Reached| {
                let before = start.resume.as_ref().map_or(0, |resume| resume.done);
                match died {
                    None => reached.begun > before,
                    Some(_) => reached.ended > before,
                }
            };
            let Some(reached) = failure.reached.filter(further).filter(|_| !*cancel.borrow()) else {
                return failed(after(failure.reason), is_left_changed(&rig, state).await);
            };
            // Ignore an error: the receiver may be closed.
            let _ = events.send(Event::LogLine(LogLine {
                text: format!("a new worker continues the run: {}", failure.reason),
            }));
            let lost = reached.begun > reached.ended;
            start.resume = Some(Resume {
                done: reached.ended,
                lost: if lost { failure.reason.clone() } else { String::new() },
                started_ns,
            });
            died = Some(failure.reason);
        }
    }

    /// Restores the changes that an earlier run left on a rig, in a worker of its own. Returns an empty list when
    /// nothing was left. A cancel does not stop a restore, but limits its duration.
    ///
    /// # Errors
    /// When the device could not be restored. The error names the changes that remain, and what to do next.
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
        let ended = self.session(&rig, state, &events, (cancel, None), order).await;
        match ended {
            Ok((finished, restored)) if finished.error.is_empty() => Ok(restored),
            Ok((finished, _)) => Err(finished.error),
            Err(failure) => Err(failure.reason),
        }
    }

    /// Checks whether a rig's device can be reached, in a worker of its own.
    ///
    /// # Errors
    /// When the device cannot be reached. The error tells what to do.
    pub async fn check_rig(&self, rig: &RigConfig, text: RigText, state: &StateDirectory) -> Result<(), String> {
        if matches!(rig.kind, RigKind::Virtual(_)) {
            return Ok(());
        }
        let (events, _nobody) = mpsc::unbounded_channel();
        let (_never, cancel) = watch::channel(false);
        let order = to_worker::Message::Check(Check { rig: Some(text) });
        match self.session(rig, state, &events, (cancel, None), order).await {
            Ok((finished, _)) if finished.error.is_empty() => Ok(()),
            Ok((finished, _)) => Err(finished.error),
            Err(failure) => Err(failure.reason),
        }
    }

    async fn session(
        &self,
        rig: &RigConfig,
        state: &StateDirectory,
        events: &mpsc::UnboundedSender<Event>,
        until: (watch::Receiver<bool>, Option<watch::Receiver<Lease>>),
        order: to_worker::Message,
    ) -> Result<(Finished, Vec<Restored>), Failure> {
        let session = Session::start(self, rig, state, events.clone()).await?;
        session.run(order, until).await
    }
}

/// Waits until the cancel flag is set. Waits forever if the sender of the flag is dropped.
pub(super) async fn cancelled(cancel: &mut watch::Receiver<bool>) {
    if cancel.wait_for(|cancelled| *cancelled).await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn failed(reason: String, not_restored: bool) -> WorkerEnd {
    WorkerEnd::Failed {
        cause: Cause::Tester,
        reason,
        not_restored,
    }
}

fn start_of(job: Job) -> Result<Start, Failure> {
    let resume = |of: Resumes| Resume {
        done: of.done,
        lost: String::new(),
        started_ns: of.started_ns,
    };
    Ok(Start {
        rig: Some(job.text),
        spec: Some(job.spec),
        record: path_of(job.record)?,
        run: job.run.to_string(),
        resume: job.resume.map(resume),
        lease: None,
    })
}

/// Returns an absolute path, because the worker may have another working directory.
fn path_of(path: PathBuf) -> Result<String, Failure> {
    let whole = std::path::absolute(&path)
        .ok()
        .and_then(|path| path.into_os_string().into_string().ok());
    whole.ok_or_else(|| {
        Failure::new(format!(
            "{} cannot be sent to a worker: expected an absolute path in UTF-8; rename the file or directory",
            path.display()
        ))
    })
}

/// Returns whether the journal shows that the device is left changed.
async fn is_left_changed(rig: &RigConfig, state: &StateDirectory) -> bool {
    let (rig, state) = (rig.clone(), state.clone());
    let look = tokio::task::spawn_blocking(move || run::is_left_changed(&rig, &state));
    look.await.unwrap_or(true)
}

/// Waits until the lease must give way. Without a lease, waits forever.
async fn to_give_way(lease: Option<watch::Receiver<Lease>>) {
    if let Some(mut lease) = lease
        && lease.wait_for(|lease| lease.gives_way).await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}

/// Runs a job on a virtual rig.
async fn on_a_thread(job: Job, events: mpsc::UnboundedSender<Event>, mut cancel: watch::Receiver<bool>) -> WorkerEnd {
    let stop = StopWhenDropped(Arc::default());
    // Simulated time passes at once, so the run needs to check for a cancel only between two tests. The default
    // lease never expires.
    let lease: Arc<run::Lease> = Arc::default();
    let (gives_way, resume) = (job.lease, job.resume);
    let request = Request {
        id: job.run,
        rig: job.rig,
        spec: job.spec,
        record: Some(job.record.clone()),
        cancel: Arc::clone(&stop.0),
        lease: Arc::clone(&lease),
        shrinks: true,
        rig_options: String::new(),
    };
    let mut run = tokio::task::spawn_blocking(move || {
        let mut turn = None;
        let mut tell = |event| {
            match event {
                Event::TestStarted(_) => turn = turn::take(),
                Event::TestEnded(_) => turn = None,
                _ => {}
            }
            // Ignore an error: the receiver may be closed.
            let _ = events.send(event);
        };
        let report = match resume {
            None => run::execute(&request, &mut tell),
            Some(Resumes { done, started_ns }) => {
                let from = run::Resume {
                    done,
                    lost: None,
                    started_ns,
                };
                run::resume(&request, &from, None, &mut tell)
            }
        }?;
        super::pack(&job.record, &mut tell);
        Ok(report)
    });
    let mut asked = pin!(to_give_way(gives_way));
    let mut is_asked = false;
    let ended = loop {
        tokio::select! {
            ended = &mut run => break ended,
            () = cancelled(&mut cancel) => {
                stop.0.store(true, Ordering::Release);
                break run.await;
            }
            () = &mut asked, if !is_asked => {
                is_asked = true;
                lease.give_way();
            }
        }
    };
    let failed = |cause, reason| WorkerEnd::Failed {
        cause,
        reason,
        not_restored: false,
    };
    match ended {
        Ok(Ok(report)) => WorkerEnd::Finished(Box::new(report.run)),
        Ok(Err(RunError::GaveWay { .. })) => WorkerEnd::GaveWay,
        Ok(Err(error)) => failed(error.cause(), error.to_string()),
        Err(panic) => failed(
            Cause::Tester,
            format!("the run broke off ({panic}): a defect of Verbatim"),
        ),
    }
}
