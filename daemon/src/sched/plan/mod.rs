//! The plan: who has which rig, which runs are under way, what comes next. Pure: what happened goes in, what is to be done
//! comes out, and the time is an argument (of a clock that never goes back).
//!
//! A rig is used under a lease. One that somebody reserved lasts until it expires or is ended; a run without one gets a
//! lease of its own, which ends with it. Who is next, [`super::queue`] says. A device that a run may have left changed is restored
//! before anything else; when that fails the rig is quarantined, and nothing runs on it until a restore succeeds.
//!
//! | module | what |
//! |---|---|
//! | `leases` | asking for one, renewing it, its end; who gets what is free |
//! | `way` | runs that give way to one of a higher class, between two tests |
//! | `devices` | runs and restores, from their beginning to their end |
//! | `reach` | whether devices can be reached: now and then, and before a lease |
//! | `reload` | another rig file |
//! | `table` | the leases, by rig and by owner |
//! | `view` | what is told of it: queues, places, why somebody waits |

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
pub use refusal::Refusal;

use super::queue::Class;
use crate::access::Identity;
use crate::store::LeaseId;
use table::Table;

/// What a rig's device is used for at the moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Phase {
    /// For nothing.
    #[default]
    Idle,
    /// A run.
    Running(RunId),
    /// It is looked at whether its device can be reached.
    Looking,
    /// Its device is being restored.
    Restoring,
    /// Its device could not be restored: why, and what to do.
    Quarantined(String),
}

/// One rig.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lane {
    /// What its device is used for.
    pub phase: Phase,
    /// The lease that holds it.
    pub holder: Option<LeaseId>,
    /// Why no new lease gets it, if none does: who took it out of use.
    pub drained: Option<String>,
    /// Whether the rig file no longer has it: it is there until its device is restored and nobody uses it.
    pub leaving: bool,
    /// Whether its device can be reached.
    pub reach: Reach,
}

impl Lane {
    /// Its state in the words of the API, and the reason.
    #[must_use]
    pub fn state(&self) -> (RigState, String) {
        match (&self.phase, &self.drained) {
            (Phase::Quarantined(reason), _) => (RigState::Quarantined, reason.clone()),
            (_, Some(why)) => (RigState::Draining, why.clone()),
            (Phase::Idle | Phase::Looking, None) if self.holder.is_none() => match self.reach.away() {
                None => (RigState::Idle, String::new()),
                Some(why) => (
                    RigState::Unreachable,
                    format!("its device cannot be reached, and is looked at again by itself: {why}"),
                ),
            },
            (Phase::Idle | Phase::Looking | Phase::Running(_) | Phase::Restoring, None) => {
                (RigState::Busy, String::new())
            }
        }
    }
}

/// One rig, and the runs that wait for it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LaneView {
    /// The rig.
    pub lane: Lane,
    /// Runs that wait, in order.
    pub queue: Vec<RunId>,
}

/// A lease that has not ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lease {
    /// Its id.
    pub id: LeaseId,
    /// Whose it is.
    pub owner: Identity,
    /// Its class.
    pub class: Class,
    /// Any of these rigs will do.
    pub rigs: Vec<String>,
    /// How long it lasts from its grant on.
    pub lasts: Duration,
    /// The run that it was made for.
    pub run: Option<RunId>,
    /// When it was asked for.
    pub since: Duration,
    /// What it holds; none while it waits.
    pub held: Option<Held>,
    /// Why it ends, once what is under way under it has stopped.
    pub ends: Option<String>,
    /// Whether a run of it has begun: it gave way, and is to go on with the same device.
    pub began: bool,
    /// The lease of a higher class for which its run gives the rig up before its next test.
    pub gives_way: Option<LeaseId>,
    /// Runs that wait under it, in order.
    pub runs: VecDeque<RunId>,
}

/// A rig that a lease holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held {
    /// The rig.
    pub rig: String,
    /// What fences it: greater than that of every lease before.
    pub token: u64,
    /// Since when.
    pub since: Duration,
    /// When it expires.
    pub until: Duration,
}

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Keep how a lease stands, and tell its run.
    Keep(LeaseId),
    /// A lease ended: why.
    LeaseEnded(Box<Lease>, String),
    /// Begin a run, or go on with one that gave way.
    Start(RunId),
    /// A run that gave way waits again: for which lease.
    WaitAgain(RunId, LeaseId),
    /// Look whether a rig's device can be reached, then tell [`Plan::looked`].
    Look(String),
    /// Restore a rig's device, then tell [`Plan::restore_ended`].
    Restore(String),
    /// Ask a run to stop at its next safe point: why.
    Stop(RunId, String),
    /// End a run that never began.
    End(RunId, NeverBegan),
}

/// Why a run ends that never began.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NeverBegan {
    /// It was cancelled.
    Cancelled,
    /// The daemon stops.
    Stopping,
    /// Its rig was quarantined.
    Quarantined(String),
    /// Its lease ended: why.
    LeaseEnded(String),
    /// The daemon that it waited at ended, and the next one cannot run it: why.
    CannotGoOn(String),
    /// It left the queue: what that is due to, and why.
    GaveUp(Cause, String),
}

/// A rig of the rig file, or one that it no longer has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found<'r> {
    /// Its name.
    pub rig: &'r str,
    /// How its device was left.
    pub left: Left,
    /// Why it is out of use, if it is.
    pub drained: Option<String>,
    /// Whether the rig file no longer has it.
    pub leaving: bool,
    /// Whether its device can be away, and is looked at.
    pub is_looked_at: bool,
}

/// How a run left its device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Left {
    /// As it was found.
    AsFound,
    /// Changed, or nobody knows.
    Changed,
}

/// What a cancel came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cancelled {
    /// The run waited: it ends at once.
    Waiting(Vec<Action>),
    /// The run is under way: it is asked to stop.
    UnderWay(Vec<Action>),
    /// The run neither waits nor is it under way.
    NotThere,
}

/// All rigs and leases.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    lanes: BTreeMap<String, Lane>,
    leases: Table,
    /// The lease of each run that waits or is under way.
    of_run: HashMap<RunId, LeaseId>,
    /// How long each owner held rigs, of late: halved every hour.
    had: BTreeMap<Identity, Duration>,
    halved: Duration,
    /// No lease expires sooner.
    soonest: Option<Duration>,
    last_token: u64,
    stopping: bool,
    /// Whether what keeps the leases is away.
    away: bool,
}

/// After so long, what somebody had counts half.
const HALF_LIFE: Duration = Duration::from_secs(3600);

impl Plan {
    /// Rigs at rest, but for those whose device an earlier run left changed: these are restored first. Leases of an earlier
    /// daemon go on, with the runs that wait under them; tokens are greater than `last_token`.
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
            let lane = lease.held.as_ref().map(|held| plan.lanes.get_mut(&held.rig));
            match lane {
                Some(Some(lane)) if lane.holder.is_none() => lane.holder = Some(lease.id.clone()),
                Some(_) => over.push(lease.id.clone()),
                None => {}
            }
            for run in &lease.runs {
                plan.of_run.insert(run.clone(), lease.id.clone());
            }
            if let Some(held) = &lease.held {
                plan.expires(held.until);
            }
            plan.leases.insert(lease);
        }
        for id in over {
            actions.extend(plan.end_lease(now, &id, "ended: its rig is not in the rig file any more"));
        }
        let rigs: Vec<String> = plan.lanes.keys().cloned().collect();
        for rig in &rigs {
            actions.extend(plan.next(rig));
        }
        actions.extend(plan.give(now, &rigs, None));
        (plan, actions)
    }

    /// One more rig; when it is to be restored first, with that.
    fn add(&mut self, found: Found<'_>) -> Option<Action> {
        let phase = match found.left {
            Left::AsFound => Phase::Idle,
            Left::Changed => Phase::Restoring,
        };
        let lane = Lane {
            phase,
            drained: found.drained,
            leaving: found.leaving,
            reach: Reach::new(found.is_looked_at),
            ..Lane::default()
        };
        self.lanes.insert(found.rig.into(), lane);
        (found.left == Left::Changed).then(|| Action::Restore(found.rig.into()))
    }

    /// Whether the daemon stops.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// A rig, without the runs that wait for it.
    #[must_use]
    pub fn lane(&self, rig: &str) -> Option<&Lane> {
        self.lanes.get(rig)
    }

    /// A lease that has not ended.
    #[must_use]
    pub fn lease(&self, id: &LeaseId) -> Option<&Lease> {
        self.leases.get(id)
    }

    /// The lease of a run that waits or is under way.
    #[must_use]
    pub fn lease_of(&self, run: &RunId) -> Option<&Lease> {
        self.leases.get(self.of_run.get(run)?)
    }

    /// Rigs on which a run or a restore is under way.
    pub fn under_way(&self) -> impl Iterator<Item = &str> {
        self.lanes
            .iter()
            .filter(|(_, lane)| matches!(lane.phase, Phase::Running(_) | Phase::Restoring))
            .map(|(rig, _)| rig.as_str())
    }

    fn set(&mut self, rig: &str, phase: Phase) {
        if let Some(lane) = self.lanes.get_mut(rig) {
            lane.phase = phase;
        }
    }

    /// The run under way under a lease.
    #[must_use]
    pub fn running_under(&self, id: &LeaseId) -> Option<RunId> {
        let held = self.leases.get(id)?.held.as_ref()?;
        match &self.lanes.get(&held.rig)?.phase {
            Phase::Running(run) => Some(run.clone()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;
