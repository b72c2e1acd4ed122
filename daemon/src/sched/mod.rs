//! The scheduler: lets the [`plan`] decide, and carries out its actions.
//!
//! All functions here that use the store block on a disk, so they run on threads that may block. No async function
//! holds a lock while it waits.

mod drive;
mod ending;
mod execute;
mod generation;
mod lab;
mod leases;
mod live;
mod look;
mod meanwhile;
mod patience;
pub mod plan;
mod quarantine;
pub mod queue;
mod reload;
mod takeover;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use verbatim_tester::{FileJournal, Test, Unrestored};

pub use ending::Ending;
pub use execute::{Execute, Workers};
#[cfg(test)]
pub(crate) use leases::fresh;
pub use leases::{LONGEST_LEASE, LONGEST_QUEUE, LeaseView, NewLease, USUAL_LEASE};
pub use live::{Live, Since, changed, is_last, timestamp, to_watch};
pub use meanwhile::restore_meanwhile;
pub use patience::Watching;
pub use plan::{Phase, Refusal, RigSlot, RigSlotView};
pub use reload::{NotReloaded, Reloaded, of_lab};

use crate::access::{End, Identity, May, Operate};
use crate::metrics::{Metrics, RigStands};
use crate::store::retention::Retention;
use crate::store::{
    AskedRun, Filter, LeaseId, Patience, RUNS, RemoteRequest, Store, StoreError, StoredLease, StoredRun,
};
use drive::RestoreDone;
use plan::{Action, Cancelled, Found, Left, Plan};
use verbatim_proto::v1::{LeaseState, Priority, RunSpec, RunState};
use verbatim_rig::{RigConfig, RigFile, RigKind};
use verbatim_run::state::StateDirectory;
use verbatim_run::{RunError, RunId, boot_ns, journal_owner, last_token};

/// How long ended leases stay in the list.
const ENDED_LEASES_STAY: Duration = Duration::from_secs(90 * 24 * 3600);
/// If the clock is set ahead by more than this many seconds while the daemon runs, the daemon no longer deletes
/// anything for its age.
const CLOCK_IS_TRUSTED_WITHIN_S: i128 = 3600;
/// How long the client of a waiting run or lease may be disconnected, by default. Clients try to reconnect for the
/// same time.
pub(crate) const CLIENT_GONE: Duration = Duration::from_secs(60);
/// The file in the state directory that names the drained rigs.
const DRAINED: &str = "drained.json";
/// The number of the newest leases from which the start learns the owners' recent turns on rigs.
const LAST_TURNS: usize = 1000;

/// A request for a run, whose values are already checked.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// The permission of the future owner to run tests on the rig.
    pub may: May<Operate>,
    /// The client's id of the request; empty when the client gave none.
    pub request_id: String,
    /// The client's specification of the run.
    pub spec: RunSpec,
    /// The tests that the request selects.
    pub tests: Vec<&'static Test>,
    /// The lease under which the run runs; `None` to create a lease for the run.
    pub lease: Option<LeaseId>,
    /// The rest of the client's request. Its priority class is that of the lease that is created for the run.
    pub asked: AskedRun,
    /// The host that has the rig, if it is another host.
    pub elsewhere: Option<String>,
    /// How long the run may wait for its rig.
    pub patience: Patience,
}

/// Why a run or lease is not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The plan refused the run or lease.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why the scheduler cannot start. Without the stored leases and tokens, a scheduler could grant a rig that is
/// already in use.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store cannot be read.
    #[error(
        "the daemon cannot read the leases of the rigs ({0}), and starts nothing; mend the store, or move it away to \
         begin with an empty one"
    )]
    Store(#[from] StoreError),
    /// The last tokens of the rigs cannot be read.
    #[error(transparent)]
    Fence(#[from] RunError),
}

/// The scheduler of runs, leases and rigs.
#[derive(Debug)]
pub struct Scheduler {
    /// The rigs of the rig file, followed by removed rigs. A removed rig stays until its device is restored and no
    /// lease uses it.
    rigs: Mutex<Arc<RigFile>>,
    journals: PathBuf,
    store: Arc<dyn Store>,
    execute: Arc<dyn Execute>,
    /// The runtime for runs and restores. Blocking threads spawn them outside of any task.
    runtime: Handle,
    state: Mutex<State>,
    /// The last assigned id. Locked while a run or lease is created, so that a repeated request creates only one run or
    /// lease.
    creating: Mutex<(u64, u16)>,
    /// The drained rigs as they are stored. The key is the rig's name, and the value the reason.
    drained: Mutex<BTreeMap<String, String>>,
    drained_path: PathBuf,
    /// The number of created runs.
    created: generation::Runs,
    /// Ends of leases that could not be written yet. The scheduler writes them before any other state of a lease.
    /// Otherwise the store would refuse to grant the rigs that these leases held.
    unwritten: Mutex<Vec<StoredLease>>,
    /// Counts ended runs and restores. `stop` waits for changes of this count.
    ended: watch::Sender<u64>,
    /// Locked while the plan decides and its actions are carried out, so that actions follow in the order of
    /// decisions.
    turn: Mutex<()>,
    /// Counts decisions, for the watchers of rigs and leases.
    changed: watch::Sender<u64>,
    metrics: Metrics,
    /// The owners' watches of waiting runs and leases.
    watchers: patience::Watchers,
    /// How long the client of a waiting run or lease may be disconnected, in milliseconds.
    gone_after_ms: AtomicU64,
    /// The limit that [`Scheduler::leases_may_wait_for`] sets, in seconds.
    longest_queue_s: AtomicU64,
    /// The store's clock minus the boot clock at the scheduler's start, in nanoseconds.
    ahead_ns: i128,
}

#[derive(Debug)]
struct State {
    plan: Plan,
    live: HashMap<RunId, Arc<Live>>,
    /// Leases that have not ended, in their last stored state.
    leases: HashMap<LeaseId, StoredLease>,
    asked_for_restore: HashMap<String, oneshot::Sender<RestoreDone>>,
    /// The pause before the next restore of each quarantined rig.
    patience: HashMap<String, Duration>,
    store: Arc<dyn Store>,
    /// Leases that were being granted when the database went away. The database may or may not have stored the
    /// grants.
    unheard: HashSet<LeaseId>,
    /// The lease that could not be stored in the current decision, and the error.
    unkept: Option<(LeaseId, StoreError)>,
}

impl Scheduler {
    /// Starts a scheduler of these rigs. Interrupted runs of an earlier daemon end, and its waiting runs keep
    /// waiting. A changed device is restored before its rig gets a run. Blocks on the disk. Must be called within
    /// the runtime.
    ///
    /// # Errors
    /// When the store or the last tokens of the rigs cannot be read.
    pub fn start(
        rigs: RigFile,
        state: &StateDirectory,
        store: Arc<dyn Store>,
        execute: Arc<dyn Execute>,
    ) -> Result<Arc<Self>, StartError> {
        let takeover::Waiting {
            live,
            leases,
            planned,
            unwritten,
        } = takeover::waiting(store.as_ref(), &rigs, &state.journals())?;
        let journals = state.journals();
        let drained_path = state.path().join(DRAINED);
        let drained = takeover::drained(&drained_path, &rigs);
        let mut drained = drained;
        let created = store.generations()?.get(RUNS).copied().unwrap_or(0);
        let created = generation::Runs::of(state.path(), created);
        let older = generation::look(store.as_ref(), &rigs, &journals, &created)?;
        if !older.is_empty() {
            drained.extend(older);
            if let Err(error) = takeover::keep_drained(&drained_path, &drained) {
                tracing::error!(%error, "the list of drained rigs cannot be written");
            }
        }
        created.settle();
        let mut rigs = rigs;
        let left_over = takeover::left_over(&rigs, &journals);
        let of_the_file = rigs.rigs.len();
        rigs.rigs.extend(left_over);
        let found = rigs.rigs.iter().enumerate().map(|(place, rig)| Found {
            left: left(&journals, rig),
            drained: drained.get(&rig.name).cloned(),
            leaving: place >= of_the_file,
            is_looked_at: outlives_us(rig),
            rig: &rig.name,
        });
        // The next token must also exceed the last token that each rig has seen, because the store may be empty or an
        // old copy.
        let last_token = store.last_token()?.max(last_token(&journals)?);
        // Ids sort by time. New ids must follow all existing ids, even if the clock was set back.
        let newest_run = store.list(&Filter::default(), None, 1)?.pop().map(|kept| kept.run.id);
        let newest_lease = store.leases(true, 1)?.pop().map(|lease| lease.id);
        let last_id = newest_run.map(|id| id.number()).max(newest_lease.map(|id| id.number()));
        // The newest id may belong to another host, whose serial numbers this host may not use. So continue in the
        // next millisecond.
        let last_id = last_id.map_or((0, 0), |(ms, _)| (ms, *store.serials().end()));
        let ahead_s = (last_id.0 / 1000).saturating_sub(store.now_ns() / 1_000_000_000);
        if ahead_s > 60 {
            tracing::warn!(
                ahead_s,
                "the clock was set back: stored runs and leases have times in the future. New ones are still listed \
                 after them, but have earlier times; check the clock of this host"
            );
        }
        let (mut plan, actions) = Plan::new(leases::now(), found, planned, last_token);
        for lease in store.leases(true, LAST_TURNS)? {
            if let Some(ended_ns) = lease.granted_ns.and(lease.ended_ns) {
                plan.had_turn(&lease.owner, &lease.rig, leases::boot(ended_ns, store.now_ns()));
            }
        }
        let ahead_ns = ahead_ns(store.as_ref());
        let scheduler = Arc::new(Self {
            rigs: Mutex::new(Arc::new(rigs)),
            journals,
            store: Arc::clone(&store),
            execute,
            runtime: Handle::current(),
            state: Mutex::new(State {
                plan,
                live,
                leases,
                asked_for_restore: HashMap::new(),
                patience: HashMap::new(),
                store,
                unheard: HashSet::new(),
                unkept: None,
            }),
            creating: Mutex::new(last_id),
            drained: Mutex::new(drained),
            drained_path,
            created,
            unwritten: Mutex::new(unwritten),
            ended: watch::Sender::new(0),
            turn: Mutex::default(),
            changed: watch::Sender::new(0),
            metrics: Metrics::default(),
            watchers: patience::Watchers::default(),
            gone_after_ms: AtomicU64::new(CLIENT_GONE.as_millis() as u64),
            longest_queue_s: AtomicU64::new(LONGEST_QUEUE.as_secs()),
            ahead_ns,
        });
        let found: Vec<StoredRun> = scheduler.state().live.values().map(|live| live.run()).collect();
        let attended: Vec<LeaseId> = {
            let state = scheduler.state();
            let attended = state.leases.values().filter(|lease| lease.attended);
            attended.map(|lease| lease.id.clone()).collect()
        };
        scheduler.act(actions);
        found.iter().for_each(|run| scheduler.bound(run));
        attended.iter().for_each(|lease| scheduler.bound_lease(lease));
        tokio::spawn(Arc::clone(&scheduler).end_in_time());
        tokio::spawn(Arc::clone(&scheduler).look_in_time());
        Ok(scheduler)
    }

    /// Lets the plan decide, and carries out its actions. Blocks on the disk.
    fn decide<E>(
        self: &Arc<Self>,
        decide: impl FnOnce(&mut State, Duration) -> Result<Vec<Action>, E>,
    ) -> Result<(), E> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let actions = {
            let mut state = self.state();
            state.unkept = None;
            decide(&mut state, leases::now())?
        };
        self.act(actions);
        self.changed.send_modify(|count| *count += 1);
        Ok(())
    }

    /// Returns a channel that changes when rigs or leases may have changed.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn creating(&self) -> MutexGuard<'_, (u64, u16)> {
        self.creating.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the rigs, in the order of the rig file.
    #[must_use]
    pub fn rigs(&self) -> Arc<RigFile> {
        Arc::clone(&self.rigs.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Removes the files of runs beyond `limits`, and deletes leases that ended long ago. Blocks on the disk.
    pub fn tidy(&self, mut limits: Retention) {
        let stepped_s = (ahead_ns(self.store.as_ref()) - self.ahead_ns) / 1_000_000_000;
        if stepped_s > CLOCK_IS_TRUSTED_WITHIN_S {
            // A wrong clock must not make the daemon delete files.
            tracing::warn!(
                stepped_s,
                "the clock was set forward: the daemon removes nothing for its age until it is restarted; check the \
                 clock before a restart"
            );
            limits.age = None;
        }
        let long_ago = self.store.now_ns().saturating_sub(ENDED_LEASES_STAY.as_nanos() as u64);
        let forgotten = match stepped_s > CLOCK_IS_TRUSTED_WITHIN_S {
            true => Ok(0),
            false => self.store.forget_ended(long_ago),
        };
        match forgotten {
            Ok(0) => {}
            Ok(leases) => tracing::info!(leases, "leases that ended long ago are deleted"),
            Err(error) => tracing::warn!(%error, "leases that ended long ago cannot be deleted yet"),
        }
        let now_ns = self.store.now_ns();
        let go = self.store.with_files().map(|files| limits.go(now_ns, &files));
        for run in go.unwrap_or_default() {
            match self.store.remove_files(&run, now_ns) {
                Ok(()) => tracing::info!(%run, "the run's files were removed: they were over the limits in [keep]"),
                Err(error) => tracing::error!(%run, %error, "the run's files cannot be removed"),
            }
        }
    }

    /// Returns the current use of all rigs, by name, with the owner of the lease that holds each.
    #[must_use]
    pub fn slots(&self) -> BTreeMap<String, (RigSlotView, Option<Identity>)> {
        let state = self.state();
        let slots = state.plan.slots(leases::now());
        let with_owner = |(rig, view): (String, RigSlotView)| {
            let holder = view.slot.holder.as_ref().and_then(|holder| state.plan.lease(holder));
            let owner = holder.map(|lease| lease.owner.clone());
            (rig, (view, owner))
        };
        slots.into_iter().map(with_owner).collect()
    }

    /// Returns the current use of a rig, with the owner of the lease that holds it.
    #[must_use]
    pub fn slot(&self, rig: &str) -> Option<(RigSlotView, Option<Identity>)> {
        let state = self.state();
        let view = state.plan.lane_view(leases::now(), rig)?;
        let holder = view.slot.holder.as_ref().and_then(|holder| state.plan.lease(holder));
        let owner = holder.map(|lease| lease.owner.clone());
        Some((view, owner))
    }

    /// Returns the number of rigs. While a decision is stuck, this function does not return, which the watchdog
    /// notices.
    #[must_use]
    pub fn answers(&self) -> usize {
        self.state().plan.rigs()
    }

    /// Returns the directory of the journals.
    #[must_use]
    pub fn journals(&self) -> &Path {
        &self.journals
    }

    /// Returns the metrics.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Returns the states of all rigs, for the metrics.
    #[must_use]
    pub fn stands(&self) -> BTreeMap<String, RigStands> {
        self.state().plan.stands()
    }

    /// Returns the rig that a reserved lease holds.
    ///
    /// # Errors
    /// When the lease holds no rig, has ended, or was made for a run.
    pub fn rig_of(&self, lease: &LeaseId) -> Result<String, Refusal> {
        self.state().plan.rig_of(lease)
    }

    /// Returns the reserved lease by which this identity holds a rig. Ignores leases that were made for a run.
    /// Blocks on the store if another host has the rig.
    #[must_use]
    pub fn held_by(&self, who: &Identity, rig: &str) -> Option<LeaseId> {
        let is_theirs = |owner: &Identity, run: Option<&RunId>| owner == who && run.is_none();
        let state = self.state();
        if let Some(slot) = state.plan.slot(rig) {
            let lease = state.plan.lease(slot.holder.as_ref()?)?;
            let takes = lease.ends.is_none() && is_theirs(&lease.owner, lease.run.as_ref());
            return takes.then(|| lease.id.clone());
        }
        drop(state);
        self.store.lab()?;
        let leases = self.store.leases(false, usize::MAX).ok()?.into_iter();
        let mut active = leases.filter(|lease| lease.state == LeaseState::Active && lease.rig == rig);
        active
            .find(|lease| is_theirs(&lease.owner, lease.run.as_ref()))
            .map(|lease| lease.id)
    }

    /// Drains a rig for the reason `why`, or undrains it if `why` is `None`. The change survives a restart of the
    /// daemon. Blocks on the disk.
    ///
    /// # Errors
    /// When there is no such rig, or the change cannot be stored.
    pub fn drain(self: &Arc<Self>, may: &May<End>, why: Option<String>) -> Result<(), CreateError> {
        let rig = may.rig();
        if self.state().plan.slot(rig).is_none() {
            return Err(Refusal::UnknownRig(rig.into()).into());
        }
        let mut drained = self.drained.lock().unwrap_or_else(PoisonError::into_inner);
        let mut now = drained.clone();
        match &why {
            Some(why) => drop(now.insert(rig.into(), why.clone())),
            None => drop(now.remove(rig)),
        }
        takeover::keep_drained(&self.drained_path, &now).map_err(|source| StoreError::Io {
            path: self.drained_path.clone(),
            source,
        })?;
        *drained = now;
        Ok(self.decide(|state, now| state.plan.drain(now, rig, why))?)
    }

    /// Returns all journals that list something to restore. Blocks on the disk.
    #[must_use]
    pub fn all_pending(&self) -> Vec<Unrestored> {
        FileJournal::all(&self.journals)
    }

    /// Returns the rig's journal out of `all`. Returns `None` while a run is running on the rig, because that run
    /// restores the device itself.
    #[must_use]
    pub fn pending(&self, rig: &RigConfig, all: &[Unrestored]) -> Option<Unrestored> {
        let running = matches!(self.state().plan.slot(&rig.name)?.phase, Phase::Running(_));
        (!running && outlives_us(rig))
            .then(|| FileJournal::among(all, journal_owner(rig)))
            .flatten()
    }

    /// Returns the place of a run in the queue of its rig, starting at 1; 0 when the run doesn't wait.
    #[must_use]
    pub fn place(&self, run: &StoredRun) -> u32 {
        if run.state != RunState::Queued {
            return 0;
        }
        let place = self.state().plan.place(leases::now(), &run.id);
        place.and_then(|place| u32::try_from(place).ok()).unwrap_or(0)
    }

    /// Returns a run that has not ended.
    #[must_use]
    pub fn live(&self, run: &RunId) -> Option<Arc<Live>> {
        self.state().live.get(run).cloned()
    }

    /// Creates a run, or finds the run that the same request created before. Blocks on the disk.
    ///
    /// # Errors
    /// When the rig or lease doesn't accept the run, or the run cannot be stored.
    pub fn create(self: &Arc<Self>, new: NewRun) -> Result<StoredRun, CreateError> {
        let mut last = self.creating();
        if !new.request_id.is_empty()
            && let Some(run) = self.store.of_request(new.may.who(), &new.request_id)?
        {
            return Ok(run);
        }
        self.state().plan.has_room(new.may.who())?;
        if new.may.rig() != new.spec.rig {
            return Err(Refusal::UnknownRig(new.spec.rig).into());
        }
        if let Some(host) = &new.elsewhere {
            let run = self.create_elsewhere(&mut last, &new, host)?;
            self.bound(&run);
            return Ok(run);
        }
        match &new.lease {
            Some(lease) => drop(self.state().plan.takes_under(lease)?),
            None => self.state().plan.takes(std::slice::from_ref(&new.spec.rig))?,
        }
        let run = self.keep(&mut last, &new)?;
        self.metrics.run_created();
        let live = Arc::new(Live::new(run.clone(), 0));
        live.tell(
            self.store.as_ref(),
            run.created_ns,
            vec![changed(RunState::Queued, None)],
        );
        tracing::info!(run = %run.id, rig = run.spec.rig, who = %run.owner, tests = run.tests.len(), "run created");
        self.state().live.insert(run.id.clone(), Arc::clone(&live));
        let submitted = match new.lease {
            Some(lease) => self
                .decide(|state, _| state.plan.submit(&lease, run.id.clone()))
                .map_err(CreateError::from),
            None => self.ask(self.lease_of_run(&run, new.asked.priority)),
        };
        match submitted {
            Ok(()) => {}
            Err(CreateError::Store(error)) => self.end(&live, Ending::of_unkept(&error.to_string()), None),
            // The plan can still refuse: since the check above, the rig was quarantined, the lease ended, or the
            // daemon began to stop.
            Err(CreateError::Refused(refusal)) => self.end_refused(&live, &refusal),
        }
        self.bound(&run);
        Ok(live.run())
    }

    fn end_refused(&self, live: &Live, refusal: &Refusal) {
        let why = match refusal {
            Refusal::Quarantined { reason, .. } => plan::NeverBegan::Quarantined(reason.clone()),
            Refusal::LeaseOver(_) => plan::NeverBegan::LeaseEnded("has ended".into()),
            _ => plan::NeverBegan::Stopping,
        };
        self.end(live, Ending::of_waiting(&why, false, ""), None);
    }

    /// Returns the lease that is made for a run.
    fn lease_of_run(&self, run: &StoredRun, priority: Priority) -> StoredLease {
        let (rigs, of_run) = (vec![run.spec.rig.clone()], Some(run.id.clone()));
        StoredLease {
            created_ns: self.store.now_ns(),
            ..leases::fresh(LeaseId::like(&run.id), &run.owner, rigs, of_run, priority)
        }
    }

    /// Stores a new run under a new id. If the run gets a lease of its own on another host, also posts the lease.
    fn keep(&self, last: &mut (u64, u16), new: &NewRun) -> Result<StoredRun, StoreError> {
        let created_ns = self.store.now_ns();
        let id = RunId::new(created_ns, 0);
        let mut run = StoredRun {
            lease: LeaseId::like(&id),
            id,
            request_id: new.request_id.clone(),
            owner: new.may.who().clone(),
            spec: new.spec.clone(),
            tests: new.tests.iter().map(|test| test.id.to_string()).collect(),
            state: RunState::Queued,
            outcome: None,
            cause: None,
            reason: String::new(),
            created_ns,
            started_ns: None,
            ended_ns: None,
            info: None,
            host: String::new(),
            patience: new.patience,
            asked: new.asked.clone(),
        };
        if let Some(host) = &new.elsewhere {
            run.host.clone_from(host);
        }
        loop {
            run.id = next_id(last, created_ns, &self.store.serials());
            run.lease = new.lease.clone().unwrap_or_else(|| LeaseId::like(&run.id));
            let created = match (self.store.lab(), &new.elsewhere) {
                (Some(lab), Some(host)) if new.lease.is_none() => {
                    let lease = StoredLease {
                        host: host.clone(),
                        posted: true,
                        ..self.lease_of_run(&run, new.asked.priority)
                    };
                    lab.post(Some(&run), &lease)
                }
                _ => self.store.create(&run),
            };
            match created {
                Err(StoreError::Exists(_)) => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    self.created.add();
                    return Ok(run);
                }
            }
        }
    }

    /// Cancels a run for a client. A waiting run ends at once. Blocks on the disk.
    ///
    /// # Errors
    /// When another host has the run, and the request to it cannot be written.
    pub fn cancel(self: &Arc<Self>, run: &StoredRun, may: &May<End>) -> Result<(), StoreError> {
        match self.is_elsewhere(&run.host) {
            true => self.remote_request(&run.host, &RemoteRequest::Cancel(run.id.clone(), may.who().in_words())),
            false => {
                self.cancel_here(&run.id, &may.who().in_words());
                Ok(())
            }
        }
    }

    pub(super) fn cancel_here(self: &Arc<Self>, run: &RunId, by: &str) {
        let who = format!("cancelled by {by}");
        let cancelled = self.decide(|state, now| {
            let (Cancelled::Waiting(actions) | Cancelled::UnderWay(actions)) = state.plan.cancel(now, run) else {
                return Err(());
            };
            if let Some(live) = state.live.get(run) {
                live.stop(&who);
            }
            Ok(actions)
        });
        if cancelled.is_ok() {
            tracing::info!(%run, who = by, "run cancelled");
        }
    }

    /// Starts a restore of a rig's device for a client. Returns a receiver of the result.
    ///
    /// # Errors
    /// When the rig is busy, or the daemon is stopping.
    pub fn restore(self: &Arc<Self>, may: &May<End>) -> Result<oneshot::Receiver<RestoreDone>, Refusal> {
        let (sender, receiver) = oneshot::channel();
        let rig = may.rig();
        self.decide(|state, _| {
            let actions = state.plan.restore(rig)?;
            state.asked_for_restore.insert(rig.into(), sender);
            Ok::<_, Refusal>(actions)
        })?;
        Ok(receiver)
    }

    /// Stops the scheduler, which then takes no more runs. Leaves waiting runs to the next daemon, and stops
    /// running runs. Waits until every device is restored, but not longer than `within`. Returns the rigs that are
    /// still busy after that time.
    pub async fn stop(self: &Arc<Self>, within: Duration) -> Vec<String> {
        let mut ended = self.ended.subscribe();
        let scheduler = Arc::clone(self);
        let stop = move || scheduler.decide(|state, _| Ok::<_, Refusal>(state.plan.stop()));
        // Wait for the running work even if the task panicked. The panic was already reported.
        let _ = tokio::task::spawn_blocking(stop).await;
        let quiet = async { while !self.under_way().is_empty() && ended.changed().await.is_ok() {} };
        let _ = tokio::time::timeout(within, quiet).await;
        self.under_way()
    }

    fn is_stopping(&self) -> bool {
        self.state().plan.is_stopping()
    }

    /// Returns the rigs on which a run or restore is running, or whose run has ended but is still listed as live.
    fn under_way(&self) -> Vec<String> {
        let state = self.state();
        let mut rigs: Vec<String> = state.plan.under_way().map(String::from).collect();
        let runs = state.live.values().map(|live| live.run());
        rigs.extend(runs.filter(|run| run.state != RunState::Queued).map(|run| run.spec.rig));
        rigs.sort();
        rigs.dedup();
        rigs
    }
}

/// Returns the store's clock minus the boot clock, in nanoseconds.
fn ahead_ns(store: &dyn Store) -> i128 {
    i128::from(store.now_ns()) - i128::from(boot_ns())
}

/// Returns the next id. Ids only grow, even if the clock stands still or was set back.
fn next_id(last: &mut (u64, u16), now_ns: u64, serials: &RangeInclusive<u16>) -> RunId {
    let (ms, serial) = *last;
    *last = if now_ns / 1_000_000 > ms {
        (now_ns / 1_000_000, *serials.start())
    } else if serial < *serials.end() {
        (ms, serial + 1)
    } else {
        (ms + 1, *serials.start())
    };
    RunId::new(last.0.saturating_mul(1_000_000), last.1)
}

/// Returns the state in which an earlier run left a rig's device. While another process holds the rig, it may be
/// restoring the device, so the device counts as changed.
fn left(journals: &Path, rig: &RigConfig) -> Left {
    let changed =
        || FileJournal::is_held(journals, &rig.name) || FileJournal::look(journals, journal_owner(rig)).is_some();
    match outlives_us(rig) && changed() {
        true => Left::Changed,
        false => Left::AsFound,
    }
}

/// Returns whether a rig's device outlives this process, so that a journal lists the changes on it.
fn outlives_us(rig: &RigConfig) -> bool {
    !matches!(rig.kind, RigKind::Virtual(_))
}
