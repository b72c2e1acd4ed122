//! Carries out the actions of the plan.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tracing::Span;
use verbatim_proto::v1::{Cause, LogLine, Outcome, RunInfo, Verdict};
use verbatim_record::Restored;
use verbatim_tester::{FileJournal, Unrestored};

use super::ending::Ending;
use super::leases::of_worker;
use super::live::Live;
use super::plan::{Action, Left, Refusal};
use super::{Scheduler, outlives_us, quarantine};
use crate::spans;
use crate::store::{Detail, StoreError, StoredRun};
use crate::worker::{Job, Resumes, WorkerEnd, text_of};
use verbatim_rig::RigConfig;
use verbatim_run::{Event, journal_owner};

/// How many events are written at once.
const BATCH: usize = 64;
/// How long to wait while another process holds a rig. The process may be a worker that outlived its daemon and is
/// restoring the device. Such a restore may wait for an M_Key lease period of a minute.
const LET_GO_WITHIN: Duration = Duration::from_secs(150);
/// The interval of checks whether another process still holds the rig.
const LOOKED_AT_EACH: Duration = Duration::from_millis(100);

/// The pauses before the first retries of a failed restore. The rig is quarantined after the last of these retries
/// fails, or at once if the journal is damaged.
const AT_ONCE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];
/// The first pause between restores of a quarantined rig; `AT_LAST` is the longest pause.
const AT_FIRST: Duration = Duration::from_secs(10);
const AT_LAST: Duration = Duration::from_secs(600);

/// The result of a restore.
#[derive(Clone, Debug)]
pub struct RestoreDone {
    /// The areas of the device, restored or not.
    pub areas: Vec<Restored>,
    /// Why the rig is quarantined; `None` when the device is as it was found.
    pub quarantined: Option<String>,
    /// Whether the journal is damaged, so that retries are useless until a person has looked at the rig.
    pub needs_a_person: bool,
}

impl RestoreDone {
    fn as_found(areas: Vec<Restored>) -> Self {
        Self {
            areas,
            quarantined: None,
            needs_a_person: false,
        }
    }

    fn is_final(&self) -> bool {
        self.quarantined.is_none() || self.needs_a_person
    }
}

impl Scheduler {
    /// Carries out actions of the plan. Writes to the store before it returns, and spawns tasks for runs, restores and
    /// checks.
    pub(super) fn act(self: &Arc<Self>, actions: Vec<Action>) {
        let mut actions = VecDeque::from(actions);
        while let Some(action) = actions.pop_front() {
            match action {
                Action::Keep(lease) => actions.extend(self.keep_lease(&lease)),
                Action::LeaseEnded(lease, why) => self.lease_ended(&lease, &why),
                Action::Start(run) => {
                    // The run has no rig if the grant of its lease could not be stored.
                    let held = self.state().plan.lease_of(&run).and_then(|lease| lease.held.clone());
                    if let (Some(live), Some(held)) = (self.live(&run), held) {
                        live.under(of_worker(&held, false));
                        self.runtime.spawn(Arc::clone(self).drive(live));
                    }
                }
                Action::Look(rig) => drop(self.runtime.spawn(Arc::clone(self).look_at(rig))),
                Action::Restore(rig) => {
                    if let Ok(rig) = self.rigs().find(&rig) {
                        self.runtime.spawn(Arc::clone(self).restore_device(rig.clone()));
                    }
                }
                Action::WaitAgain(run, to) => {
                    if let Some(live) = self.live(&run) {
                        let why = format!(
                            "gave way between two tests to leases/{to}, which has a higher class; the run continues \
                             by itself when it gets the rig again"
                        );
                        tracing::info!(%run, rig = live.run().spec.rig, "run {why}");
                        live.wait_again(self.store.as_ref(), self.store.now_ns(), &why);
                    }
                }
                Action::Stop(run, why) => {
                    if let Some(live) = self.live(&run) {
                        live.stop(&why);
                    }
                }
                Action::End(run, why) => {
                    if let Some(live) = self.live(&run) {
                        let by = live.stopped().unwrap_or_default();
                        let began = live.run().started_ns.is_some();
                        self.end(&live, Ending::of_waiting(&why, began, &by), None);
                    }
                }
            }
        }
    }

    /// Ends a run for its watchers and in the store. Blocks on the disk.
    pub(super) fn end(&self, live: &Live, ending: Ending, info: Option<RunInfo>) {
        let ending = live.end(self.store.as_ref(), self.store.now_ns(), ending, info);
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
        let ran = run.started_ns.map(|begun| since(begun, run.ended_ns.unwrap_or(begun)));
        self.metrics.run_ended(ending.outcome, ran);
        self.state().live.remove(live.id());
        self.ended.send_modify(|count| *count += 1);
    }

    /// Executes a run from its start to its end.
    async fn drive(self: Arc<Self>, live: Arc<Live>) {
        let run = live.run();
        let Ok(rig) = self.rigs().find(&run.spec.rig).cloned() else {
            return;
        };
        let span = spans::of_run(&run);
        let (end, verdicts) = match blocking({
            let (scheduler, live, rig) = (Arc::clone(&self), Arc::clone(&live), rig.clone());
            move || {
                if outlives_us(&rig)
                    && let Err(error) = FileJournal::prepare(&scheduler.journals, &rig.name)
                {
                    tracing::warn!(rig = rig.name, %error, "the journals' directory cannot be written to");
                }
                live.begin(scheduler.store.as_ref(), scheduler.store.now_ns())?;
                let slot = scheduler.state().plan.slot(&rig.name).cloned();
                if let Some(why) = slot.as_ref().and_then(|slot| slot.reach.failed()) {
                    let text = format!("the last run on rig {} ended because of the rig: {why}", rig.name);
                    let told = vec![Event::LogLine(LogLine { text })];
                    live.tell(scheduler.store.as_ref(), scheduler.store.now_ns(), told);
                }
                Ok::<_, StoreError>(())
            }
        })
        .await
        {
            Some(Ok(())) => {
                tracing::info!(run = %run.id, rig = run.spec.rig, who = %run.owner, "run begins");
                if let (None, Some(begun)) = (run.started_ns, live.run().started_ns) {
                    self.metrics.run_begins(since(run.created_ns, begun));
                }
                self.execute(&run, &rig, &live, &span).await
            }
            // `conclude` reports the error of the store from `live.unkept()`.
            Some(Err(_)) | None => (failed("the run could not begin".into()), Vec::new()),
        };
        let (scheduler, name) = (Arc::clone(&self), run.spec.rig.clone());
        let left = blocking(move || {
            let left = scheduler.left(&rig, &end, &verdicts);
            if matches!(end, WorkerEnd::GaveWay) && scheduler.gave_way(&live, &name, left) {
                return None;
            }
            let answered = scheduler.conclude(&live, end, verdicts, &span);
            Some((left, answered))
        })
        .await;
        // If the task panicked, the state of the device is unknown: restore the device.
        if let Some((left, answered)) = left.unwrap_or_else(|| {
            let why = "the daemon failed at the end of the run; please report this";
            Some((Left::Changed, Err(why.into())))
        }) {
            let (scheduler, rig) = (Arc::clone(&self), run.spec.rig);
            let ended = move || {
                scheduler.decide(|state, now| {
                    state.plan.answered(now, &rig, answered);
                    Ok::<_, Refusal>(state.plan.run_ended(now, &rig, left))
                })
            };
            blocking(ended).await;
        }
        self.ended.send_modify(|count| *count += 1);
    }

    /// Runs the tests and stores their events. Returns how the worker ended, and the verdicts without their checks.
    async fn execute(
        self: &Arc<Self>,
        run: &StoredRun,
        rig: &RigConfig,
        live: &Arc<Live>,
        span: &Span,
    ) -> (WorkerEnd, Vec<Verdict>) {
        let (events, mut happened) = mpsc::unbounded_channel();
        let (scheduler, of) = (Arc::clone(self), run.clone());
        let resume = match run.started_ns {
            Some(_) => blocking(move || scheduler.resumes(&of)).await.flatten(),
            None => None,
        };
        let job = Job {
            run: run.id.clone(),
            rig: rig.clone(),
            text: text_of(rig),
            spec: run.spec.clone(),
            record: self.store.record(run),
            lease: Some(live.lease()),
            resume,
        };
        let writer = {
            let (scheduler, live, run) = (Arc::clone(self), Arc::clone(live), run.clone());
            let (span, mut of_test) = (span.clone(), Span::none());
            tokio::task::spawn_blocking(move || {
                let (mut batch, mut verdicts) = (Vec::new(), Vec::new());
                while happened.blocking_recv_many(&mut batch, BATCH) > 0 {
                    verdicts.extend(batch.iter().filter_map(verdict_of));
                    for event in &batch {
                        match event {
                            Event::TestStarted(begun) => of_test = spans::of_test(&span, &begun.test),
                            Event::TestEnded(ended) => {
                                spans::test_ended(&of_test, ended.verdict.as_ref());
                                of_test = Span::none();
                            }
                            _ => {}
                        }
                    }
                    scheduler.keep_events(&run, &live, std::mem::take(&mut batch));
                }
                verdicts
            })
        };
        let execute = Arc::clone(&self.execute);
        let stop = live.stop_signal();
        // The worker runs in a separate task, so that a panic fails only this run.
        let end = tokio::spawn(async move { execute.run(job, events, stop).await }).await;
        let verdicts = writer.await.unwrap_or_default();
        let failed = |error| failed(format!("the daemon failed within the run: {error}; please report this"));
        (end.unwrap_or_else(failed), verdicts)
    }

    /// Returns where a run that gave way continues: after the tests that have a verdict.
    fn resumes(&self, run: &StoredRun) -> Option<Resumes> {
        let verdicts = self.store.verdicts(&run.id, Detail::Heads);
        let verdicts =
            verdicts.inspect_err(|error| tracing::error!(run = %run.id, %error, "the run's verdicts cannot be read"));
        Some(Resumes {
            done: u32::try_from(verdicts.ok()?.len()).unwrap_or(u32::MAX),
            started_ns: run.started_ns?,
        })
    }

    fn keep_events(&self, run: &StoredRun, live: &Live, batch: Vec<Event>) {
        for event in &batch {
            match event {
                Event::TestStarted(begun) => {
                    tracing::info!(run = %run.id, rig = run.spec.rig, test = begun.test, "test begins");
                }
                Event::TestEnded(ended) => {
                    let verdict = ended.verdict.as_ref();
                    if let Ok(rig) = self.rigs().find(&run.spec.rig) {
                        self.keep_generation(rig);
                    }
                    self.metrics
                        .test_ended(verdict.map(Verdict::outcome).unwrap_or_default());
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
        live.tell(self.store.as_ref(), self.store.now_ns(), batch);
    }

    /// Lets a run that gave way wait again. Returns false if the run must end instead.
    fn gave_way(self: &Arc<Self>, live: &Live, rig: &str, left: Left) -> bool {
        let waits = self.decide(|state, now| match (live.stopped(), live.unkept()) {
            (None, None) => {
                state.plan.answered(now, rig, Ok(()));
                state.plan.gave_way(now, rig, left).ok_or(())
            }
            _ => Err(()),
        });
        waits.is_ok()
    }

    /// Ends the run. If the run gave way before, its ending also covers the verdicts from that time. If the rig is the
    /// cause of the ending, returns the run and its reason as the error.
    fn conclude(&self, live: &Live, end: WorkerEnd, verdicts: Vec<Verdict>, span: &Span) -> Result<(), String> {
        let (stopped, unkept) = (live.stopped(), live.unkept());
        if matches!(end, WorkerEnd::Failed { .. }) {
            self.metrics.worker_failed();
        }
        let all = self.store.verdicts(live.id(), Detail::Heads);
        let verdicts = all.ok().filter(|all| all.len() > verdicts.len()).unwrap_or(verdicts);
        let ending = Ending::of(&end, &verdicts, stopped.as_deref(), unkept.as_deref());
        let info = match end {
            WorkerEnd::Finished(info) => Some(*info),
            WorkerEnd::Failed { .. } | WorkerEnd::GaveWay => None,
        };
        let answered = match (ending.outcome, ending.cause) {
            (Outcome::Error, Some(Cause::Rig)) => Err(format!("runs/{}: {}", live.id(), ending.reason)),
            _ => Ok(()),
        };
        spans::run_ended(span, &ending);
        self.end(live, ending, info);
        answered
    }

    /// Returns the state in which a run left its device.
    fn left(&self, rig: &RigConfig, end: &WorkerEnd, verdicts: &[Verdict]) -> Left {
        self.keep_generation(rig);
        let mut restored = verdicts.iter().flat_map(|verdict| &verdict.restored);
        let incomplete = restored.any(|restored| !restored.is_complete());
        let not_restored = matches!(end, WorkerEnd::Failed { not_restored: true, .. });
        let pending = || FileJournal::look(&self.journals, journal_owner(rig)).is_some();
        let changed = outlives_us(rig) && (incomplete || not_restored || pending());
        if changed { Left::Changed } else { Left::AsFound }
    }

    /// Restores a device, if its journal lists changes. Retries a failed restore after short pauses.
    async fn restore_device(self: Arc<Self>, rig: RigConfig) {
        let name = rig.name.clone();
        let mut done = self.restored(&rig).await;
        for pause in AT_ONCE {
            if done.is_final() || self.is_stopping() {
                break;
            }
            tracing::warn!(
                rig = name,
                within_s = pause.as_secs(),
                "the restore failed: the daemon tries again"
            );
            tokio::time::sleep(pause).await;
            done = self.restored(&rig).await;
        }
        let result = done.quarantined.clone().map_or(Ok(()), Err);
        let (scheduler, of) = (Arc::clone(&self), rig.clone());
        let ended = move || {
            scheduler.keep_generation(&of);
            scheduler.decide(|state, now| Ok::<_, Refusal>(state.plan.restore_ended(now, &of.name, result)))
        };
        blocking(ended).await;
        let asked = self.state().asked_for_restore.remove(&name);
        // Log the result after the plan has changed, so that the API already shows the state that the log reports.
        match &done.quarantined {
            None => {
                tracing::info!(
                    rig = name,
                    areas = done.areas.len(),
                    "the rig's device is as it was found"
                );
                self.state().patience.remove(&name);
            }
            Some(reason) => tracing::error!(rig = name, "the rig is quarantined: {reason}"),
        }
        if !done.is_final() {
            Arc::clone(&self).restore_later(name.clone());
        }
        if let Some(asked) = asked {
            // Ignore an error: the client may have disconnected.
            let _ = asked.send(done);
        }
        self.ended.send_modify(|count| *count += 1);
    }

    /// Schedules the next restore, so that no person has to act when a device or a cable comes back. Each pause is
    /// twice as long as the previous pause, up to [`AT_LAST`].
    fn restore_later(self: Arc<Self>, rig: String) {
        let wait = {
            let mut state = self.state();
            let wait = state.patience.entry(rig.clone()).or_insert(AT_FIRST);
            let now = *wait;
            *wait = (now * 2).min(AT_LAST);
            now
        };
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            let again = move || {
                self.decide(|state, _| {
                    let quarantined = |slot: &super::RigSlot| matches!(slot.phase, super::Phase::Quarantined(_));
                    match state.plan.slot(&rig).is_some_and(quarantined) {
                        true => state.plan.restore(&rig),
                        // The rig is no longer quarantined.
                        false => Ok(Vec::new()),
                    }
                })
            };
            // Ignore an error: the plan refuses a restore while the daemon is stopping.
            blocking(again).await;
        });
    }

    async fn restored(self: &Arc<Self>, rig: &RigConfig) -> RestoreDone {
        self.wait_until_free(rig).await;
        let before = self.journal(rig).await;
        let Some(before) = before else {
            return RestoreDone::as_found(Vec::new());
        };
        tracing::warn!(
            rig = rig.name,
            areas = before.in_words().join("; "),
            "restoring a device that an earlier run left changed"
        );
        let (events, mut happened) = mpsc::unbounded_channel();
        let (execute, restore_rig, text) = (Arc::clone(&self.execute), rig.clone(), text_of(rig));
        // A restore is never cancelled. A stopping daemon waits for the restore, or lets the worker complete it
        // alone.
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
            quarantine::forget(&self.journals, &rig.name);
            self.metrics.restored(true);
            return RestoreDone::as_found(areas);
        }
        self.metrics.restored(false);
        let why = match (failure.is_empty(), left.is_empty()) {
            (false, _) => failure.clone(),
            (true, false) => left.join("; "),
            (true, true) => "its journal still lists values to restore".into(),
        };
        let areas = if areas.is_empty() {
            unrestored(&before, &why)
        } else {
            areas
        };
        let journal = after.unwrap_or(before);
        if let Err(error) = quarantine::write_down(rig, &journal) {
            tracing::error!(
                rig = rig.name,
                "the commands for a restore by hand cannot be written: {error}"
            );
        }
        RestoreDone {
            areas,
            needs_a_person: !journal.damage.is_empty(),
            quarantined: Some(quarantine::reason(rig, Some(&journal), &why)),
        }
    }

    async fn wait_until_free(&self, rig: &RigConfig) {
        if !outlives_us(rig) {
            return;
        }
        let is_held = || {
            let (journals, name) = (self.journals.clone(), rig.name.clone());
            blocking(move || FileJournal::is_held(&journals, &name))
        };
        // Check at intervals: the release of the lock sends no event, and a thread that blocks on the lock could
        // not be cancelled.
        let free = async {
            let mut told = false;
            while is_held().await == Some(true) {
                if !told {
                    tracing::warn!(
                        rig = rig.name,
                        "another process holds the rig and may be restoring its device: the daemon waits for it"
                    );
                    told = true;
                }
                tokio::time::sleep(LOOKED_AT_EACH).await;
            }
        };
        // Continue at the time limit too: if the rig is still locked, the worker reports the lock.
        let _ = tokio::time::timeout(LET_GO_WITHIN, free).await;
    }

    async fn journal(&self, rig: &RigConfig) -> Option<Unrestored> {
        if !outlives_us(rig) {
            return None;
        }
        let (journals, owner) = (self.journals.clone(), journal_owner(rig));
        blocking(move || FileJournal::look(&journals, owner)).await.flatten()
    }
}

/// Returns the verdict of an event, without its checks and observations.
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

/// Returns the time between two moments; zero when the clock was set back between them.
fn since(earlier_ns: u64, later_ns: u64) -> Duration {
    Duration::from_nanos(later_ns.saturating_sub(earlier_ns))
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

pub(super) fn log_restored(rig: &str, areas: &[Restored]) {
    for area in areas {
        if area.is_complete() {
            tracing::info!(rig, "restored: {area}");
        } else {
            tracing::error!(rig, "not restored: {area}");
        }
    }
}

/// Runs work that may block. Returns `None` if the work panicked.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}
