//! The change to a new rig file: rigs are added and removed, but a rig in use stays.

use std::time::Duration;

use super::{Action, Found, Phase, Plan};
use crate::store::LeaseId;

impl Plan {
    /// Returns why a rig must keep its device: the rig is used, or its device must still be restored. Returns
    /// `None` if the device may change.
    #[must_use]
    pub fn in_use(&self, rig: &str) -> Option<String> {
        let slot = self.slots.get(rig)?;
        match (&slot.phase, &slot.holder) {
            (Phase::Running(run), _) => Some(format!("run {run} is under way on it")),
            (Phase::Restoring, _) => Some("its device is being restored".into()),
            (Phase::Quarantined(_), _) => Some("its device is still to be restored".into()),
            (Phase::Idle | Phase::Looking, Some(lease)) => Some(format!("lease {lease} holds it")),
            (Phase::Idle | Phase::Looking, None) => {
                let goes_on = |lease: &&super::Lease| lease.began && lease.rigs.iter().any(|wanted| wanted == rig);
                let lease = self.leases.values().find(goes_on)?;
                Some(format!(
                    "the run of lease {} began on it, gave way, and waits to continue",
                    lease.id
                ))
            }
        }
    }

    /// Replaces the rig file. `found` contains the rigs of the new file, and `gone` the names of the rigs that it no
    /// longer lists. Returns the rigs of `gone` that stay in the plan because they are in use, and the actions.
    pub fn reload(&mut self, now: Duration, found: Vec<Found<'_>>, gone: &[String]) -> (Vec<String>, Vec<Action>) {
        let mut actions = Vec::new();
        let mut there = Vec::new();
        for rig in found {
            there.push(rig.rig.to_string());
            match self.slots.get_mut(rig.rig) {
                Some(slot) => slot.leaving = false,
                None => actions.extend(self.add(rig)),
            }
        }
        let (stay, go): (Vec<String>, Vec<String>) = gone.iter().cloned().partition(|rig| self.in_use(rig).is_some());
        for rig in &stay {
            if let Some(slot) = self.slots.get_mut(rig) {
                slot.leaving = true;
            }
        }
        self.slots.retain(|rig, _| !go.contains(rig));
        // A waiting lease can no longer get a removed rig.
        let mut hopeless: Vec<LeaseId> = Vec::new();
        let waiting = self
            .leases
            .of_rigs(gone)
            .into_iter()
            .filter(|lease| lease.held.is_none());
        let waiting: Vec<LeaseId> = waiting.map(|lease| lease.id.clone()).collect();
        for id in waiting {
            match self.leases.take_rigs(&id, gone) {
                0 => hopeless.push(id),
                _ => actions.push(Action::Keep(id)),
            }
        }
        for id in hopeless {
            actions.extend(self.end_lease(now, &id, "ended: its rig is no longer in the rig file"));
        }
        actions.extend(self.give(now, &there, None));
        (stay, actions)
    }
}
