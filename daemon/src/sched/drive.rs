//! Doing what the plan says.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use verbatim_record::{Cause, Restored};
use verbatim_tester::Test;

use super::convert;
use super::ending::Ending;
use super::journal::{self, Journal};
use super::live::Live;
use super::plan::{Action, Left};
use super::{Scheduler, now_ns, outlives_us, quarantine};
use crate::store::{RunId, StoredRun};
use crate::worker::{Job, WorkerEnd, WorkerEvent};
use verbatim_rig::{RigConfig, RigKind};

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
                        tokio::task::spawn_blocking(move || scheduler.end(&live, Ending::of_waiting(&why, &by)));
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
    pub(super) fn end(&self, live: &Live, ending: Ending) {
        let ending = live.end(self.store.as_ref(), now_ns(), ending);
        let run = live.run();
        tracing::info!(
            run = %run.id,
            rig = run.rig,
            uid = run.uid,
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
        let Ok(rig) = self.rigs.find(&run.rig).cloned() else {
            return;
        };
        let end = match blocking({
            let (scheduler, live) = (Arc::clone(&self), Arc::clone(&live));
            move || live.begin(scheduler.store.as_ref(), now_ns())
        })
        .await
        {
            Some(Ok(())) => {
                tracing::info!(run = %run.id, rig = run.rig, uid = run.uid, "run begins");
                self.execute(&run, &rig, &live).await
            }
            // Why is in the run's log.
            Some(Err(_)) | None => failed("the run could not begin".into()),
        };
        let scheduler = Arc::clone(&self);
        let left = blocking(move || {
            scheduler.conclude(&live, &end);
            scheduler.left(&rig, &end)
        })
        .await;
        let actions = self.state().plan.run_ended(&run.rig, left.unwrap_or(Left::Changed));
        self.act(actions);
        self.ended.send_modify(|count| *count += 1);
    }

    /// Runs the tests and keeps what happens meanwhile.
    async fn execute(self: &Arc<Self>, run: &StoredRun, rig: &RigConfig, live: &Arc<Live>) -> WorkerEnd {
        let (events, mut happened) = mpsc::unbounded_channel();
        let job = job(run, rig, self);
        let writer = {
            let (scheduler, live, run) = (Arc::clone(self), Arc::clone(live), run.clone());
            tokio::task::spawn_blocking(move || {
                let mut batch = Vec::new();
                while happened.blocking_recv_many(&mut batch, BATCH) > 0 {
                    scheduler.keep_events(&run, &live, &batch);
                    batch.clear();
                }
            })
        };
        let execute = Arc::clone(&self.execute);
        let stop = live.stop_signal();
        // A task of its own: a panic in there costs this run.
        let end = tokio::spawn(async move { execute.run(job, events, stop).await }).await;
        let _ = writer.await;
        end.unwrap_or_else(|error| failed(format!("the daemon failed within the run: {error}; please report this")))
    }

    fn keep_events(&self, run: &StoredRun, live: &Live, batch: &[WorkerEvent]) {
        for event in batch {
            match event {
                WorkerEvent::Begun(test, ..) => tracing::info!(run = %run.id, rig = run.rig, test, "test begins"),
                WorkerEvent::Ended(verdict) => {
                    tracing::info!(
                        run = %run.id, rig = run.rig, test = verdict.test, outcome = %verdict.outcome,
                        reason = verdict.reason, "test ended"
                    );
                    if let Err(error) = self.store.keep_verdict(&run.id, &convert::verdict(verdict)) {
                        live.cannot_keep(&error);
                    }
                }
                WorkerEvent::Recovered(areas) => log_restored(&run.rig, areas),
                WorkerEvent::Log(text) => tracing::info!(run = %run.id, rig = run.rig, "worker: {text}"),
                WorkerEvent::Step(_) => {}
            }
        }
        live.tell(
            self.store.as_ref(),
            now_ns(),
            batch.iter().map(convert::event).collect(),
        );
    }

    /// Keeps the report and ends the run.
    fn conclude(&self, live: &Live, end: &WorkerEnd) {
        if let WorkerEnd::Finished(report) = end {
            let mut json = serde_json::to_string_pretty(report).expect("plain data");
            json.push('\n');
            if let Err(error) = self.store.keep_report(live.id(), &json) {
                live.cannot_keep(&error);
            }
        }
        let (stopped, unkept) = (live.stopped(), live.unkept());
        self.end(live, Ending::of(end, stopped.as_deref(), unkept.as_deref()));
    }

    /// How a run left its device.
    fn left(&self, rig: &RigConfig, end: &WorkerEnd) -> Left {
        let changed = outlives_us(rig) && (end.left_changed() || Journal::look(&self.journals, &rig.name).is_some());
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
        let (execute, restore_rig, rig_file) = (Arc::clone(&self.execute), rig.clone(), self.rigs.path.clone());
        // A restore is not cut short: whoever stops the daemon waits for it, or lets the worker end it alone.
        let (_never, stop) = tokio::sync::watch::channel(false);
        let task = tokio::spawn(async move { execute.restore(restore_rig, rig_file, events, stop).await });
        while let Some(event) = happened.recv().await {
            match event {
                WorkerEvent::Recovered(areas) => log_restored(&rig.name, &areas),
                WorkerEvent::Log(text) => tracing::info!(rig = rig.name, "worker: {text}"),
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
            .map(convert::in_words)
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
            if journal::is_held(&journals, &name) {
                tracing::warn!(
                    rig = name,
                    "another process holds the rig: it may be restoring it, and is waited for"
                );
                journal::wait_until_free(&journals, &name);
            }
        });
        // Whoever holds it longer is told of by the worker that finds it held.
        let _ = tokio::time::timeout(LET_GO_WITHIN, free).await;
    }

    async fn journal(&self, rig: &RigConfig) -> Option<Journal> {
        if !outlives_us(rig) {
            return None;
        }
        let (journals, name) = (self.journals.clone(), rig.name.clone());
        blocking(move || Journal::look(&journals, &name)).await.flatten()
    }
}

fn job(run: &StoredRun, rig: &RigConfig, scheduler: &Scheduler) -> Job {
    let mut rig = rig.clone();
    if let RigKind::Virtual(model) = &mut rig.kind {
        // A device of its own kind for each seed, as when the run is made without a daemon.
        model.seed.get_or_insert(run.seed);
    }
    let known = |id: &String| {
        verbatim_catalog::TESTS
            .iter()
            .copied()
            .find(|test: &&Test| test.id == id)
    };
    Job {
        run: run.id.to_string(),
        rig,
        rig_file: scheduler.rigs.path.clone(),
        tests: run.tests.iter().filter_map(known).collect(),
        parameters: run.parameters.clone().into_iter().collect(),
        seed: run.seed,
        record: scheduler.store.record(&run.id),
    }
}

fn failed(reason: String) -> WorkerEnd {
    WorkerEnd::Failed {
        cause: Cause::Tester,
        reason,
        not_restored: false,
    }
}

fn unrestored(journal: &Journal, why: &str) -> Vec<Restored> {
    let failed = |area| Restored {
        area,
        failure: why.into(),
        ..Restored::default()
    };
    journal.in_words().into_iter().map(failed).collect()
}

fn log_restored(rig: &str, areas: &[Restored]) {
    for area in areas {
        let words = convert::in_words(area);
        if area.is_complete() {
            tracing::info!(rig, "restored: {words}");
        } else {
            tracing::error!(rig, "not restored: {words}");
        }
    }
}

/// Runs what blocks on a disk; none when it panicked.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}
