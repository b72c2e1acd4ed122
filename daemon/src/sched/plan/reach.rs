//! Whether devices can be reached. A rig that nobody uses is looked at now and then, and before a lease gets it when that was
//! too long ago. One whose device is away goes to nobody, until it is back.

use std::time::Duration;

use super::{Action, Lane, Phase, Plan};

/// A rig that nobody uses is looked at so often.
const EVERY: Duration = Duration::from_secs(60);
/// With very many rigs less often: so much of the time belongs to each.
const SHARE: Duration = Duration::from_millis(500);
/// One whose device is away is looked at again after so long, then each time after twice as long.
const AWAY_AT_FIRST: Duration = Duration::from_secs(1);
/// So many are looked at at a time.
const AT_ONCE: usize = 2;

/// Whether a device can be reached.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reach {
    is_looked_at: bool,
    /// Why it cannot be reached.
    away: Option<String>,
    /// How often in a row it could not.
    failures: u32,
    /// It was reached, and counts as there until then.
    fresh_until: Option<Duration>,
    /// When it is looked at next.
    next: Duration,
}

impl Reach {
    /// Nothing is known yet of a device that can be away; one that cannot is there.
    pub(super) fn new(is_looked_at: bool) -> Self {
        Self {
            is_looked_at,
            ..Self::default()
        }
    }

    /// Why it cannot be reached, if it could not when it was looked at last.
    #[must_use]
    pub fn away(&self) -> Option<&str> {
        self.away.as_deref()
    }

    /// Whether a lease may get it without another look.
    pub(super) fn is_fresh(&self, now: Duration) -> bool {
        !self.is_looked_at || self.away.is_none() && self.fresh_until.is_some_and(|until| now < until)
    }
}

impl Lane {
    /// Whether nobody uses it.
    pub(super) fn is_at_rest(&self) -> bool {
        self.phase == Phase::Idle && self.holder.is_none()
    }
}

impl Plan {
    fn every(&self) -> Duration {
        EVERY.max(SHARE * u32::try_from(self.lanes.len()).unwrap_or(u32::MAX))
    }

    fn is_due(now: Duration, lane: &Lane) -> bool {
        lane.reach.is_looked_at && lane.is_at_rest() && lane.reach.next <= now
    }

    /// Whether [`Plan::look`] would do anything.
    #[must_use]
    pub fn is_look_due(&self, now: Duration) -> bool {
        !self.stopping && self.lanes.values().any(|lane| Self::is_due(now, lane))
    }

    /// Looks at the rigs whose time has come.
    pub fn look(&mut self, now: Duration) -> Vec<Action> {
        if self.stopping {
            return Vec::new();
        }
        let under_way = self.lanes.values().filter(|lane| lane.phase == Phase::Looking).count();
        let due = self.lanes.iter_mut().filter(|(_, lane)| Self::is_due(now, lane));
        due.take(AT_ONCE.saturating_sub(under_way)).map(begin).collect()
    }

    /// What a look came to.
    pub fn looked(&mut self, now: Duration, rig: &str, result: Result<(), String>) -> Vec<Action> {
        let every = self.every();
        let Some(lane) = self.lanes.get_mut(rig).filter(|lane| lane.phase == Phase::Looking) else {
            // It is being restored meanwhile, or gone.
            return Vec::new();
        };
        lane.phase = Phase::Idle;
        let reach = &mut lane.reach;
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
        if self.lanes.get(rig).is_some_and(|lane| lane.reach.away.is_some()) {
            // Those who would have taken it may take another.
            let others = self.leases.of_rigs(&[rig.to_string()]).into_iter();
            let others = others.filter(|lease| lease.held.is_none());
            let others: Vec<String> = others.flat_map(|lease| lease.rigs.clone()).collect();
            actions.extend(self.look_before(now, &others));
            actions.extend(self.make_way_to_all(now));
        }
        actions
    }

    /// A run told whether the device was there.
    pub fn answered(&mut self, now: Duration, rig: &str, answered: bool) {
        let every = self.every();
        if let Some(lane) = self.lanes.get_mut(rig) {
            match answered {
                true => lane.reach.there(now, every),
                false => (lane.reach.fresh_until, lane.reach.next) = (None, now),
            }
        }
    }

    /// Looks at the first of these rigs that nobody uses and of which nothing is known, unless it is being looked at one.
    pub(super) fn look_before(&mut self, now: Duration, rigs: &[String]) -> Vec<Action> {
        let lane = |rig: &String| self.lanes.get(rig);
        let looking = |rig: &String| lane(rig).is_some_and(|lane| lane.phase == Phase::Looking);
        if self.stopping || rigs.iter().any(looking) {
            return Vec::new();
        }
        let unknown = |rig: &&String| {
            lane(rig).is_some_and(|lane| {
                let in_use = lane.drained.is_none() && !lane.leaving;
                in_use && lane.is_at_rest() && lane.reach.away.is_none() && !lane.reach.is_fresh(now)
            })
        };
        let Some(rig) = rigs.iter().find(unknown) else {
            return Vec::new();
        };
        self.lanes
            .get_mut(rig)
            .map(|lane| begin((rig, lane)))
            .into_iter()
            .collect()
    }
}

impl Reach {
    fn there(&mut self, now: Duration, every: Duration) {
        (self.away, self.failures) = (None, 0);
        // Until then it is looked at again, if nobody uses it.
        self.fresh_until = Some(now + every * 2);
        self.next = now + every;
    }
}

fn begin((rig, lane): (&String, &mut Lane)) -> Action {
    lane.phase = Phase::Looking;
    Action::Look(rig.clone())
}
