//! Doing what the plan says.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use verbatim_proto::v1::{Cause, RunInfo, Verdict};
use verbatim_record::Restored;
use verbatim_tester::{FileJournal, Unrestored};

use super::ending::Ending;
use super::live::Live;
use super::plan::{Action, Left};
use super::{Scheduler, outlives_us, quarantine};
use crate::store::StoredRun;
use crate::worker::{Job, WorkerEnd, text_of};
use verbatim_rig::RigConfig;
use verbatim_run::{Event, RunId, now_ns};

/// Events written at once.
const BATCH: usize = 64;
/// How long a process that holds a rig may take to let go of it: the worker of a daemon that died restores the device,
/// for which it may have to wait for a lease period of a minute.
const LET_GO_WITHIN: Duration = Duration::from_secs(150);

/// What a restore came to.
#[derive(Clone, Debug)]
pub struct RestoreDone {
    /// Each area that was restored, or could not be.
    pub areas: Vec<Restored>,
    /// Why the rig is quarantined; none when all is as it was found.
    pub quarantined: Option<String>,
}

impl Scheduler {
    /// Does what the plan says. Runs that end without having begun are ended here, on the disk; all else is begun.
    pub(super) fn act(self: &Arc<Self>, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Start(run) => {
                    if let Some(live) = self.live(&run) {
                        tokio::spawn(Arc::clone(self).drive(live));
                    }
                }
                Action::Restore(rig) => {
                    if let Ok(rig) = self.rigs.find(&rig) {
                        tokio::spawn(Arc::clone(self).restore_device(rig.clone()));
                    }
                }
                Action::Stop(run) => self.stop_run(&run),
                Action::End(run, why) => {
                    if let Some(live) = self.live(&run) {
                        let by = live.stopped().unwrap_or_default();
                        let scheduler = Arc::clone(self);
                        tokio::task::spawn_blocking(move || scheduler.end(&live, Ending::of_waiting(&why, &by), None));
                    }
                }
            }
        }
    }

    fn stop_run(&self, run: &RunId) {
        if let Some(live) = self.live(run) {
            live.stop("stopped, because the daemon was");
        }
    }

    /// Ends a run, for its watchers and in the store. Blocks on the disk.
    pub(super) fn end(&self, live: &Live, ending: Ending, info: Option<RunInfo>) {
        let ending = live.end(self.store.as_ref(), now_ns(), ending, info);
        let run = live.run();
        tracing::info!(
            run = %run.id,
            rig = run.spec.rig,
            who = %run.owner,
            outcome = %ending.outcome,
            cause = ending.cause.map(tracing::field::display),
            reason = ending.reason,
            "run ended"
        );
        self.state().live.remove(live.id());
        self.ended.send_modify(|count| *count += 1);
    }

    /// From the beginning of a run to its end.
    async fn drive(self: Arc<Self>, live: Arc<Live>) {
        let run = live.run();
        let Ok(rig) = self.rigs.find(&run.spec.rig).cloned() else {
            return;
        };
        let (end, verdicts) = match blocking({
            let (scheduler, live) = (Arc::clone(&self), Arc::clone(&live));
            move || live.begin(scheduler.store.as_ref(), now_ns())
        })
        .await
        {
            Some(Ok(())) => {
                tracing::info!(run = %run.id, rig = run.spec.rig, who = %run.owner, "run begins");
                self.execute(&run, &rig, &live).await
            }
            // Why is in the run's log.
            Some(Err(_)) | None => (failed("the run could not begin".into()), Vec::new()),
        };
        let scheduler = Arc::clone(&self);
        let left = blocking(move || {
            let left = scheduler.left(&rig, &end, &verdicts);
            scheduler.conclude(&live, end, &verdicts);
            left
        })
        .await;
        let actions = self
            .state()
            .plan
            .run_ended(&run.spec.rig, left.unwrap_or(Left::Changed));
        self.act(actions);
        self.ended.send_modify(|count| *count += 1);
    }

    /// Runs the tests and keeps what happens meanwhile. With how that ended come the verdicts, without their checks.
    async fn execute(
        self: &Arc<Self>,
        run: &StoredRun,
        rig: &RigConfig,
        live: &Arc<Live>,
    ) -> (WorkerEnd, Vec<Verdict>) {
        let (events, mut happened) = mpsc::unbounded_channel();
        let job = job(run, rig, self);
        let writer = {
            let (scheduler, live, run) = (Arc::clone(self), Arc::clone(live), run.clone());
            tokio::task::spawn_blocking(move || {
                let (mut batch, mut verdicts) = (Vec::new(), Vec::new());
                while happened.blocking_recv_many(&mut batch, BATCH) > 0 {
                    verdicts.extend(batch.iter().filter_map(verdict_of));
                    scheduler.keep_events(&run, &live, std::mem::take(&mut batch));
                }
                verdicts
            })
        };
        let execute = Arc::clone(&self.execute);
        let stop = live.stop_signal();
        // A task of its own: a panic in there costs this run.
        let end = tokio::spawn(async move { execute.run(job, events, stop).await }).await;
        let verdicts = writer.await.unwrap_or_default();
        let failed = |error| failed(format!("the daemon failed within the run: {error}; please report this"));
        (end.unwrap_or_else(failed), verdicts)
    }

    fn keep_events(&self, run: &StoredRun, live: &Live, batch: Vec<Event>) {
        for event in &batch {
            match event {
                Event::TestStarted(begun) => {
                    tracing::info!(run = %run.id, rig = run.spec.rig, test = begun.test, "test begins");
                }
                Event::TestEnded(ended) => {
                    let verdict = ended.verdict.as_ref();
                    tracing::info!(
                        run = %run.id, rig = run.spec.rig,
                        test = verdict.map(|of| of.test.as_str()),
                        outcome = verdict.map(|of| tracing::field::display(of.outcome())),
                        reason = verdict.map(|of| of.reason.as_str()),
                        "test ended"
                    );
                }
                Event::RestoreEnded(ended) => log_restored(&run.spec.rig, &ended.areas),
                Event::LogLine(line) => tracing::info!(run = %run.id, rig = run.spec.rig, "worker: {}", line.text),
                Event::StepStarted(_) | Event::StateChanged(_) => {}
            }
        }
        live.tell(self.store.as_ref(), now_ns(), batch);
    }

    /// Ends the run.
    fn conclude(&self, live: &Live, end: WorkerEnd, verdicts: &[Verdict]) {
        let (stopped, unkept) = (live.stopped(), live.unkept());
        let ending = Ending::of(&end, verdicts, stopped.as_deref(), unkept.as_deref());
        let info = match end {
            WorkerEnd::Finished(info) => Some(*info),
            WorkerEnd::Failed { .. } => None,
        };
        self.end(live, ending, info);
    }

    /// How a run left its device.
    fn left(&self, rig: &RigConfig, end: &WorkerEnd, verdicts: &[Verdict]) -> Left {
        let mut restored = verdicts.iter().flat_map(|verdict| &verdict.restored);
        let incomplete = restored.any(|restored| !restored.is_complete());
        let not_restored = matches!(end, WorkerEnd::Failed { not_restored: true, .. });
        let pending = || FileJournal::look(&self.journals, &rig.name).is_some();
        let changed = outlives_us(rig) && (incomplete || not_restored || pending());
        if changed { Left::Changed } else { Left::AsFound }
    }

    /// Restores a device, if anything is to be restored.
    async fn restore_device(self: Arc<Self>, rig: RigConfig) {
        let name = rig.name.clone();
        let done = self.restored(&rig).await;
        let (actions, asked) = {
            let mut state = self.state();
            let result = done.quarantined.clone().map_or(Ok(()), Err);
            let actions = state.plan.restore_ended(&name, result);
            (actions, state.asked_for_restore.remove(&name))
        };
        // Told once it is so: who reads this and then asks for the rig's state is told the same.
        match &done.quarantined {
            None => tracing::info!(
                rig = name,
                areas = done.areas.len(),
                "the rig's device is as it was found"
            ),
            Some(reason) => tracing::error!(rig = name, "the rig is quarantined: {reason}"),
        }
        if let Some(asked) = asked {
            // Who asked may have left.
            let _ = asked.send(done);
        }
        self.act(actions);
        self.ended.send_modify(|count| *count += 1);
    }

    async fn restored(self: &Arc<Self>, rig: &RigConfig) -> RestoreDone {
        self.wait_until_free(rig).await;
        let before = self.journal(rig).await;
        let Some(before) = before else {
            return RestoreDone {
                areas: Vec::new(),
                quarantined: None,
            };
        };
        tracing::warn!(
            rig = rig.name,
            areas = before.in_words().join("; "),
            "restoring what an earlier run left changed"
        );
        let (events, mut happened) = mpsc::unbounded_channel();
        let (execute, restore_rig, text) = (Arc::clone(&self.execute), rig.clone(), text_of(&self.rigs, &rig.name));
        // A restore is not cut short: whoever stops the daemon waits for it, or lets the worker end it alone.
        let (_never, stop) = tokio::sync::watch::channel(false);
        let task = tokio::spawn(async move { execute.restore(restore_rig, text, events, stop).await });
        while let Some(event) = happened.recv().await {
            match event {
                Event::RestoreEnded(ended) => log_restored(&rig.name, &ended.areas),
                Event::LogLine(line) => tracing::info!(rig = rig.name, "worker: {}", line.text),
                _ => {}
            }
        }
        let result = task
            .await
            .unwrap_or_else(|error| Err(format!("the daemon failed within the restore: {error}")));
        let after = self.journal(rig).await;
        let (areas, failure) = match result {
            Ok(areas) => (areas, String::new()),
            Err(failure) => (Vec::new(), failure),
        };
        let left: Vec<String> = areas
            .iter()
            .filter(|area| !area.is_complete())
            .map(ToString::to_string)
            .collect();
        if failure.is_empty() && left.is_empty() && after.is_none() {
            return RestoreDone {
                areas,
                quarantined: None,
            };
        }
        let why = match (failure.is_empty(), left.is_empty()) {
            (false, _) => failure.clone(),
            (true, false) => left.join("; "),
            (true, true) => "its journal still lists something to restore".into(),
        };
        let areas = if areas.is_empty() {
            unrestored(&before, &why)
        } else {
            areas
        };
        RestoreDone {
            areas,
            quarantined: Some(quarantine::reason(rig, after.as_ref().or(Some(&before)), &why)),
        }
    }

    async fn wait_until_free(&self, rig: &RigConfig) {
        if !outlives_us(rig) {
            return;
        }
        let (journals, name) = (self.journals.clone(), rig.name.clone());
        let free = blocking(move || {
            if FileJournal::is_held(&journals, &name) {
                tracing::warn!(
                    rig = name,
                    "another process holds the rig: it may be restoring it, and is waited for"
                );
                FileJournal::wait_until_free(&journals, &name);
            }
        });
        // Whoever holds it longer is told of by the worker that finds it held.
        let _ = tokio::time::timeout(LET_GO_WITHIN, free).await;
    }

    async fn journal(&self, rig: &RigConfig) -> Option<Unrestored> {
        if !outlives_us(rig) {
            return None;
        }
        let (journals, name) = (self.journals.clone(), rig.name.clone());
        blocking(move || FileJournal::look(&journals, &name)).await.flatten()
    }
}

fn job(run: &StoredRun, rig: &RigConfig, scheduler: &Scheduler) -> Job {
    Job {
        run: run.id.clone(),
        rig: rig.clone(),
        text: text_of(&scheduler.rigs, &rig.name),
        spec: run.spec.clone(),
        record: scheduler.store.record(&run.id),
    }
}

/// A verdict without its checks.
fn verdict_of(event: &Event) -> Option<Verdict> {
    let Event::TestEnded(ended) = event else { return None };
    let of = ended.verdict.as_ref()?;
    Some(Verdict {
        test: of.test.clone(),
        outcome: of.outcome,
        cause: of.cause,
        reason: of.reason.clone(),
        restored: of.restored.clone(),
        ..Verdict::default()
    })
}

fn failed(reason: String) -> WorkerEnd {
    WorkerEnd::Failed {
        cause: Cause::Tester,
        reason,
        not_restored: false,
    }
}

fn unrestored(journal: &Unrestored, why: &str) -> Vec<Restored> {
    let failed = |area| Restored {
        area,
        failure: why.into(),
        ..Restored::default()
    };
    journal.in_words().into_iter().map(failed).collect()
}

fn log_restored(rig: &str, areas: &[Restored]) {
    for area in areas {
        if area.is_complete() {
            tracing::info!(rig, "restored: {area}");
        } else {
            tracing::error!(rig, "not restored: {area}");
        }
    }
}

/// Runs what blocks on a disk; none when it panicked.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}
