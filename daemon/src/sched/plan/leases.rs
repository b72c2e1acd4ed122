//! Leases: requests, renewals and ends, and the grants of free rigs.

use std::time::Duration;

use verbatim_run::RunId;

use super::view::waits;
use super::{Action, Held, Lease, NeverBegan, Phase, Plan, Refusal};
use crate::access::Identity;
use crate::sched::queue::{self, By, Decision, Shares, Use};
use crate::store::LeaseId;

/// The maximum number of unfinished leases and waiting runs of one identity; `MOST` is the maximum of all
/// identities together. The limits bound the time that a decision takes.
const MOST_OF_ONE: usize = 500;
const MOST: usize = 20_000;

impl Plan {
    /// Checks that at least one of these rigs accepts a new lease.
    ///
    /// # Errors
    /// [`Refusal::Stopping`], or the refusal of the first rig.
    pub fn takes(&self, rigs: &[String]) -> Result<(), Refusal> {
        if self.stopping {
            return Err(Refusal::Stopping);
        }
        let mut first = None;
        for rig in rigs {
            let slot = self.slots.get(rig);
            let refused = match slot.map(|slot| &slot.phase) {
                None => Refusal::UnknownRig(rig.clone()),
                Some(_) if slot.is_some_and(|slot| slot.leaving) => Refusal::LeftOver(rig.clone()),
                Some(Phase::Quarantined(reason)) => Refusal::Quarantined {
                    rig: rig.clone(),
                    reason: reason.clone(),
                },
                Some(_) => return Ok(()),
            };
            first.get_or_insert(refused);
        }
        Err(first.unwrap_or_else(|| Refusal::UnknownRig(String::new())))
    }

    /// Checks that this identity may have another lease or waiting run.
    ///
    /// # Errors
    /// [`Refusal::TooMany`].
    pub fn has_room(&self, who: &Identity) -> Result<(), Refusal> {
        // A lease that was made for a run, and this run, count as one together.
        let counts =
            |lease: &Lease| usize::from(lease.run.is_none()) + lease.runs.len().max(usize::from(lease.run.is_some()));
        let own: usize = self.leases.of_owner(who).map(counts).sum();
        // This count also includes the running runs under reserved leases.
        let all = self.leases.len() + self.of_run.len().saturating_sub(self.leases.of_runs());
        let too_many = |whose: String, most| Err(Refusal::TooMany { whose, most });
        match (own, all) {
            (own, _) if own >= MOST_OF_ONE => too_many(format!("{} has", who.in_words()), MOST_OF_ONE),
            (_, all) if all >= MOST => too_many("all users together have".into(), MOST),
            _ => Ok(()),
        }
    }

    /// Returns the acceptable rigs and the duration of each waiting reserved lease of an identity. Leases of runs do
    /// not count, because most runs are short.
    pub fn reserved<'p>(&'p self, who: &Identity) -> impl Iterator<Item = (&'p [String], Duration)> + use<'p> {
        let own = self
            .leases
            .of_owner(who)
            .filter(|lease| lease.run.is_none() && waits(lease));
        own.map(|lease| (lease.rigs.as_slice(), lease.lasts))
    }

    /// Adds a lease. If the lease was made for a run, `lease.runs` contains the run.
    ///
    /// # Errors
    /// When no rig accepts the lease.
    pub fn ask(&mut self, now: Duration, lease: Lease) -> Result<Vec<Action>, Refusal> {
        self.takes(&lease.rigs)?;
        for run in &lease.runs {
            self.of_run.insert(run.clone(), lease.id.clone());
        }
        let (id, rigs) = (lease.id.clone(), lease.rigs.clone());
        self.leases.insert(lease);
        // Only the new lease is a candidate: a lease that waited before would already have got a free rig.
        let given = self.give(now, &rigs, Some(&id));
        if self.leases.get(&id).is_none_or(|lease| lease.held.is_some()) {
            return Ok(given);
        }
        let looks = self.look_before(now, &rigs);
        if looks.is_empty() {
            Ok(self.make_way(now, &[id]))
        } else {
            Ok(looks)
        }
    }

    /// Adds a run to a lease that holds its rig.
    ///
    /// # Errors
    /// When the lease doesn't accept a run.
    pub fn submit(&mut self, id: &LeaseId, run: RunId) -> Result<Vec<Action>, Refusal> {
        let rig = self.takes_under(id)?;
        if let Some(lease) = self.leases.get_mut(id) {
            lease.runs.push_back(run.clone());
            self.of_run.insert(run, id.clone());
        }
        Ok(self.next(&rig))
    }

    /// Returns the rig of a lease that accepts runs.
    ///
    /// # Errors
    /// When the lease doesn't accept a run.
    pub fn takes_under(&self, id: &LeaseId) -> Result<String, Refusal> {
        let rig = self.rig_of(id)?;
        match self.slots.get(&rig) {
            _ if self.stopping => Err(Refusal::Stopping),
            Some(slot) if slot.leaving => Err(Refusal::LeftOver(rig)),
            _ => Ok(rig),
        }
    }

    /// Returns the rig that a reserved lease holds.
    ///
    /// # Errors
    /// When the lease holds no rig, has ended, or was made for a run.
    pub fn rig_of(&self, id: &LeaseId) -> Result<String, Refusal> {
        match self.leases.get(id) {
            Some(lease) if lease.ends.is_some() => Err(Refusal::LeaseOver(id.clone())),
            Some(Lease { run: Some(run), .. }) => Err(Refusal::OnlyForRun {
                lease: id.clone(),
                run: run.clone(),
            }),
            Some(Lease { held: Some(held), .. }) => Ok(held.rig.clone()),
            Some(_) => Err(Refusal::LeaseWaits(id.clone())),
            None => Err(Refusal::LeaseOver(id.clone())),
        }
    }

    /// Renews a lease, so that it expires `lasts` from now. A lease may last at most `most` from its grant on.
    ///
    /// # Errors
    /// When the lease has ended, has no rig, or would last too long.
    pub fn renew(
        &mut self,
        now: Duration,
        id: &LeaseId,
        lasts: Duration,
        most: Duration,
    ) -> Result<Vec<Action>, Refusal> {
        self.rig_of(id)?;
        let Some(held) = self.leases.get_mut(id).and_then(|lease| lease.held.as_mut()) else {
            return Err(Refusal::LeaseOver(id.clone()));
        };
        let until = now.saturating_add(lasts);
        let last = held.since.saturating_add(most);
        if until > last {
            return Err(Refusal::TooLong {
                most_s: most.as_secs(),
                left_s: last.saturating_sub(now).as_secs(),
            });
        }
        let before = std::mem::replace(&mut held.until, until);
        self.expires(until);
        if self.soonest == Some(before) {
            // The old expiry of this lease was the earliest, so compute the earliest expiry again.
            self.soonest = self.exactly_soonest();
        }
        Ok(vec![Action::Keep(id.clone())])
    }

    /// Ends a lease: at once if no run is running under it, else after the run has stopped and the device is restored.
    pub fn end_lease(&mut self, now: Duration, id: &LeaseId, why: &str) -> Vec<Action> {
        let Some(lease) = self.leases.get_mut(id) else {
            return Vec::new();
        };
        if lease.ends.is_some() {
            return Vec::new();
        }
        lease.ends = Some(why.into());
        let mut actions = self.end_waiting(id, &NeverBegan::LeaseEnded(why.into()));
        match self.running_under(id) {
            Some(run) => actions.push(Action::Stop(run, format!("the lease {id} {why}"))),
            None => actions.extend(self.over(now, id)),
        }
        actions
    }

    /// Ends the leases that have expired.
    pub fn tick(&mut self, now: Duration) -> Vec<Action> {
        // The lease with the earliest expiry may already have ended, so compute the earliest expiry again.
        self.soonest = self.exactly_soonest();
        let is_over =
            |lease: &&Lease| lease.held.as_ref().is_some_and(|held| held.until <= now) && lease.ends.is_none();
        let over: Vec<LeaseId> = self
            .leases
            .values()
            .filter(is_over)
            .map(|lease| lease.id.clone())
            .collect();
        let end = |id: &LeaseId| self.end_lease(now, id, "expired");
        let mut actions: Vec<Action> = over.iter().flat_map(end).collect();
        // The order of waiting leases changes with time, so consider all rigs and not only the freed ones.
        let rigs: Vec<String> = self.slots.keys().cloned().collect();
        if !over.is_empty() {
            actions.extend(self.give(now, &rigs, None));
            self.soonest = self.exactly_soonest();
        }
        actions
    }

    /// Returns when to call [`Plan::tick`] next. No lease expires before this time. This time may be too early,
    /// because the lease that would expire then may already have ended.
    #[must_use]
    pub fn next_end(&self) -> Option<Duration> {
        self.soonest
    }

    /// Notes that a lease expires at this time.
    pub(super) fn expires(&mut self, until: Duration) {
        self.soonest = Some(self.soonest.map_or(until, |soonest| soonest.min(until)));
    }

    fn exactly_soonest(&self) -> Option<Duration> {
        let holders = self.slots.values().filter_map(|slot| slot.holder.as_ref());
        let held = holders
            .filter_map(|id| self.leases.get(id))
            .filter(|lease| lease.ends.is_none());
        held.filter_map(|lease| lease.held.as_ref())
            .map(|held| held.until)
            .min()
    }

    /// Ends the runs that wait under a lease.
    pub(super) fn end_waiting(&mut self, id: &LeaseId, why: &NeverBegan) -> Vec<Action> {
        let runs = self.leases.get_mut(id).map(|lease| std::mem::take(&mut lease.runs));
        let mut actions = Vec::new();
        for run in runs.into_iter().flatten() {
            self.of_run.remove(&run);
            actions.push(Action::End(run, why.clone()));
        }
        actions
    }

    /// Removes a lease under which no run is running, and gives its rig to the next lease.
    pub(super) fn over(&mut self, now: Duration, id: &LeaseId) -> Vec<Action> {
        let Some(mut lease) = self.leases.remove(id) else {
            return Vec::new();
        };
        let why = lease.ends.clone().unwrap_or_default();
        if let Some(held) = &mut lease.held {
            // Replace the planned expiry by the actual end.
            held.until = now;
        }
        let held = lease.held.clone();
        let mut actions = vec![Action::LeaseEnded(Box::new(lease.clone()), why)];
        if let Some(held) = held {
            let lasted = now.saturating_sub(held.since);
            self.had_turn(&lease.owner, &held.rig, now);
            *self.had.entry(lease.owner).or_default() += lasted;
            // After a restart, the rig file may no longer have the rig, or another lease may hold it.
            if let Some(slot) = self.slots.get_mut(&held.rig)
                && slot.holder.as_ref() == Some(id)
            {
                slot.holder = None;
            }
            actions.extend(self.give(now, &[held.rig], None));
        }
        actions
    }

    /// Grants the free rigs among `rigs` to the next leases, or only to the lease `to`.
    pub(super) fn give(&mut self, now: Duration, rigs: &[String], to: Option<&LeaseId>) -> Vec<Action> {
        self.forget_past(now);
        let uses = rigs
            .iter()
            .filter_map(|rig| self.slots.get(rig).map(|slot| self.used(now, rig, slot)));
        let free: Vec<Use<'_>> = uses.filter(|used| used.by == By::Nobody).collect();
        if free.is_empty() {
            let wanted = |rig: &&String| {
                let of = self.leases.of_rigs(std::slice::from_ref(*rig));
                of.into_iter().any(waits)
            };
            let unknown = |rig: &&String| self.slots.get(*rig).is_some_and(|slot| !slot.reach.is_fresh(now));
            let wanted = match to {
                None => rigs.iter().filter(unknown).find(wanted).cloned(),
                Some(_) => None,
            };
            return self.look_before(now, wanted.as_slice());
        }
        let waiting = match to {
            Some(id) => self
                .leases
                .get(id)
                .and_then(|lease| self.waiting(lease))
                .into_iter()
                .collect(),
            None => {
                let free: Vec<String> = free.iter().map(|used| used.rig.to_string()).collect();
                self.waiting_for(&free)
            }
        };
        // A single candidate needs no order, and so no shares.
        let shares = match to.is_some() {
            true => Shares::new(),
            false => self.shares_of(&waiting),
        };
        let decisions = queue::decide(now, &waiting, &free, &shares);
        let mut actions = Vec::new();
        for decision in decisions {
            let Decision::Grant { lease, rig } = decision else {
                continue;
            };
            let (Some(of), Some(slot)) = (self.leases.get_mut(&lease), self.slots.get_mut(&rig)) else {
                continue;
            };
            self.last_token += 1;
            of.held = Some(Held {
                rig: rig.clone(),
                token: self.last_token,
                since: now,
                until: now.saturating_add(of.lasts),
            });
            slot.holder = Some(lease.clone());
            let owner = of.owner.clone();
            let until = now.saturating_add(of.lasts);
            self.expires(until);
            self.had_turn(&owner, &rig, now);
            actions.push(Action::Keep(lease));
            actions.extend(self.next(&rig));
        }
        actions
    }
}
