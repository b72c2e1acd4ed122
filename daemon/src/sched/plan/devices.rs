//! Runs and restores, from their start to their end.

use std::time::Duration;

use verbatim_run::RunId;

use super::{Action, Cancelled, Lease, Left, NeverBegan, Phase, Plan, Refusal, RigSlot};
use crate::store::LeaseId;

impl Plan {
    /// Updates the plan after the end of a run. A changed device is restored next.
    pub fn run_ended(&mut self, now: Duration, rig: &str, left: Left) -> Vec<Action> {
        let run = match self.slots.get(rig).map(|slot| slot.phase.clone()) {
            Some(Phase::Running(run)) => Some(run),
            _ => None,
        };
        let lease = run.and_then(|run| self.of_run.remove(&run));
        self.set(rig, Phase::Idle);
        let mut actions = Vec::new();
        if left == Left::Changed {
            self.set(rig, Phase::Restoring);
            actions.push(Action::Restore(rig.into()));
        }
        if let Some(id) = lease
            && let Some(lease) = self.leases.get_mut(&id)
            && (lease.run.is_some() || lease.ends.is_some())
        {
            lease.ends.get_or_insert_with(|| "ended with its run".into());
            actions.extend(self.over(now, &id));
        }
        actions.extend(self.next(rig));
        actions
    }

    /// Updates the plan after the end of a restore. If `result` is an error, the rig is quarantined for this
    /// reason.
    pub fn restore_ended(&mut self, now: Duration, rig: &str, result: Result<(), String>) -> Vec<Action> {
        match result {
            Ok(()) => {
                self.set(rig, Phase::Idle);
                if let Some(slot) = self.slots.get_mut(rig) {
                    slot.reach.was_restored();
                }
                let mut actions = self.gives_way_at_once(now, rig);
                actions.extend(self.next(rig));
                actions.extend(self.give(now, &[rig.to_string()], None));
                actions
            }
            Err(reason) => {
                self.set(rig, Phase::Quarantined(reason.clone()));
                let holder = self.slots.get(rig).and_then(|slot| slot.holder.clone());
                let mut actions = Vec::new();
                if let Some(holder) = holder {
                    actions.extend(self.end_waiting(&holder, &NeverBegan::Quarantined(reason.clone())));
                    actions.extend(self.end_lease(now, &holder, "ended: its rig was quarantined"));
                }
                // A lease that accepts another rig keeps waiting.
                let hopeless = |lease: &&Lease| lease.held.is_none() && self.takes_none(&lease.rigs);
                let hopeless: Vec<LeaseId> = self.leases.values().filter(hopeless).map(|of| of.id.clone()).collect();
                for id in hopeless {
                    actions.extend(self.end_waiting(&id, &NeverBegan::Quarantined(reason.clone())));
                    actions.extend(self.end_lease(now, &id, "ended: its rig was quarantined"));
                }
                actions
            }
        }
    }

    fn takes_none(&self, rigs: &[String]) -> bool {
        let quarantined =
            |rig: &String| matches!(self.slots.get(rig).map(|slot| &slot.phase), Some(Phase::Quarantined(_)));
        rigs.iter().all(quarantined)
    }

    /// Starts a restore of a rig's device.
    ///
    /// # Errors
    /// When there is no such rig, a run or restore is running on it, or the daemon is stopping.
    pub fn restore(&mut self, rig: &str) -> Result<Vec<Action>, Refusal> {
        let slot = self.slots.get(rig).ok_or_else(|| Refusal::UnknownRig(rig.into()))?;
        match &slot.phase {
            Phase::Running(run) => Err(Refusal::Running {
                rig: rig.into(),
                run: run.clone(),
            }),
            Phase::Restoring => Err(Refusal::Restoring(rig.into())),
            _ if self.stopping => Err(Refusal::Stopping),
            Phase::Idle | Phase::Looking | Phase::Quarantined(_) => {
                self.set(rig, Phase::Restoring);
                Ok(vec![Action::Restore(rig.into())])
            }
        }
    }

    /// Drains a rig for the reason `why`, or undrains it if `why` is `None`. A lease that holds the rig keeps it.
    ///
    /// # Errors
    /// When there is no such rig.
    pub fn drain(&mut self, now: Duration, rig: &str, why: Option<String>) -> Result<Vec<Action>, Refusal> {
        let slot = self.slots.get_mut(rig).ok_or_else(|| Refusal::UnknownRig(rig.into()))?;
        slot.drained = why;
        Ok(self.give(now, &[rig.to_string()], None))
    }

    /// Cancels a run. A waiting run ends at once; a running run is told to stop.
    pub fn cancel(&mut self, now: Duration, run: &RunId) -> Cancelled {
        let Some(id) = self.of_run.get(run).cloned() else {
            return Cancelled::NotThere;
        };
        let Some(lease) = self.leases.get_mut(&id) else {
            return Cancelled::NotThere;
        };
        if let Some(place) = lease.runs.iter().position(|waiting| waiting == run) {
            lease.runs.remove(place);
            self.of_run.remove(run);
            let mut actions = vec![Action::End(run.clone(), NeverBegan::Cancelled)];
            if self.leases.get(&id).is_some_and(|lease| lease.run.is_some()) {
                actions.extend(self.end_lease(now, &id, "ended: its run left the queue"));
            }
            return Cancelled::Waiting(actions);
        }
        Cancelled::UnderWay(vec![Action::Stop(run.clone(), String::new())])
    }

    /// Stops the daemon's work: no more runs begin, and running runs are told to stop. Waiting runs and leases wait for
    /// the next daemon.
    pub fn stop(&mut self) -> Vec<Action> {
        self.stopping = true;
        let running = |slot: &RigSlot| match &slot.phase {
            Phase::Running(run) => Some(Action::Stop(run.clone(), "stopped with the daemon".into())),
            _ => None,
        };
        self.slots.values().filter_map(running).collect()
    }

    /// Starts the next run under the lease that holds an idle rig.
    pub(super) fn next(&mut self, rig: &str) -> Vec<Action> {
        let idle = |slot: &&mut RigSlot| slot.phase == Phase::Idle;
        let Some(slot) = self.slots.get_mut(rig).filter(idle).filter(|_| !self.stopping) else {
            return Vec::new();
        };
        let lease = slot.holder.as_ref().and_then(|holder| self.leases.get_mut(holder));
        let Some(run) = lease
            .filter(|lease| lease.ends.is_none())
            .and_then(|lease| lease.runs.pop_front())
        else {
            return Vec::new();
        };
        slot.phase = Phase::Running(run.clone());
        vec![Action::Start(run)]
    }
}
