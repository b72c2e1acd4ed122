//! The plan while the store is away (cannot be reached). No lease gets a rig, and a lease whose grant could not be
//! stored waits again.

use std::time::Duration;

use super::{Action, Phase, Plan};
use crate::store::LeaseId;

impl Plan {
    /// Sets the token that the store assigned to a grant.
    pub fn has_token(&mut self, id: &LeaseId, token: u64) {
        self.last_token = self.last_token.max(token);
        if let Some(held) = self.leases.get_mut(id).and_then(|lease| lease.held.as_mut()) {
            held.token = token;
        }
    }

    /// Resets the expiry of a lease whose renewal could not be stored.
    pub fn lasts_as_before(&mut self, id: &LeaseId, until: Duration) {
        if let Some(held) = self.leases.get_mut(id).and_then(|lease| lease.held.as_mut()) {
            held.until = until;
            self.expires(until);
        }
    }

    /// Undoes a grant that could not be stored because the store is away. The lease waits again, and its run has
    /// not begun. No lease gets a rig until the store is back.
    pub fn not_granted(&mut self, id: &LeaseId) {
        self.away = true;
        let Some(lease) = self.leases.get_mut(id) else { return };
        let Some(held) = lease.held.take() else { return };
        if let Some(slot) = self.slots.get_mut(&held.rig) {
            slot.holder = None;
            if let Phase::Running(run) = &slot.phase {
                lease.runs.push_front(run.clone());
                slot.phase = Phase::Idle;
            }
        }
    }

    /// Ends a lease whose grant could not be stored although the store is not away. The runs of the lease have not
    /// begun.
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

    /// Removes a lease that was never stored, or that only other hosts may take.
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

    /// Returns whether the store is away.
    #[must_use]
    pub fn is_away(&self) -> bool {
        self.away
    }

    /// Marks the store as away: no lease gets a rig.
    pub fn goes_away(&mut self) {
        self.away = true;
    }

    /// Marks the store as back: rigs are granted again.
    pub fn is_back(&mut self, now: Duration) -> Vec<Action> {
        self.away = false;
        let rigs: Vec<String> = self.slots.keys().cloned().collect();
        self.give(now, &rigs, None)
    }

    /// Returns the leases that wait for a rig.
    pub fn waiting_leases(&self) -> impl Iterator<Item = &LeaseId> {
        self.leases
            .values()
            .filter(|lease| lease.held.is_none())
            .map(|lease| &lease.id)
    }
}
