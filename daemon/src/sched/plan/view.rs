//! What is told of the plan: queues, places, why somebody waits.

use std::collections::BTreeMap;
use std::time::Duration;

use verbatim_run::RunId;

use super::{Lane, LaneView, Lease, Phase, Plan};
use crate::sched::queue::{self, By, Shares, Use, Wait, Waiting};
use crate::store::LeaseId;

impl Plan {
    /// All rigs with the runs that wait for each.
    #[must_use]
    pub fn lanes(&self, now: Duration) -> BTreeMap<String, LaneView> {
        let view = |(rig, lane): (&String, &Lane)| {
            let under = lane.holder.as_ref().and_then(|holder| self.leases.get(holder));
            let queue = under.map(|lease| lease.runs.iter().cloned().collect());
            (
                rig.clone(),
                LaneView {
                    lane: lane.clone(),
                    queue: queue.unwrap_or_default(),
                },
            )
        };
        let mut lanes: BTreeMap<String, LaneView> = self.lanes.iter().map(view).collect();
        let waiting = self.waiting();
        for waiting in queue::in_order(now, &waiting, &self.shares()) {
            let Some(lease) = self.leases.get(waiting.lease) else {
                continue;
            };
            for rig in &lease.rigs {
                if let Some(view) = lanes.get_mut(rig) {
                    view.queue.extend(lease.runs.iter().cloned());
                }
            }
        }
        lanes
    }

    /// The place of a run among those that wait for its rig, from 1 on.
    #[must_use]
    pub fn place(&self, now: Duration, run: &RunId) -> Option<usize> {
        let lease = self.lease_of(run)?;
        let before = lease.runs.iter().position(|waiting| waiting == run)?;
        match &lease.held {
            Some(_) => Some(before + 1),
            None => Some(before + self.why(now, &lease.id)?.place),
        }
    }

    /// Why a lease waits. Who waits for none of the same rigs counts for nothing in it.
    #[must_use]
    pub fn why(&self, now: Duration, lease: &LeaseId) -> Option<Wait> {
        let rigs = &self.leases.get(lease)?.rigs;
        let concerns = |waiting: &Waiting<'_>| waiting.rigs.iter().any(|rig| rigs.contains(rig));
        let waiting: Vec<_> = self.leases.values().filter_map(waits).filter(concerns).collect();
        queue::why(now, lease, &waiting, &self.uses(now), &self.shares())
    }

    pub(super) fn waiting(&self) -> Vec<Waiting<'_>> {
        self.leases.values().filter_map(waits).collect()
    }

    fn uses(&self, now: Duration) -> Vec<Use<'_>> {
        self.lanes.iter().map(|(rig, lane)| self.used(now, rig, lane)).collect()
    }

    /// Why rigs that would do for a lease go to nobody at the moment, of the first few.
    #[must_use]
    pub fn closed(&self, lease: &LeaseId) -> Vec<String> {
        const FEW: usize = 3;
        let why = |rig: &String| {
            let lane = self.lanes.get(rig)?;
            Some(match (&lane.phase, &lane.drained, lane.reach.away()) {
                (Phase::Quarantined(_), ..) => format!("rig {rig} is quarantined"),
                (_, Some(why), _) => format!("rig {rig} was {why}"),
                (Phase::Restoring, ..) => format!("the device of rig {rig} is being restored"),
                (_, None, Some(why)) if lane.holder.is_none() => {
                    format!("the device of rig {rig} cannot be reached, and is looked at again by itself: {why}")
                }
                (Phase::Looking, ..) => format!("it is looked at whether the device of rig {rig} can be reached"),
                _ => return None,
            })
        };
        let rigs = self.leases.get(lease).map(|lease| lease.rigs.iter());
        rigs.into_iter().flatten().filter_map(why).take(FEW).collect()
    }

    /// Whether a rig that would do is being looked at, and was not known to be away.
    #[must_use]
    pub fn is_looked_at_for(&self, lease: &LeaseId) -> bool {
        let rigs = self.leases.get(lease).map(|lease| lease.rigs.iter());
        let mut lanes = rigs.into_iter().flatten().filter_map(|rig| self.lanes.get(rig));
        lanes.any(|lane| lane.phase == Phase::Looking && lane.drained.is_none() && lane.reach.away().is_none())
    }

    pub(super) fn used<'a>(&'a self, now: Duration, rig: &'a str, lane: &'a Lane) -> Use<'a> {
        let holder = lane.holder.as_ref().and_then(|holder| self.leases.get(holder));
        let by = match (holder, &lane.phase) {
            (_, Phase::Quarantined(_)) => By::Closed,
            (Some(lease), _) => match &lease.held {
                Some(held) => By::Lease {
                    lease: &lease.id,
                    owner: &lease.owner,
                    class: queue::risen(lease.class, held.since.saturating_sub(lease.since)),
                    until: held.until,
                    gives_way: lease.run.is_some() && lease.ends.is_none() && lease.gives_way.is_none(),
                },
                None => By::Closed,
            },
            (None, Phase::Idle) if lane.drained.is_none() && !lane.leaving && !self.stopping && !self.away => {
                if lane.reach.is_fresh(now) {
                    By::Nobody
                } else {
                    By::Closed
                }
            }
            _ => By::Closed,
        };
        Use { rig, by }
    }

    pub(super) fn shares(&self) -> Shares {
        let mut shares: Shares = self.had.iter().map(|(who, had)| (who.clone(), (0, *had))).collect();
        let holders = self.lanes.values().filter_map(|lane| lane.holder.as_ref());
        for lease in holders.filter_map(|holder| self.leases.get(holder)) {
            shares.entry(lease.owner.clone()).or_default().0 += 1;
        }
        shares
    }
}

/// What somebody waits for; none who holds a rig, or is about to end.
pub(super) fn waits(lease: &Lease) -> Option<Waiting<'_>> {
    (lease.held.is_none() && lease.ends.is_none()).then_some(Waiting {
        lease: &lease.id,
        owner: &lease.owner,
        class: lease.class,
        since: lease.since,
        rigs: &lease.rigs,
        lasts: lease.lasts,
    })
}
