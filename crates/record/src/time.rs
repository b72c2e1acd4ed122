//! Time as a rig sees it: instants in nanoseconds, and spans that bound when something happened.

use core::fmt;
use core::time::Duration;

/// An instant: nanoseconds since the rig was opened.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Time(pub u64);

impl Time {
    /// That much later; stops at the end of time (584 years).
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }

    /// How long after `earlier` this is; 0 when it is not.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09} s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

/// How the time of something was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeSource {
    /// The network adapter's timestamp.
    Hardware,
    /// The kernel's timestamp, taken next to the driver.
    Kernel,
    /// Two readings of the clock of whoever saw it happen (the tester, or the agent on a device's host), before and
    /// after.
    OwnClock,
}

impl fmt::Display for TimeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hardware => "hardware time",
            Self::Kernel => "kernel time",
            Self::OwnClock => "own clock",
        })
    }
}

/// When something happened: not before the first instant, not after the second.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Span {
    /// Not before this.
    pub earliest: Time,
    /// Not after this.
    pub latest: Time,
    /// How it was taken; `None` in simulated time, and for what is the tester's own doing.
    pub source: Option<TimeSource>,
}

impl Span {
    /// Exactly then, as simulated time has it.
    #[must_use]
    pub fn exactly(time: Time) -> Self {
        Self {
            earliest: time,
            latest: time,
            source: None,
        }
    }

    /// Between the two, in either order.
    #[must_use]
    pub fn between(a: Time, b: Time) -> Self {
        Self {
            earliest: a.min(b),
            latest: a.max(b),
            source: None,
        }
    }

    /// The same, taken so.
    #[must_use]
    pub fn with_source(self, source: TimeSource) -> Self {
        Self {
            source: Some(source),
            ..self
        }
    }

    /// How it was taken, to stand behind a time: " (kernel time)"; nothing where that is not said.
    #[must_use]
    pub fn source_words(self) -> String {
        self.source.map_or_else(String::new, |source| format!(" ({source})"))
    }

    /// Whether this was before the other for certain: where they overlap, nobody knows.
    #[must_use]
    pub fn is_before(self, other: Self) -> bool {
        self.latest < other.earliest
    }

    /// The shortest and longest time that can lie between `earlier` and this.
    #[must_use]
    pub fn since(self, earlier: Self) -> (Duration, Duration) {
        (self.earliest.since(earlier.latest), self.latest.since(earlier.earliest))
    }
}

/// How far the clock of a device's host may be ahead of the tester's, which is known from the commands that it did:
/// none before it was asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct HostClock(Option<(i128, Time)>);

/// Two clocks drift apart by less than one part in so many.
const DRIFT: i128 = 2_000;

impl HostClock {
    /// At most so far ahead, when the host's clock shows that instant.
    fn ahead(self, at_host: Time) -> Option<i128> {
        let (ahead, known) = self.0?;
        Some(ahead + (i128::from(at_host.0) - i128::from(known.0)).abs() / DRIFT)
    }

    /// A command that left then was begun at that instant of the host's clock, or later.
    pub(crate) fn learn(&mut self, asked: Time, begun_at_host: Time) {
        let ahead = i128::from(begun_at_host.0) - i128::from(asked.0);
        if self.ahead(begun_at_host).is_none_or(|known| ahead < known) {
            self.0 = Some((ahead, begun_at_host));
        }
    }

    /// The earliest instant of the tester's clock at which something happened that did not happen before that one of
    /// the host's.
    pub(crate) fn earliest(self, at_host: Time) -> Option<Time> {
        let earliest = i128::from(at_host.0) - self.ahead(at_host)?;
        Some(Time(u64::try_from(earliest.max(0)).unwrap_or(u64::MAX)))
    }
}

/// A duration as people say it: "491.52 ms".
#[must_use]
pub fn words(duration: Duration) -> String {
    let ns = duration.as_nanos();
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.2} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", ns as f64 / 1e6),
        _ => format!("{:.3} s", ns as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_of_spans_is_bounded_on_both_sides() {
        let sent = Span::between(Time(100), Time(120));
        let seen = Span::between(Time(500), Time(510));
        assert_eq!(seen.since(sent), (Duration::from_nanos(380), Duration::from_nanos(410)));
    }

    #[test]
    fn a_host_tells_when_it_saw_what_the_tester_heard_late() {
        let mut clock = HostClock::default();
        assert_eq!(clock.earliest(Time(5)), None);
        clock.learn(Time(1_000), Time(900_000));
        clock.learn(Time(2_000), Time(950_000));
        assert_eq!(clock.earliest(Time(900_500)), Some(Time(1_500)));
        // A command that was on its way for less time says more.
        clock.learn(Time(3_000), Time(901_500));
        assert_eq!(clock.earliest(Time(901_500)), Some(Time(3_000)));
        // After an hour the clocks may have drifted by 1.8 s.
        let hour = 3_600_000_000_000;
        assert_eq!(
            clock.earliest(Time(901_500 + hour)),
            Some(Time(3_000 + hour - hour / 2_000))
        );
    }

    #[test]
    fn of_spans_that_touch_neither_is_before_the_other() {
        let span = |from, to| Span::between(Time(from), Time(to));
        assert!(span(1, 2).is_before(span(3, 4)));
        assert!(!span(3, 4).is_before(span(1, 2)));
        assert!(!span(1, 3).is_before(span(3, 4)) && !span(3, 4).is_before(span(1, 3)));
    }

    #[test]
    fn an_earlier_instant_is_no_time_after_a_later_one() {
        assert_eq!(Time(3).since(Time(9)), Duration::ZERO);
        assert_eq!(Time(u64::MAX).after(Duration::MAX), Time(u64::MAX));
    }
}
