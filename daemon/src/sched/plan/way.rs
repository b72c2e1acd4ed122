//! Giving way: the run that holds a rig lets one of a higher class have it before its next test, waits again at its place,
//! and goes on where it was. Leases that somebody reserved never do: what their owner does with the rig nobody knows.

use std::collections::BTreeSet;
use std::time::Duration;

use super::view::waits;
use super::{Action, Lease, Left, Phase, Plan};
use crate::sched::queue::{self, By, Class, Decision, Use};
use crate::store::LeaseId;

impl Plan {
    /// Has runs give way to those of these leases that wait, where they are of a lower class.
    pub(super) fn make_way(&mut self, now: Duration, to: &[LeaseId]) -> Vec<Action> {
        if self.stopping {
            return Vec::new();
        }
        // Nobody makes way on other rigs than those that they would take.
        let wanted = to
            .iter()
            .filter_map(|id| self.leases.get(id))
            .flat_map(|lease| &lease.rigs);
        let wanted: BTreeSet<&String> = wanted.collect();
        let lanes = wanted.iter().filter_map(|rig| self.lanes.get_key_value(*rig));
        let rigs = lanes.clone().map(|(rig, lane)| self.used(now, rig, lane));
        let below = |used: &Use<'_>| match used.by {
            By::Lease {
                class, gives_way: true, ..
            } => Some(class),
            _ => None,
        };
        let rigs: Vec<Use<'_>> = rigs.filter(|used| below(used).is_some()).collect();
        let Some(lowest) = rigs.iter().filter_map(below).min() else {
            return Vec::new();
        };
        // For whom somebody makes way already, nobody else does.
        let holders = lanes.filter_map(|(_, lane)| self.leases.get(lane.holder.as_ref()?));
        let served: BTreeSet<&LeaseId> = holders.filter_map(|of| of.gives_way.as_ref()).collect();
        let of = |id: &LeaseId| self.leases.get(id).and_then(waits);
        let waiting = to.iter().filter(|id| !served.contains(id)).filter_map(of);
        let waiting: Vec<_> = waiting.filter(|waiting| waiting.class > lowest).collect();
        let decisions = queue::decide(now, &waiting, &rigs, &self.shares_of(&waiting));
        let mut actions = Vec::new();
        for decision in decisions {
            if let Decision::GiveWay { lease: holder, to, .. } = decision
                && let Some(lease) = self.leases.get_mut(&holder)
            {
                lease.gives_way = Some(to);
                actions.push(Action::Keep(holder));
            }
        }
        actions
    }

    /// A run gave way between two tests: it waits again, and goes on later. None when it is to end all the same.
    pub fn gave_way(&mut self, now: Duration, rig: &str, left: Left) -> Option<Vec<Action>> {
        let Some(Phase::Running(run)) = self.lanes.get(rig).map(|lane| lane.phase.clone()) else {
            return None;
        };
        let id = self.of_run.get(&run)?.clone();
        let lease = self.leases.get_mut(&id).filter(|lease| lease.ends.is_none())?;
        let to = lease.gives_way.clone()?;
        lease.runs.push_front(run.clone());
        lease.began = true;
        let mut actions = vec![Action::WaitAgain(run, to)];
        self.set(rig, Phase::Idle);
        if left == Left::Changed {
            // Whoever it gave way to goes first once that is done.
            self.set(rig, Phase::Restoring);
            actions.push(Action::Restore(rig.into()));
        }
        actions.extend(self.wait_again(now, &id));
        Some(actions)
    }

    /// The lease that holds a rig gives way before its run has begun, if it is to.
    pub(super) fn gives_way_at_once(&mut self, now: Duration, rig: &str) -> Vec<Action> {
        let holder = self.lanes.get(rig).and_then(|lane| lane.holder.clone());
        let gives_way = |id: &LeaseId| self.leases.get(id).is_some_and(|lease| lease.gives_way.is_some());
        match holder.filter(gives_way) {
            Some(id) => self.wait_again(now, &id),
            None => Vec::new(),
        }
    }

    /// A lease whose run gives way holds its rig no more; who is next gets it.
    fn wait_again(&mut self, now: Duration, id: &LeaseId) -> Vec<Action> {
        let Some(lease) = self.leases.get_mut(id) else {
            return Vec::new();
        };
        lease.gives_way = None;
        let Some(held) = lease.held.take() else {
            return Vec::new();
        };
        // What it had does not count against it until it is over: it waits at its old place.
        if let Some(lane) = self.lanes.get_mut(&held.rig) {
            lane.holder = None;
        }
        let mut actions = vec![Action::Keep(id.clone())];
        actions.extend(self.give(now, &[held.rig], None));
        // Whoever it gave way to, another may have gone first.
        actions.extend(self.make_way_to_all(now));
        actions
    }

    /// The same for all that wait.
    pub(super) fn make_way_to_all(&mut self, now: Duration) -> Vec<Action> {
        let above = |lease: &&Lease| lease.held.is_none() && lease.class > Class::Low;
        let above: Vec<LeaseId> = self
            .leases
            .values()
            .filter(above)
            .map(|lease| lease.id.clone())
            .collect();
        self.make_way(now, &above)
    }
}
