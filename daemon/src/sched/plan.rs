//! The plan: which run has which rig, which wait, what comes next. Pure: what happened goes in, what is to be done comes
//! out.
//!
//! One run at a time on each rig, first come, first served. A device that a run may have left changed is restored before
//! anything else; when that fails the rig is quarantined, and nothing runs on it until a restore succeeds.

use std::collections::{BTreeMap, VecDeque};

use verbatim_run::RunId;

/// What a rig is used for at the moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Phase {
    /// For nothing.
    Idle,
    /// A run.
    Running(RunId),
    /// Its device is being restored.
    Restoring,
    /// Its device could not be restored: why, and what to do.
    Quarantined(String),
}

/// One rig and those who wait for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lane {
    /// What it is used for.
    pub phase: Phase,
    /// Runs that wait, in order.
    pub queue: VecDeque<RunId>,
}

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Begin a run.
    Start(RunId),
    /// Restore a rig's device, then tell [`Plan::restore_ended`].
    Restore(String),
    /// Ask a run to stop at its next safe point.
    Stop(RunId),
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
}

/// Why something is not done.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// No such rig.
    #[error("there is no rig {0:?}")]
    UnknownRig(String),
    /// The daemon stops.
    #[error("the daemon is stopping: it takes no more runs; try again when it is back")]
    Stopping,
    /// The rig is quarantined.
    #[error("rig {rig} is quarantined: {reason}")]
    Quarantined {
        /// The rig.
        rig: String,
        /// Why, and what to do.
        reason: String,
    },
    /// A run is under way on the rig.
    #[error(
        "rig {rig} is busy: run {run} is under way, and restores the device itself when it ends; wait for it or cancel it"
    )]
    Running {
        /// The rig.
        rig: String,
        /// The run.
        run: RunId,
    },
    /// A restore is under way on the rig.
    #[error("rig {0} is busy: its device is being restored already; look at the rig again when that has ended")]
    Restoring(String),
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

/// All rigs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    lanes: BTreeMap<String, Lane>,
    stopping: bool,
}

impl Plan {
    /// Rigs at rest, but for those whose device an earlier run left changed: these are restored first.
    pub fn new<'r>(rigs: impl IntoIterator<Item = (&'r str, Left)>) -> (Self, Vec<Action>) {
        let mut plan = Self::default();
        let mut actions = Vec::new();
        for (rig, left) in rigs {
            let phase = match left {
                Left::AsFound => Phase::Idle,
                Left::Changed => {
                    actions.push(Action::Restore(rig.into()));
                    Phase::Restoring
                }
            };
            let queue = VecDeque::new();
            plan.lanes.insert(rig.into(), Lane { phase, queue });
        }
        (plan, actions)
    }

    /// A rig.
    #[must_use]
    pub fn lane(&self, rig: &str) -> Option<&Lane> {
        self.lanes.get(rig)
    }

    /// The place of a run in the queue of its rig, from 1 on.
    #[must_use]
    pub fn place(&self, rig: &str, run: &RunId) -> Option<usize> {
        let queue = &self.lanes.get(rig)?.queue;
        queue.iter().position(|waiting| waiting == run).map(|place| place + 1)
    }

    /// Whether a rig takes a run.
    ///
    /// # Errors
    /// Why it does not.
    pub fn takes(&self, rig: &str) -> Result<(), Refusal> {
        let lane = self.known(rig)?;
        match &lane.phase {
            _ if self.stopping => Err(Refusal::Stopping),
            Phase::Quarantined(reason) => Err(Refusal::Quarantined {
                rig: rig.into(),
                reason: reason.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// A new run.
    ///
    /// # Errors
    /// Why the rig does not take it.
    pub fn submit(&mut self, rig: &str, run: RunId) -> Result<Vec<Action>, Refusal> {
        self.takes(rig)?;
        if let Some(lane) = self.lanes.get_mut(rig) {
            lane.queue.push_back(run);
        }
        Ok(self.next(rig))
    }

    /// A run ended.
    pub fn run_ended(&mut self, rig: &str, left: Left) -> Vec<Action> {
        self.set(rig, Phase::Idle);
        match left {
            Left::AsFound => self.next(rig),
            Left::Changed => {
                self.set(rig, Phase::Restoring);
                vec![Action::Restore(rig.into())]
            }
        }
    }

    /// A restore ended, with the reason for a quarantine when it failed.
    pub fn restore_ended(&mut self, rig: &str, result: Result<(), String>) -> Vec<Action> {
        match result {
            Ok(()) => {
                self.set(rig, Phase::Idle);
                self.next(rig)
            }
            Err(reason) => {
                self.set(rig, Phase::Quarantined(reason.clone()));
                self.empty(rig, &NeverBegan::Quarantined(reason))
            }
        }
    }

    /// Somebody asks for a restore.
    ///
    /// # Errors
    /// Why it is not done now.
    pub fn restore(&mut self, rig: &str) -> Result<Vec<Action>, Refusal> {
        match &self.known(rig)?.phase {
            Phase::Running(run) => Err(Refusal::Running {
                rig: rig.into(),
                run: run.clone(),
            }),
            Phase::Restoring => Err(Refusal::Restoring(rig.into())),
            _ if self.stopping => Err(Refusal::Stopping),
            Phase::Idle | Phase::Quarantined(_) => {
                self.set(rig, Phase::Restoring);
                Ok(vec![Action::Restore(rig.into())])
            }
        }
    }

    /// Somebody cancels a run.
    pub fn cancel(&mut self, rig: &str, run: &RunId) -> Cancelled {
        let Some(lane) = self.lanes.get_mut(rig) else {
            return Cancelled::NotThere;
        };
        if let Some(place) = lane.queue.iter().position(|waiting| waiting == run) {
            lane.queue.remove(place);
            return Cancelled::Waiting(vec![Action::End(run.clone(), NeverBegan::Cancelled)]);
        }
        match &lane.phase {
            Phase::Running(current) if current == run => Cancelled::UnderWay(vec![Action::Stop(run.clone())]),
            _ => Cancelled::NotThere,
        }
    }

    /// The daemon stops: nothing begins any more, what waits ends, what is under way is asked to stop.
    pub fn stop(&mut self) -> Vec<Action> {
        self.stopping = true;
        let rigs: Vec<String> = self.lanes.keys().cloned().collect();
        let mut actions = Vec::new();
        for rig in &rigs {
            actions.extend(self.empty(rig, &NeverBegan::Stopping));
            if let Some(Phase::Running(run)) = self.lanes.get(rig).map(|lane| &lane.phase) {
                actions.push(Action::Stop(run.clone()));
            }
        }
        actions
    }

    /// Rigs on which a run or a restore is under way.
    pub fn under_way(&self) -> impl Iterator<Item = &str> {
        self.lanes
            .iter()
            .filter(|(_, lane)| matches!(lane.phase, Phase::Running(_) | Phase::Restoring))
            .map(|(rig, _)| rig.as_str())
    }

    fn known(&self, rig: &str) -> Result<&Lane, Refusal> {
        self.lanes.get(rig).ok_or_else(|| Refusal::UnknownRig(rig.into()))
    }

    fn set(&mut self, rig: &str, phase: Phase) {
        if let Some(lane) = self.lanes.get_mut(rig) {
            lane.phase = phase;
        }
    }

    /// Begins the next run of an idle rig.
    fn next(&mut self, rig: &str) -> Vec<Action> {
        match self.lanes.get_mut(rig) {
            Some(lane) if lane.phase == Phase::Idle => {
                let Some(run) = lane.queue.pop_front() else {
                    return Vec::new();
                };
                lane.phase = Phase::Running(run.clone());
                vec![Action::Start(run)]
            }
            _ => Vec::new(),
        }
    }

    fn empty(&mut self, rig: &str, why: &NeverBegan) -> Vec<Action> {
        let waiting = self.lanes.get_mut(rig).map(|lane| std::mem::take(&mut lane.queue));
        let end = |run| Action::End(run, why.clone());
        waiting.into_iter().flatten().map(end).collect()
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
