//! Models the state that M_Key checks change: the expiry of the lease timer as a time span, and the violation
//! counter as a range.

use core::time::Duration;

use verbatim_record::{Span, Time};

use super::known::Known;

/// Value at which the counter stops.
const MOST: u32 = 0xFFFF;

/// Returns the tolerance of a lease period: one second or 200 ppm of the period, the larger of both. The architecture
/// specifies no accuracy.
pub fn accuracy(lease: Duration) -> Duration {
    Duration::from_secs(1).max(lease / 5000)
}

/// Lease timer that runs, or may run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Timer {
    /// Earliest time of expiry.
    earliest: Time,
    /// Latest time of expiry; `None` if the timer may be stopped.
    latest: Option<Time>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Expired {
    No,
    Maybe,
    Yes,
}

/// Lease timer and violation counter of a port.
#[derive(Clone, Debug, Default)]
pub(super) struct Lock {
    timer: Option<Timer>,
    /// Lowest and highest possible value of the counter; `None` before a response showed the counter.
    violations: Option<(u32, u32)>,
}

impl Lock {
    /// Returns whether the lease has expired at time `now`. Stops the timer if the lease has certainly expired.
    pub(super) fn expired(&mut self, now: Span) -> Expired {
        let Some(timer) = self.timer else { return Expired::No };
        if timer.latest.is_some_and(|latest| now.earliest > latest) {
            self.timer = None;
            return Expired::Yes;
        }
        if now.latest >= timer.earliest {
            return Expired::Maybe;
        }
        Expired::No
    }

    /// Returns whether a timer runs, or may run.
    pub(super) fn may_run(&self) -> bool {
        self.timer.is_some()
    }

    /// Stops the timer, after an SMP with the right M_Key.
    pub(super) fn stop(&mut self) {
        self.timer = None;
    }

    /// Notes an SMP that may have stopped the timer.
    pub(super) fn may_stop(&mut self) {
        if let Some(timer) = &mut self.timer {
            timer.latest = None;
        }
    }

    /// Notes a certain or possible violation at time `now`. `lease`: possible lease periods in seconds. The
    /// architecture leaves open whether a second violation restarts a running timer.
    pub(super) fn violated(&mut self, now: Span, lease: &Known, certain: bool) {
        if let Some((least, most)) = &mut self.violations {
            *most = (*most + 1).min(MOST);
            if certain {
                *least = (*least + 1).min(MOST);
            }
        }
        let ends = |seconds: u64| Duration::from_secs(seconds);
        let (shortest, longest, none) = match lease.all() {
            None => (ends(0), ends(MOST.into()), true),
            Some(all) => {
                let some: Vec<u64> = all.iter().copied().filter(|seconds| *seconds != 0).collect();
                let Some(shortest) = some.iter().min() else { return };
                let longest = some.iter().max().unwrap_or(shortest);
                (ends(*shortest), ends(*longest), some.len() != all.len())
            }
        };
        let earliest = now.earliest.after(shortest.saturating_sub(accuracy(shortest)));
        let latest = now.latest.after(longest + accuracy(longest));
        self.timer = Some(match self.timer {
            None => Timer {
                earliest,
                latest: (certain && !none).then_some(latest),
            },
            Some(timer) => Timer {
                // If the timer did not run until now, it starts here, perhaps with a shorter period.
                earliest: timer.earliest.min(earliest),
                latest: match timer.latest {
                    Some(before) => Some(before.max(latest)),
                    // If the timer was stopped before, it starts again here.
                    None => (certain && !none).then_some(latest),
                },
            },
        });
    }

    /// Notes a Set of the violation counter. The value 0 clears the counter; the effect of another value is left open.
    pub(super) fn written(&mut self, value: u16, certain: bool) {
        if let Some((least, most)) = &mut self.violations {
            *least = 0;
            *most = match value {
                0 if certain => 0,
                _ => (*most).max(value.into()),
            };
        }
    }

    /// Returns the lowest and highest value that the counter may show; `None` if unknown.
    pub(super) fn violations(&self) -> Option<(u32, u32)> {
        self.violations
    }

    /// Stores the counter value of a response. `on_their_way`: number of outstanding requests that may add a violation.
    pub(super) fn shown(&mut self, violations: u16, on_their_way: u32) {
        let violations = u32::from(violations);
        self.violations = Some((violations, (violations + on_their_way).min(MOST)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Span {
        Span::exactly(Time(seconds * 1_000_000_000))
    }

    #[test]
    fn lease_expires_within_a_second() {
        let mut lock = Lock::default();
        lock.violated(at(100), &Known::is(10), true);
        assert_eq!(lock.expired(at(108)), Expired::No);
        assert_eq!(lock.expired(at(110)), Expired::Maybe);
        assert_eq!(lock.expired(at(112)), Expired::Yes);
        assert!(!lock.may_run());
    }

    #[test]
    fn lost_violation_leaves_timer_uncertain() {
        let mut lock = Lock::default();
        lock.violated(at(100), &Known::is(10), false);
        assert_eq!(lock.expired(at(1000)), Expired::Maybe);
    }

    #[test]
    fn second_violation_may_restart_the_timer() {
        let mut lock = Lock::default();
        lock.violated(at(100), &Known::is(10), true);
        lock.violated(at(105), &Known::is(10), true);
        assert_eq!(lock.expired(at(110)), Expired::Maybe);
        assert_eq!(lock.expired(at(114)), Expired::Maybe);
        assert_eq!(lock.expired(at(117)), Expired::Yes);
    }

    #[test]
    fn next_violation_may_shorten_the_lease() {
        let mut lock = Lock::default();
        lock.violated(at(100), &Known::is(300), false);
        lock.violated(at(110), &Known::is(2), false);
        assert_eq!(lock.expired(at(110)), Expired::No);
        assert_eq!(lock.expired(at(115)), Expired::Maybe);
    }

    #[test]
    fn lease_period_0_has_no_end() {
        let mut lock = Lock::default();
        lock.violated(at(100), &Known::is(0), true);
        assert!(!lock.may_run());
    }

    #[test]
    fn a_right_key_stops_the_timer() {
        let mut lock = Lock::default();
        lock.violated(at(100), &Known::is(10), true);
        lock.stop();
        assert_eq!(lock.expired(at(1000)), Expired::No);
    }

    #[test]
    fn counter_grows_by_certain_violations() {
        let mut lock = Lock::default();
        lock.violated(at(1), &Known::is(0), true);
        assert_eq!(lock.violations(), None);
        lock.shown(0xFFFD, 0);
        lock.violated(at(2), &Known::is(0), true);
        lock.violated(at(3), &Known::is(0), false);
        assert_eq!(lock.violations(), Some((0xFFFE, 0xFFFF)));
        lock.written(0, true);
        assert_eq!(lock.violations(), Some((0, 0)));
    }
}
