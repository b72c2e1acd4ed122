//! What the M_Key check moves: the lease timer as a span, the violation counter as a range.

use core::time::Duration;

use verbatim_record::{Span, Time};

use super::known::Known;

/// The counter stops there.
const MOST: u32 = 0xFFFF;

/// How far a lease of whole seconds, for which no accuracy is stated, may be off: a second, or as much as a clock of 200 ppm.
pub fn accuracy(lease: Duration) -> Duration {
    Duration::from_secs(1).max(lease / 5000)
}

/// A lease timer that runs, or may run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Timer {
    /// Not before this it expires.
    earliest: Time,
    /// By then it has; `None`: it may be that it does not run.
    latest: Option<Time>,
}

/// Whether a lease has expired.
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
    /// Least and most that the counter may be; `None` before it was seen.
    violations: Option<(u32, u32)>,
}

impl Lock {
    /// Whether the lease has expired at that time; if it has, the timer no longer runs.
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

    /// Whether a timer runs, or may.
    pub(super) fn may_run(&self) -> bool {
        self.timer.is_some()
    }

    /// A right-key SMP: the timer stops.
    pub(super) fn stop(&mut self) {
        self.timer = None;
    }

    /// What may have stopped the timer.
    pub(super) fn may_stop(&mut self) {
        if let Some(timer) = &mut self.timer {
            timer.latest = None;
        }
    }

    /// A violation at that time, certain or not, under such a lease period in seconds. Whether a second one starts a timer
    /// that runs anew is left open.
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
                // Where it did not run, it begins here, by a period that may be shorter by now.
                earliest: timer.earliest.min(earliest),
                latest: match timer.latest {
                    Some(before) => Some(before.max(latest)),
                    // It may have been stopped: then it runs anew from here.
                    None => (certain && !none).then_some(latest),
                },
            },
        });
    }

    /// A Set wrote the counter: 0 zeroes it; what another value does is left open.
    pub(super) fn written(&mut self, value: u16, certain: bool) {
        if let Some((least, most)) = &mut self.violations {
            *least = 0;
            *most = match value {
                0 if certain => 0,
                _ => (*most).max(value.into()),
            };
        }
    }

    /// Least and most that the counter may show; `None` when that is not known.
    pub(super) fn violations(&self) -> Option<(u32, u32)> {
        self.violations
    }

    /// The counter was seen, and so many violations may be on their way.
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
    fn a_lease_expires_within_a_second_of_its_period() {
        let mut lock = Lock::default();
        lock.violated(at(100), &Known::is(10), true);
        assert_eq!(lock.expired(at(108)), Expired::No);
        assert_eq!(lock.expired(at(110)), Expired::Maybe);
        assert_eq!(lock.expired(at(112)), Expired::Yes);
        assert!(!lock.may_run());
    }

    #[test]
    fn what_may_have_been_lost_may_not_have_started_the_timer() {
        let mut lock = Lock::default();
        lock.violated(at(100), &Known::is(10), false);
        assert_eq!(lock.expired(at(1000)), Expired::Maybe);
    }

    #[test]
    fn a_second_violation_may_or_may_not_start_the_timer_anew() {
        let mut lock = Lock::default();
        lock.violated(at(100), &Known::is(10), true);
        lock.violated(at(105), &Known::is(10), true);
        assert_eq!(lock.expired(at(110)), Expired::Maybe);
        assert_eq!(lock.expired(at(114)), Expired::Maybe);
        assert_eq!(lock.expired(at(117)), Expired::Yes);
    }

    #[test]
    fn a_timer_that_may_not_have_run_may_end_by_the_period_of_the_next_violation() {
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
    fn the_counter_grows_by_what_was_certain_and_at_most_by_all() {
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
