//! The plan: which lease has which rig, which runs are running, and which runs and leases are next. The plan does
//! no I/O: its methods take events and the current time, and return actions. The time is on a clock that never
//! goes back.
//!
//! Each use of a rig needs a lease. A reserved lease lasts until it expires or is ended. A run without a reserved
//! lease gets a lease of its own, which ends with the run. [`super::queue`] decides which lease is next. A device
//! that a run may have left changed is restored before its rig is used again. If the restore fails, the rig is
//! quarantined, and nothing runs on the rig until a restore succeeds.
//!
//! | module | content |
//! |---|---|
//! | `leases` | requests, renewals and ends of leases, grants of free rigs |
//! | `way` | runs that give way to a lease of a higher class, between two tests |
//! | `devices` | runs and restores, from their start to their end |
//! | `reach` | checks whether devices can be reached, at intervals and before a grant |
//! | `reload` | the change to another rig file |
//! | `table` | the leases, by rig and by owner |
//! | `view` | views of the plan: queues, places, reasons for waiting |
//! | `away` | the plan while the store is away |

mod away;
mod devices;
mod leases;
mod reach;
mod refusal;
mod reload;
mod table;
mod view;
mod way;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use verbatim_proto::v1::{Cause, RigState};
use verbatim_run::RunId;

pub use reach::Reach;
pub use refusal::{Refusal, has_hours};

use super::queue::{self, Class};
use crate::access::Identity;
use crate::store::LeaseId;
use table::Table;

/// The current use of a rig's device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Phase {
    /// The device is not used.
    #[default]
    Idle,
    /// This run is running.
    Running(RunId),
    /// A check of the device's reachability is running.
    Looking,
    /// The device is being restored.
    Restoring,
    /// The device could not be restored. The text says why, and what to do.
    Quarantined(String),
}

/// The state of a rig.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RigSlot {
    /// The use of the rig's device.
    pub phase: Phase,
    /// The lease that holds the rig.
    pub holder: Option<LeaseId>,
    /// User who drained the rig, and the reason; `None` if the rig is not drained. A drained rig gets no new lease.
    pub drained: Option<String>,
    /// Whether the rig file no longer has the rig. Such a rig stays until its device is restored and no lease uses
    /// it.
    pub leaving: bool,
    /// Whether the rig's device can be reached.
    pub reach: Reach,
}

impl RigSlot {
    /// Returns the rig's state in the terms of the API, and the reason for the state.
    #[must_use]
    pub fn state(&self) -> (RigState, String) {
        match (&self.phase, &self.drained) {
            (Phase::Quarantined(reason), _) => (RigState::Quarantined, reason.clone()),
            (_, Some(why)) => (RigState::Draining, why.clone()),
            (Phase::Idle | Phase::Looking, None) if self.holder.is_none() => self.reach.state(),
            (Phase::Idle | Phase::Looking | Phase::Running(_) | Phase::Restoring, None) => {
                (RigState::Busy, String::new())
            }
        }
    }
}

/// A rig, and the runs that wait for it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RigSlotView {
    /// The rig.
    pub slot: RigSlot,
    /// The waiting runs, in order.
    pub queue: Vec<RunId>,
}

/// A lease that has not ended. Times are on the plan's clock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lease {
    /// The lease's id.
    pub id: LeaseId,
    /// The owner.
    pub owner: Identity,
    /// The class.
    pub class: Class,
    /// The acceptable rigs; the lease gets one of them.
    pub rigs: Vec<String>,
    /// How long the lease lasts from its grant on.
    pub lasts: Duration,
    /// The run that the lease was made for.
    pub run: Option<RunId>,
    /// When the lease was requested.
    pub since: Duration,
    /// The grant; `None` while the lease waits.
    pub held: Option<Held>,
    /// Why the lease is ending. The lease ends when the run under it has stopped.
    pub ends: Option<String>,
    /// Whether a run of the lease has begun and given way. Such a run must continue on the same device.
    pub began: bool,
    /// The lease of a higher class to which the run gives up the rig before its next test.
    pub gives_way: Option<LeaseId>,
    /// The runs that wait under the lease, in order.
    pub runs: VecDeque<RunId>,
}

/// The grant of a rig to a lease.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held {
    /// The rig.
    pub rig: String,
    /// The fencing token, which is greater than the tokens of all earlier grants.
    pub token: u64,
    /// When the rig was granted.
    pub since: Duration,
    /// When the lease expires.
    pub until: Duration,
}

/// An action that the scheduler carries out for the plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Store the current state of a lease, and pass it to its run.
    Keep(LeaseId),
    /// Store the end of a lease, with its reason.
    LeaseEnded(Box<Lease>, String),
    /// Start a run, or continue a run that gave way.
    Start(RunId),
    /// Let a run wait again after it gave way to this lease.
    WaitAgain(RunId, LeaseId),
    /// Check whether a rig's device can be reached, then call [`Plan::looked`].
    Look(String),
    /// Restore a rig's device, then call [`Plan::restore_ended`].
    Restore(String),
    /// Tell a run to stop at its next safe point, with the reason.
    Stop(RunId, String),
    /// End a waiting run.
    End(RunId, NeverBegan),
}

/// Why a run ends while it waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NeverBegan {
    /// A client cancelled the run.
    Cancelled,
    /// The daemon is stopping.
    Stopping,
    /// The run's rig was quarantined, for this reason.
    Quarantined(String),
    /// The run's lease ended, for this reason.
    LeaseEnded(String),
    /// The run's daemon ended, and the next daemon cannot continue the run, for this reason.
    CannotGoOn(String),
    /// The run left the queue, with this cause and reason.
    GaveUp(Cause, String),
}

/// A rig to add to the plan: a rig of the rig file, or a rig left over from an earlier rig file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found<'r> {
    /// The rig's name.
    pub rig: &'r str,
    /// The state in which an earlier run left its device.
    pub left: Left,
    /// Why the rig is drained; `None` if the rig is not drained.
    pub drained: Option<String>,
    /// Whether the rig file no longer has the rig.
    pub leaving: bool,
    /// Whether the plan checks that the device can be reached.
    pub is_looked_at: bool,
}

/// The state in which a run left its device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Left {
    /// The device is as it was found.
    AsFound,
    /// The device is changed, or its state is unknown.
    Changed,
}

/// The result of a cancellation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cancelled {
    /// The run waited, and ends at once.
    Waiting(Vec<Action>),
    /// The run is running, and is told to stop.
    UnderWay(Vec<Action>),
    /// The plan does not contain the run.
    NotThere,
}

/// The plan of all rigs and leases.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    slots: BTreeMap<String, RigSlot>,
    leases: Table,
    /// The lease of each waiting or running run.
    of_run: HashMap<RunId, LeaseId>,
    /// How long each owner recently held rigs. Every [`HALF_LIFE`], the durations are halved.
    had: BTreeMap<Identity, Duration>,
    halved: Duration,
    /// By rig and owner, the last time at which the owner got or left the rig, within [`queue::RECENTLY`].
    turns: BTreeMap<String, BTreeMap<Identity, Duration>>,
    /// No lease expires before this time.
    soonest: Option<Duration>,
    last_token: u64,
    stopping: bool,
    /// Whether the store of the leases is away.
    away: bool,
}

/// The interval at which the past use of rigs by each owner is halved.
const HALF_LIFE: Duration = Duration::from_secs(3600);

impl Plan {
    /// Creates the plan of a starting daemon. Devices that an earlier run left changed are restored before their
    /// rigs are used. Leases of an earlier daemon go on, with the runs that wait under them. New tokens are
    /// greater than `last_token`.
    pub fn new<'r>(
        now: Duration,
        rigs: impl IntoIterator<Item = Found<'r>>,
        leases: Vec<Lease>,
        last_token: u64,
    ) -> (Self, Vec<Action>) {
        let mut plan = Self {
            last_token,
            ..Self::default()
        };
        let mut actions: Vec<Action> = rigs.into_iter().filter_map(|rig| plan.add(rig)).collect();
        let mut over = Vec::new();
        for lease in leases {
            let slot = lease.held.as_ref().map(|held| plan.slots.get_mut(&held.rig));
            match slot {
                Some(Some(slot)) if slot.holder.is_none() => slot.holder = Some(lease.id.clone()),
                Some(_) => over.push(lease.id.clone()),
                None => {}
            }
            for run in &lease.runs {
                plan.of_run.insert(run.clone(), lease.id.clone());
            }
            if let Some(held) = &lease.held {
                plan.expires(held.until);
                plan.had_turn(&lease.owner, &held.rig, held.since);
            }
            plan.leases.insert(lease);
        }
        for id in over {
            actions.extend(plan.end_lease(now, &id, "ended: its rig is no longer in the rig file"));
        }
        let rigs: Vec<String> = plan.slots.keys().cloned().collect();
        for rig in &rigs {
            actions.extend(plan.next(rig));
        }
        actions.extend(plan.give(now, &rigs, None));
        (plan, actions)
    }

    /// Notes that an owner got or left a rig at this time.
    pub fn had_turn(&mut self, owner: &Identity, rig: &str, at: Duration) {
        let of_rig = self.turns.entry(rig.into()).or_default();
        let last = of_rig.entry(owner.clone()).or_default();
        *last = at.max(*last);
    }

    /// Halves the past use of rigs every [`HALF_LIFE`], and removes turns that are no longer recent.
    fn forget_past(&mut self, now: Duration) {
        while now.saturating_sub(self.halved) >= HALF_LIFE {
            self.halved += HALF_LIFE;
            self.had.retain(|_, had| {
                *had /= 2;
                had.as_secs() > 0
            });
            if self.had.is_empty() {
                self.halved = now;
            }
            self.turns.retain(|_, of_rig| {
                of_rig.retain(|_, last| now.saturating_sub(*last) < queue::RECENTLY);
                !of_rig.is_empty()
            });
        }
    }

    /// Adds a rig. Returns the restore of the rig's device, if the device is changed.
    fn add(&mut self, found: Found<'_>) -> Option<Action> {
        let phase = match found.left {
            Left::AsFound => Phase::Idle,
            Left::Changed => Phase::Restoring,
        };
        let slot = RigSlot {
            phase,
            drained: found.drained,
            leaving: found.leaving,
            reach: Reach::new(found.is_looked_at),
            ..RigSlot::default()
        };
        self.slots.insert(found.rig.into(), slot);
        (found.left == Left::Changed).then(|| Action::Restore(found.rig.into()))
    }

    /// Returns whether the daemon is stopping.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// Returns a rig, without the runs that wait for it.
    #[must_use]
    pub fn slot(&self, rig: &str) -> Option<&RigSlot> {
        self.slots.get(rig)
    }

    /// Returns a lease that has not ended.
    #[must_use]
    pub fn lease(&self, id: &LeaseId) -> Option<&Lease> {
        self.leases.get(id)
    }

    /// Returns the lease of a waiting or running run.
    #[must_use]
    pub fn lease_of(&self, run: &RunId) -> Option<&Lease> {
        self.leases.get(self.of_run.get(run)?)
    }

    /// Returns the rigs on which a run or restore is running.
    pub fn under_way(&self) -> impl Iterator<Item = &str> {
        self.slots
            .iter()
            .filter(|(_, slot)| matches!(slot.phase, Phase::Running(_) | Phase::Restoring))
            .map(|(rig, _)| rig.as_str())
    }

    fn set(&mut self, rig: &str, phase: Phase) {
        if let Some(slot) = self.slots.get_mut(rig) {
            slot.phase = phase;
        }
    }

    /// Returns the run that is running under a lease.
    #[must_use]
    pub fn running_under(&self, id: &LeaseId) -> Option<RunId> {
        let held = self.leases.get(id)?.held.as_ref()?;
        match &self.slots.get(&held.rig)?.phase {
            Phase::Running(run) => Some(run.clone()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;
