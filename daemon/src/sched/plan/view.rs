//! Views of the plan: queues, places, and reasons for waiting.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use verbatim_run::RunId;

use super::{Held, Lease, Phase, Plan, RigSlot, RigSlotView};
use crate::metrics::RigStands;
use crate::sched::queue::{self, By, Shares, Use, Wait, Waiting};
use crate::store::LeaseId;

impl Plan {
    /// Returns all rigs with the runs that wait for each, by name.
    #[must_use]
    pub fn slots(&self, now: Duration) -> BTreeMap<String, RigSlotView> {
        let shares = self.shares();
        let view =
            |(rig, slot): (&String, &RigSlot)| (rig.clone(), self.seen(now, rig, slot, |_| Cow::Borrowed(&shares)));
        self.slots.iter().map(view).collect()
    }

    /// Returns a rig with the runs that wait for it.
    #[must_use]
    pub fn lane_view(&self, now: Duration, rig: &str) -> Option<RigSlotView> {
        let slot = self.slots.get(rig)?;
        Some(self.seen(now, rig, slot, |waiting| Cow::Owned(self.shares_of(waiting))))
    }

    fn seen<'s>(
        &self,
        now: Duration,
        rig: &str,
        slot: &RigSlot,
        shares: impl FnOnce(&[Waiting<'_>]) -> Cow<'s, Shares>,
    ) -> RigSlotView {
        let under = slot.holder.as_ref().and_then(|holder| self.leases.get(holder));
        let first = under.into_iter().flat_map(|lease| lease.runs.iter().cloned());
        let waiting = self.waiting_for(&[rig.to_string()]);
        let shares = shares(&waiting);
        let order = queue::in_order(now, &waiting, &shares).into_iter();
        // A waiting lease without runs is a reserved lease, which has no place in a queue of runs.
        let then = order.filter_map(|waiting| self.leases.get(waiting.lease));
        let queue = first.chain(then.flat_map(|lease| lease.runs.iter().cloned()));
        RigSlotView {
            slot: slot.clone(),
            queue: queue.collect(),
        }
    }

    /// Returns the [`Shares`] of all owners that hold or recently held rigs.
    fn shares(&self) -> Shares {
        let mut shares: Shares = self.had.iter().map(|(who, had)| (who.clone(), (0, *had))).collect();
        let holders = self.slots.values().filter_map(|slot| slot.holder.as_ref());
        for lease in holders.filter_map(|holder| self.leases.get(holder)) {
            match shares.get_mut(&lease.owner) {
                Some(share) => share.0 += 1,
                None => drop(shares.insert(lease.owner.clone(), (1, Duration::ZERO))),
            }
        }
        shares
    }

    /// Returns the number of rigs.
    #[must_use]
    pub fn rigs(&self) -> usize {
        self.slots.len()
    }

    /// Returns the state of each rig for the metrics, by name.
    #[must_use]
    pub fn stands(&self) -> BTreeMap<String, RigStands> {
        let stands = |(rig, slot): (&String, &RigSlot)| {
            let of = self.leases.of_rigs(std::slice::from_ref(rig)).into_iter();
            let waits_here = |lease: &&Lease| match &lease.held {
                Some(held) => held.rig == *rig,
                None => waits(lease),
            };
            let waiting = of.filter(waits_here).map(|lease| lease.runs.len()).sum();
            let stands = RigStands {
                state: slot.state().0,
                waiting,
                unreachable: slot.reach.away().or(slot.reach.failed()).is_some(),
            };
            (rig.clone(), stands)
        };
        self.slots.iter().map(stands).collect()
    }

    /// Returns the place of a run among the runs that wait for its rig, starting at 1.
    #[must_use]
    pub fn place(&self, now: Duration, run: &RunId) -> Option<usize> {
        let lease = self.lease_of(run)?;
        let before = lease.runs.iter().position(|waiting| waiting == run)?;
        match &lease.held {
            Some(_) => Some(before + 1),
            None => Some(before + self.why(now, &lease.id)?.place),
        }
    }

    /// Returns why a lease waits. Leases that accept none of its rigs do not affect the result.
    #[must_use]
    pub fn why(&self, now: Duration, lease: &LeaseId) -> Option<Wait> {
        let waiting = self.waiting_for(&self.leases.get(lease)?.rigs);
        let rigs: BTreeSet<&String> = waiting.iter().flat_map(|waiting| waiting.rigs).collect();
        let slots = rigs.into_iter().filter_map(|rig| self.slots.get_key_value(rig));
        let uses: Vec<_> = slots.map(|(rig, slot)| self.used(now, rig, slot)).collect();
        queue::why(now, lease, &waiting, &uses, &self.shares_of(&waiting))
    }

    /// Returns the leases that wait for one of these rigs.
    pub(super) fn waiting_for(&self, rigs: &[String]) -> Vec<Waiting<'_>> {
        let of = self.leases.of_rigs(rigs).into_iter();
        of.filter_map(|lease| self.waiting(lease)).collect()
    }

    /// Returns the queue entry of a lease; `None` if the lease does not wait.
    pub(super) fn waiting<'a>(&'a self, lease: &'a Lease) -> Option<Waiting<'a>> {
        let turn = |rig: &String| self.turns.get(rig)?.get(&lease.owner).copied();
        waits(lease).then(|| Waiting {
            lease: &lease.id,
            owner: &lease.owner,
            class: lease.class,
            since: lease.since,
            last_turn: lease.rigs.iter().filter_map(turn).max(),
            rigs: &lease.rigs,
            lasts: match lease.run {
                // A run may end at any time within its limit, so nothing follows from the limit.
                Some(_) => Duration::MAX,
                None => lease.lasts,
            },
        })
    }

    /// Returns why acceptable rigs cannot be granted at the moment, for at most three rigs.
    #[must_use]
    pub fn closed(&self, lease: &LeaseId) -> Vec<(String, String)> {
        const FEW: usize = 3;
        let why = |rig: &String| {
            let slot = self.slots.get(rig)?;
            let why = match (&slot.phase, &slot.drained, slot.reach.away()) {
                (Phase::Quarantined(_), ..) => format!("rig {rig} is quarantined"),
                (_, Some(why), _) => format!("rig {rig} was {why}"),
                (Phase::Restoring, ..) => format!("the device of rig {rig} is being restored"),
                (_, None, Some(why)) if slot.holder.is_none() => {
                    format!(
                        "the device of rig {rig} cannot be reached, and the daemon checks it again by itself: {why}"
                    )
                }
                (Phase::Looking, ..) => format!("the daemon checks whether the device of rig {rig} can be reached"),
                _ => return None,
            };
            Some((rig.clone(), why))
        };
        let rigs = self.leases.get(lease).map(|lease| lease.rigs.iter());
        rigs.into_iter().flatten().filter_map(why).take(FEW).collect()
    }

    /// Returns whether a rig that the lease accepts is being checked. Ignores drained rigs, and rigs that the last
    /// check found unreachable.
    #[must_use]
    pub fn is_looked_at_for(&self, lease: &LeaseId) -> bool {
        let rigs = self.leases.get(lease).map(|lease| lease.rigs.iter());
        let mut slots = rigs.into_iter().flatten().filter_map(|rig| self.slots.get(rig));
        slots.any(|slot| slot.phase == Phase::Looking && slot.drained.is_none() && slot.reach.away().is_none())
    }

    pub(super) fn used<'a>(&'a self, now: Duration, rig: &'a str, slot: &'a RigSlot) -> Use<'a> {
        let holder = slot.holder.as_ref().and_then(|holder| self.leases.get(holder));
        let by = match (holder, &slot.phase) {
            (_, Phase::Quarantined(_)) => By::Closed,
            (Some(lease), _) => match &lease.held {
                Some(held) => By::Lease {
                    lease: &lease.id,
                    owner: &lease.owner,
                    class: queue::risen(lease.class, held.since.saturating_sub(lease.since)),
                    until: match lease.run {
                        Some(_) => Duration::MAX,
                        None => held.until,
                    },
                    gives_way: lease.run.is_some() && lease.ends.is_none() && lease.gives_way.is_none(),
                },
                None => By::Closed,
            },
            (None, Phase::Idle) if slot.drained.is_none() && !slot.leaving && !self.stopping && !self.away => {
                if slot.reach.is_fresh(now) {
                    By::Nobody
                } else {
                    By::Closed
                }
            }
            _ => By::Closed,
        };
        Use { rig, by }
    }

    /// Returns the [`Shares`] of the owners of these leases. Fewer than two leases need no order, so the map is
    /// then empty.
    pub(super) fn shares_of(&self, waiting: &[Waiting<'_>]) -> Shares {
        let mut shares = Shares::new();
        if waiting.len() < 2 {
            return shares;
        }
        for who in waiting.iter().map(|waiting| waiting.owner) {
            if !shares.contains_key(who) {
                let held = self
                    .leases
                    .of_owner(who)
                    .filter_map(|lease| Some((&lease.id, lease.held.as_ref()?)));
                let holds = |(id, held): &(&LeaseId, &Held)| {
                    self.slots
                        .get(&held.rig)
                        .is_some_and(|slot| slot.holder.as_ref() == Some(id))
                };
                let had = self.had.get(who).copied().unwrap_or_default();
                shares.insert(who.clone(), (held.filter(holds).count(), had));
            }
        }
        shares
    }
}

/// Returns whether a lease waits: it holds no rig and is not about to end.
pub(super) fn waits(lease: &Lease) -> bool {
    lease.held.is_none() && lease.ends.is_none()
}
