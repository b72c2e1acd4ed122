//! Giving way: before its next test, a run gives its rig to a lease of a higher class. The run waits again at its
//! old place in the queue, and later continues with that test. Reserved leases never give way, because the daemon
//! doesn't know how their owners use the rig.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Action, Lease, Left, Phase, Plan};
use crate::sched::queue::{self, By, Class, Decision, Use};
use crate::store::LeaseId;

impl Plan {
    /// Makes runs of lower classes give way to the waiting leases among `to`.
    pub(super) fn make_way(&mut self, now: Duration, to: &[LeaseId]) -> Vec<Action> {
        if self.stopping {
            return Vec::new();
        }
        // Only the rigs that these leases accept matter.
        let wanted = to
            .iter()
            .filter_map(|id| self.leases.get(id))
            .flat_map(|lease| &lease.rigs);
        let wanted: BTreeSet<&String> = wanted.collect();
        let slots = wanted.iter().filter_map(|rig| self.slots.get_key_value(*rig));
        let rigs = slots.clone().map(|(rig, slot)| self.used(now, rig, slot));
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
        // Skip leases to which a run already gives way.
        let holders = slots.filter_map(|(_, slot)| self.leases.get(slot.holder.as_ref()?));
        let served: BTreeSet<&LeaseId> = holders.filter_map(|of| of.gives_way.as_ref()).collect();
        let of = |id: &LeaseId| self.leases.get(id).and_then(|lease| self.waiting(lease));
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

    /// Lets a run wait again after it gave way between two tests. Returns `None` if the run must end instead.
    pub fn gave_way(&mut self, now: Duration, rig: &str, left: Left) -> Option<Vec<Action>> {
        let Some(Phase::Running(run)) = self.slots.get(rig).map(|slot| slot.phase.clone()) else {
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
            // The lease of the higher class gets the rig after the restore.
            self.set(rig, Phase::Restoring);
            actions.push(Action::Restore(rig.into()));
        }
        actions.extend(self.wait_again(now, &id));
        Some(actions)
    }

    /// If the lease that holds a rig must give way, lets it give way before its run begins.
    pub(super) fn gives_way_at_once(&mut self, now: Duration, rig: &str) -> Vec<Action> {
        let holder = self.slots.get(rig).and_then(|slot| slot.holder.clone());
        let gives_way = |id: &LeaseId| self.leases.get(id).is_some_and(|lease| lease.gives_way.is_some());
        match holder.filter(gives_way) {
            Some(id) => self.wait_again(now, &id),
            None => Vec::new(),
        }
    }

    /// Takes the rig from a lease whose run gave way, and grants the rig to the next lease.
    fn wait_again(&mut self, now: Duration, id: &LeaseId) -> Vec<Action> {
        let Some(lease) = self.leases.get_mut(id) else {
            return Vec::new();
        };
        lease.gives_way = None;
        let Some(held) = lease.held.take() else {
            return Vec::new();
        };
        // Do not add the time of this grant to `had`. Otherwise the owner's share would rise, and the lease would
        // lose its old place.
        if let Some(slot) = self.slots.get_mut(&held.rig) {
            slot.holder = None;
        }
        let mut actions = vec![Action::Keep(id.clone())];
        actions.extend(self.give(now, &[held.rig], None));
        // The rig may have gone to a third lease, so the lease of the higher class may still need a rig.
        actions.extend(self.make_way_to_all(now));
        actions
    }

    /// Makes runs of lower classes give way to all waiting leases.
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
