//! The scheduler: decides by the [`plan`] and does what comes out of it.
//!
//! Everything here that touches the store blocks on a disk and runs on threads that may; nothing holds a lock while it
//! waits.

mod drive;
mod ending;
mod execute;
mod live;
pub mod plan;
mod quarantine;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use verbatim_tester::{FileJournal, Test, Unrestored};

pub use ending::Ending;
pub use execute::{Execute, Workers};
pub use live::{Live, Since, changed, is_last, timestamp, to_watch};
pub use plan::{Lane, Phase, Refusal};

use crate::access::{End, May, Operate};
use crate::store::{Filter, RunStore, StoreError, StoredRun};
use drive::RestoreDone;
use plan::{Action, Cancelled, Left, Plan};
use verbatim_proto::v1::{RunSpec, RunState};
use verbatim_rig::{RigConfig, RigFile, RigKind};
use verbatim_run::state::StateDirectory;
use verbatim_run::{RunId, now_ns};

/// A run that somebody asks for; everything in it was checked.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// Whose it will be, who may run tests on its rig.
    pub may: May<Operate>,
    /// The client's id of the request; empty when it gave none.
    pub request_id: String,
    /// What is asked for.
    pub spec: RunSpec,
    /// The tests that this comes to.
    pub tests: Vec<&'static Test>,
}

/// Why a run is not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The rig does not take it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It cannot be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What runs where, and what waits.
#[derive(Debug)]
pub struct Scheduler {
    rigs: RigFile,
    journals: PathBuf,
    store: Arc<dyn RunStore>,
    execute: Arc<dyn Execute>,
    state: Mutex<State>,
    /// The last id given. Held while a run is created, so that a request creates one run however often it comes.
    creating: Mutex<(u64, u16)>,
    /// Counts what ended, for who waits for quiet.
    ended: watch::Sender<u64>,
}

#[derive(Debug)]
struct State {
    plan: Plan,
    live: HashMap<RunId, Arc<Live>>,
    asked_for_restore: HashMap<String, oneshot::Sender<RestoreDone>>,
}

impl Scheduler {
    /// A scheduler over these rigs. Runs that an earlier daemon left unfinished end; devices that it left changed are
    /// restored before anything else. Blocks on the disk; must be called within the runtime.
    pub fn start(
        rigs: RigFile,
        state: &StateDirectory,
        store: Arc<dyn RunStore>,
        execute: Arc<dyn Execute>,
    ) -> Arc<Self> {
        end_interrupted(store.as_ref());
        let journals = state.journals();
        // The worker of a daemon that died may still be at it: then that is waited for.
        let is_changed = |rig: &RigConfig| {
            outlives_us(rig)
                && (FileJournal::is_held(&journals, &rig.name) || FileJournal::look(&journals, &rig.name).is_some())
        };
        let left = |rig: &RigConfig| if is_changed(rig) { Left::Changed } else { Left::AsFound };
        let (plan, actions) = Plan::new(rigs.rigs.iter().map(|rig| (rig.name.as_str(), left(rig))));
        let scheduler = Arc::new(Self {
            rigs,
            journals,
            store,
            execute,
            state: Mutex::new(State {
                plan,
                live: HashMap::new(),
                asked_for_restore: HashMap::new(),
            }),
            creating: Mutex::new((0, 0)),
            ended: watch::Sender::new(0),
        });
        scheduler.act(actions);
        scheduler
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rigs, in the order of the rig file.
    #[must_use]
    pub fn rigs(&self) -> &RigFile {
        &self.rigs
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn RunStore> {
        &self.store
    }

    /// A rig's present use.
    #[must_use]
    pub fn lane(&self, rig: &str) -> Option<Lane> {
        self.state().plan.lane(rig).cloned()
    }

    /// What a rig's journal says is to be restored, when no run is under way that would restore it.
    #[must_use]
    pub fn pending(&self, rig: &RigConfig) -> Option<Unrestored> {
        let running = matches!(self.lane(&rig.name)?.phase, Phase::Running(_));
        (!running && outlives_us(rig))
            .then(|| FileJournal::look(&self.journals, &rig.name))
            .flatten()
    }

    /// The place of a run in its queue, from 1 on; 0 when it does not wait.
    #[must_use]
    pub fn place(&self, run: &StoredRun) -> u32 {
        let place = self.state().plan.place(&run.spec.rig, &run.id);
        place.and_then(|place| u32::try_from(place).ok()).unwrap_or(0)
    }

    /// A run that has not ended.
    #[must_use]
    pub fn live(&self, run: &RunId) -> Option<Arc<Live>> {
        self.state().live.get(run).cloned()
    }

    /// Creates a run, or finds the one that the same request created before. Blocks on the disk.
    ///
    /// # Errors
    /// When the rig does not take it, or it cannot be kept.
    pub fn create(self: &Arc<Self>, new: NewRun) -> Result<StoredRun, CreateError> {
        let mut last = self.creating.lock().unwrap_or_else(PoisonError::into_inner);
        if !new.request_id.is_empty()
            && let Some(run) = self.store.of_request(new.may.who(), &new.request_id)?
        {
            return Ok(run);
        }
        if new.may.rig() != new.spec.rig {
            return Err(Refusal::UnknownRig(new.spec.rig).into());
        }
        self.state().plan.takes(&new.spec.rig)?;
        let run = self.keep(&mut last, &new)?;
        let live = Arc::new(Live::new(run.clone(), 0));
        live.tell(
            self.store.as_ref(),
            run.created_ns,
            vec![changed(RunState::Queued, None)],
        );
        tracing::info!(run = %run.id, rig = run.spec.rig, who = %run.owner, tests = run.tests.len(), "run created");
        let submitted = {
            let mut state = self.state();
            state.live.insert(run.id.clone(), Arc::clone(&live));
            state.plan.submit(&run.spec.rig, run.id.clone())
        };
        match submitted {
            Ok(actions) => self.act(actions),
            // The rig was quarantined, or the daemon told to stop, since it was asked.
            Err(refusal) => {
                let why = match &refusal {
                    Refusal::Quarantined { reason, .. } => plan::NeverBegan::Quarantined(reason.clone()),
                    _ => plan::NeverBegan::Stopping,
                };
                self.end(&live, Ending::of_waiting(&why, ""), None);
            }
        }
        Ok(live.run())
    }

    /// Keeps a new run under a new id.
    fn keep(&self, last: &mut (u64, u16), new: &NewRun) -> Result<StoredRun, StoreError> {
        let created_ns = now_ns();
        let mut run = StoredRun {
            schema: StoredRun::SCHEMA.into(),
            id: RunId::new(created_ns, 0),
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
        };
        loop {
            // Also when the clock stands still or was set back: ids only grow.
            let (ms, serial) = *last;
            let next = if created_ns / 1_000_000 > ms {
                (created_ns / 1_000_000, 0)
            } else if serial < u16::MAX {
                (ms, serial + 1)
            } else {
                (ms + 1, 0)
            };
            *last = next;
            run.id = RunId::new(next.0.saturating_mul(1_000_000), next.1);
            match self.store.create(&run) {
                Err(StoreError::Exists(_)) => {}
                created => return created.map(|()| run),
            }
        }
    }

    /// Cancels a run on behalf of somebody. One that waits ends at once. Blocks on the disk.
    pub fn cancel(self: &Arc<Self>, run: &StoredRun, may: &May<End>) {
        let who = format!("cancelled by {}", may.who());
        let (cancelled, live) = {
            let mut state = self.state();
            (
                state.plan.cancel(&run.spec.rig, &run.id),
                state.live.get(&run.id).cloned(),
            )
        };
        let (Cancelled::Waiting(actions) | Cancelled::UnderWay(actions)) = cancelled else {
            return;
        };
        tracing::info!(run = %run.id, rig = run.spec.rig, who = %may.who(), "run cancelled");
        let Some(live) = live else {
            return;
        };
        live.stop(&who);
        for action in actions {
            if let Action::End(_, why) = action {
                self.end(&live, Ending::of_waiting(&why, &who), None);
            }
        }
    }

    /// Restores the device of a rig, on behalf of somebody.
    ///
    /// # Errors
    /// When the rig is busy, or the daemon stops.
    pub fn restore(self: &Arc<Self>, may: &May<End>) -> Result<oneshot::Receiver<RestoreDone>, Refusal> {
        let (sender, receiver) = oneshot::channel();
        let rig = may.rig();
        let actions = {
            let mut state = self.state();
            let actions = state.plan.restore(rig)?;
            state.asked_for_restore.insert(rig.into(), sender);
            actions
        };
        self.act(actions);
        Ok(receiver)
    }

    /// Takes no more runs, ends those that wait, stops those under way, and waits until every device is restored, for at
    /// most that long. The rigs on which something is still under way then.
    pub async fn stop(self: &Arc<Self>, within: Duration) -> Vec<String> {
        let mut ended = self.ended.subscribe();
        let actions = self.state().plan.stop();
        self.act(actions);
        let quiet = async { while !self.under_way().is_empty() && ended.changed().await.is_ok() {} };
        let _ = tokio::time::timeout(within, quiet).await;
        self.under_way()
    }

    /// The rigs on which a run or a restore is under way, or runs are about to end.
    fn under_way(&self) -> Vec<String> {
        let state = self.state();
        let mut rigs: Vec<String> = state.plan.under_way().map(String::from).collect();
        rigs.extend(state.live.values().map(|live| live.run().spec.rig));
        rigs.sort();
        rigs.dedup();
        rigs
    }
}

/// Whether a rig's device outlives this process: then what was changed on it is in a journal.
fn outlives_us(rig: &RigConfig) -> bool {
    !matches!(rig.kind, RigKind::Virtual(_))
}

/// Ends the runs that an earlier daemon left unfinished.
fn end_interrupted(store: &dyn RunStore) {
    let unfinished = Filter {
        states: vec![RunState::Queued, RunState::Running],
        ..Filter::default()
    };
    for run in store.list(&unfinished, None, usize::MAX) {
        let ending = Ending::of_interrupted(run.state == RunState::Running);
        tracing::warn!(run = %run.id, rig = run.spec.rig, who = %run.owner, "run ended: {}", ending.reason);
        let mended = store.mend_events(&run.id);
        let last = *mended.as_ref().unwrap_or(&0);
        let live = Live::new(run, last);
        if let Err(error) = &mended {
            live.cannot_keep(error);
        }
        live.end(store, now_ns(), ending, None);
    }
}
