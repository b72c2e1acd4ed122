//! While what keeps the leases is away, nobody gets a rig; and who was given one that could not be kept waits again.

use std::time::Duration;

use super::{Action, Phase, Plan};
use crate::store::LeaseId;

impl Plan {
    /// The store gave this token to a lease that got its rig.
    pub fn has_token(&mut self, id: &LeaseId, token: u64) {
        self.last_token = self.last_token.max(token);
        if let Some(held) = self.leases.get_mut(id).and_then(|lease| lease.held.as_mut()) {
            held.token = token;
        }
    }

    /// A lease lasts until then, as before: that it was renewed could not be kept.
    pub fn lasts_as_before(&mut self, id: &LeaseId, until: Duration) {
        if let Some(held) = self.leases.get_mut(id).and_then(|lease| lease.held.as_mut()) {
            held.until = until;
            self.expires(until);
        }
    }

    /// That a lease got its rig could not be kept, since the store is away: it waits again, as everybody does from now on. Its
    /// run has not begun.
    pub fn not_granted(&mut self, id: &LeaseId) {
        self.away = true;
        let Some(lease) = self.leases.get_mut(id) else { return };
        let Some(held) = lease.held.take() else { return };
        if let Some(lane) = self.lanes.get_mut(&held.rig) {
            lane.holder = None;
            if let Phase::Running(run) = &lane.phase {
                lease.runs.push_front(run.clone());
                lane.phase = Phase::Idle;
            }
        }
    }

    /// That a lease got its rig could not be kept, and nobody knows when it could be: it ends, and its runs have not begun.
    pub fn cannot_be_granted(&mut self, now: Duration, id: &LeaseId, why: &str) -> Vec<Action> {
        let held = self.leases.get(id).and_then(|lease| lease.held.as_ref());
        let rig = held.map(|held| held.rig.clone());
        let was_away = self.away;
        self.not_granted(id);
        self.away = was_away;
        let mut actions = self.end_lease(now, id, why);
        actions.extend(self.give(now, rig.as_slice(), None));
        actions
    }

    /// A lease is not ours: it was never kept, or another host has it.
    pub fn forget(&mut self, now: Duration, id: &LeaseId) -> Vec<Action> {
        let held = self.leases.get(id).and_then(|lease| lease.held.as_ref());
        let rig = held.map(|held| held.rig.clone());
        if rig.is_some() {
            let was_away = self.away;
            self.not_granted(id);
            self.away = was_away;
        }
        if let Some(lease) = self.leases.remove(id) {
            for run in lease.runs {
                self.of_run.remove(&run);
            }
        }
        self.give(now, rig.as_slice(), None)
    }

    /// Whether the store is away.
    #[must_use]
    pub fn is_away(&self) -> bool {
        self.away
    }

    /// The store is away: nobody gets a rig.
    pub fn goes_away(&mut self) {
        self.away = true;
    }

    /// The store is back: rigs are given again.
    pub fn is_back(&mut self, now: Duration) -> Vec<Action> {
        self.away = false;
        let rigs: Vec<String> = self.lanes.keys().cloned().collect();
        self.give(now, &rigs, None)
    }

    /// Leases that wait here for whichever host has a rig for them first.
    pub fn waiting_leases(&self) -> impl Iterator<Item = &LeaseId> {
        self.leases
            .values()
            .filter(|lease| lease.held.is_none())
            .map(|lease| &lease.id)
    }
}
