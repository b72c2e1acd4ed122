//! Reachability of devices. The plan checks each unused rig at intervals, and before a grant if the last check was
//! too long ago. No lease gets a rig with an unreachable device.

use std::time::Duration;

use verbatim_proto::v1::RigState;

use super::{Action, Phase, Plan, RigSlot};

/// The interval of checks of an unused rig.
const EVERY: Duration = Duration::from_secs(60);
/// The interval of checks is at least this time multiplied by the number of rigs.
const SHARE: Duration = Duration::from_millis(500);
/// The pause before the second check of an unreachable device. Each further pause is twice as long, up to the
/// interval of checks.
const AWAY_AT_FIRST: Duration = Duration::from_secs(1);
/// How many periodic checks may run at the same time.
const AT_ONCE: usize = 2;

/// The reachability of a device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reach {
    is_looked_at: bool,
    /// Why the device cannot be reached.
    away: Option<String>,
    /// The last run, and why the rig ended it. A check sends nothing to the device, so only a run or a restore clears
    /// this.
    failed: Option<String>,
    /// The number of failed checks in a row.
    failures: u32,
    /// Until when the device counts as reachable after the last contact.
    fresh_until: Option<Duration>,
    /// When the next check is due.
    next: Duration,
}

impl Reach {
    /// Creates the state before the first check. A device that is never checked counts as reachable.
    pub(super) fn new(is_looked_at: bool) -> Self {
        Self {
            is_looked_at,
            ..Self::default()
        }
    }

    /// Returns why the device cannot be reached, if the last check failed.
    #[must_use]
    pub fn away(&self) -> Option<&str> {
        self.away.as_deref()
    }

    /// Returns the last run and its reason, if the rig was the cause of its end.
    #[must_use]
    pub fn failed(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// Returns the state of an unused rig in the terms of the API, and the reason for the state.
    pub(super) fn state(&self) -> (RigState, String) {
        match (&self.away, &self.failed) {
            (Some(why), _) => (
                RigState::Unreachable,
                format!("its device cannot be reached, and the daemon checks it again by itself: {why}"),
            ),
            (None, Some(why)) if self.fresh_until.is_none() => (
                RigState::Unreachable,
                format!("its last run ended because of the rig, and the daemon checks it: {why}"),
            ),
            (None, Some(why)) => (
                RigState::Idle,
                format!("its port opens, but its last run ended because of the rig; the next run tries again: {why}"),
            ),
            (None, None) => (RigState::Idle, String::new()),
        }
    }

    /// Records that the device answered a restore.
    pub(super) fn was_restored(&mut self) {
        self.failed = None;
    }

    /// Returns whether a lease may get the rig without another check.
    pub(super) fn is_fresh(&self, now: Duration) -> bool {
        !self.is_looked_at || self.away.is_none() && self.fresh_until.is_some_and(|until| now < until)
    }
}

impl RigSlot {
    /// Returns whether the rig is unused.
    pub(super) fn is_at_rest(&self) -> bool {
        self.phase == Phase::Idle && self.holder.is_none()
    }
}

impl Plan {
    fn every(&self) -> Duration {
        EVERY.max(SHARE * u32::try_from(self.slots.len()).unwrap_or(u32::MAX))
    }

    fn is_due(now: Duration, slot: &RigSlot) -> bool {
        slot.reach.is_looked_at && slot.is_at_rest() && slot.reach.next <= now
    }

    /// Returns whether [`Plan::look`] would start a check.
    #[must_use]
    pub fn is_look_due(&self, now: Duration) -> bool {
        !self.stopping && self.slots.values().any(|slot| Self::is_due(now, slot))
    }

    /// Starts the checks that are due.
    pub fn look(&mut self, now: Duration) -> Vec<Action> {
        if self.stopping {
            return Vec::new();
        }
        let under_way = self.slots.values().filter(|slot| slot.phase == Phase::Looking).count();
        let due = self.slots.iter_mut().filter(|(_, slot)| Self::is_due(now, slot));
        due.take(AT_ONCE.saturating_sub(under_way)).map(begin).collect()
    }

    /// Updates the plan with the result of a check.
    pub fn looked(&mut self, now: Duration, rig: &str, result: Result<(), String>) -> Vec<Action> {
        let every = self.every();
        let Some(slot) = self.slots.get_mut(rig).filter(|slot| slot.phase == Phase::Looking) else {
            // Ignore the result: since the check started, a restore has begun on the rig, or the rig was removed.
            return Vec::new();
        };
        slot.phase = Phase::Idle;
        let reach = &mut slot.reach;
        match result {
            Ok(()) => reach.there(now, every),
            Err(why) => {
                let wait = AWAY_AT_FIRST * 2_u32.saturating_pow(reach.failures.min(16));
                reach.failures = reach.failures.saturating_add(1);
                reach.next = now + wait.min(every);
                reach.away = Some(why);
            }
        }
        let mut actions = self.give(now, &[rig.to_string()], None);
        if self.slots.get(rig).is_some_and(|slot| slot.reach.away.is_some()) {
            // The leases that wait for this rig may also accept other rigs, so check these other rigs.
            let others = self.leases.of_rigs(&[rig.to_string()]).into_iter();
            let others = others.filter(|lease| lease.held.is_none());
            let others: Vec<String> = others.flat_map(|lease| lease.rigs.clone()).collect();
            actions.extend(self.look_before(now, &others));
            actions.extend(self.make_way_to_all(now));
        }
        actions
    }

    /// Records whether the device responded during a run. The error names the run, and why the rig ended it.
    pub fn answered(&mut self, now: Duration, rig: &str, answered: Result<(), String>) {
        let every = self.every();
        let Some(reach) = self.slots.get_mut(rig).map(|slot| &mut slot.reach) else {
            return;
        };
        match answered {
            Ok(()) => {
                reach.failed = None;
                reach.there(now, every);
            }
            Err(why) => {
                (reach.fresh_until, reach.next) = (None, now);
                reach.failed = reach.is_looked_at.then_some(why);
            }
        }
    }

    /// Starts a check of the first of these rigs that is unused and was not checked recently. Does nothing while any of
    /// these rigs is being checked.
    pub(super) fn look_before(&mut self, now: Duration, rigs: &[String]) -> Vec<Action> {
        let slot = |rig: &String| self.slots.get(rig);
        let looking = |rig: &String| slot(rig).is_some_and(|slot| slot.phase == Phase::Looking);
        if self.stopping || rigs.iter().any(looking) {
            return Vec::new();
        }
        let unknown = |rig: &&String| {
            slot(rig).is_some_and(|slot| {
                let in_use = slot.drained.is_none() && !slot.leaving;
                in_use && slot.is_at_rest() && slot.reach.away.is_none() && !slot.reach.is_fresh(now)
            })
        };
        let Some(rig) = rigs.iter().find(unknown) else {
            return Vec::new();
        };
        self.slots
            .get_mut(rig)
            .map(|slot| begin((rig, slot)))
            .into_iter()
            .collect()
    }
}

impl Reach {
    fn there(&mut self, now: Duration, every: Duration) {
        (self.away, self.failures) = (None, 0);
        // The next periodic check of an unused rig is due after `every`. The result of this check must not expire
        // before that.
        self.fresh_until = Some(now + every * 2);
        self.next = now + every;
    }
}

fn begin((rig, slot): (&String, &mut RigSlot)) -> Action {
    slot.phase = Phase::Looking;
    Action::Look(rig.clone())
}
