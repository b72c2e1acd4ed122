//! Times of a rig: instants in nanoseconds, and spans that bound the time of an event.

use core::fmt;
use core::time::Duration;

/// An instant, in nanoseconds since the rig was opened.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Time(pub u64);

impl Time {
    /// Returns the instant `duration` later; saturates after 584 years.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }

    /// Returns the time from `earlier` to this instant, or 0 if `earlier` is later.
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

/// The method by which a time was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeSource {
    /// The network adapter's timestamp.
    Hardware,
    /// The kernel's timestamp, taken next to the driver.
    Kernel,
    /// Two readings of the observer's clock, before and after the event. The observer is the tester, or the agent on a
    /// device's host.
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

/// The bounds of an event's time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Span {
    /// The earliest possible time.
    pub earliest: Time,
    /// The latest possible time.
    pub latest: Time,
    /// The method, or `None` in simulated time and for actions of the tester itself.
    pub source: Option<TimeSource>,
}

impl Span {
    /// Returns an exact time, as in simulated time.
    #[must_use]
    pub fn exactly(time: Time) -> Self {
        Self {
            earliest: time,
            latest: time,
            source: None,
        }
    }

    /// Returns the span between two instants, in either order.
    #[must_use]
    pub fn between(a: Time, b: Time) -> Self {
        Self {
            earliest: a.min(b),
            latest: a.max(b),
            source: None,
        }
    }

    /// Returns the same span with a time source.
    #[must_use]
    pub fn with_source(self, source: TimeSource) -> Self {
        Self {
            source: Some(source),
            ..self
        }
    }

    /// Returns text to append to a time, such as " (kernel time)". The text is empty without a time source.
    #[must_use]
    pub fn source_words(self) -> String {
        self.source.map_or_else(String::new, |source| format!(" ({source})"))
    }

    /// Returns whether this span is certainly before `other`. Overlapping spans have no certain order.
    #[must_use]
    pub fn is_before(self, other: Self) -> bool {
        self.latest < other.earliest
    }

    /// Returns the shortest and the longest possible time from `earlier` to this span.
    #[must_use]
    pub fn since(self, earlier: Self) -> (Duration, Duration) {
        (self.earliest.since(earlier.latest), self.latest.since(earlier.earliest))
    }
}

/// An upper bound of the difference "host's clock minus tester's clock" in nanoseconds, and the host's time at which
/// the bound was learned. Executed commands show the bound; before the first command the value is `None`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct HostClock(Option<(i128, Time)>);

/// The inverse of the largest drift between two clocks: less than one part in 2,000.
const DRIFT: i128 = 2_000;

impl HostClock {
    /// Returns the upper bound of the difference in nanoseconds when the host's clock shows `at_host`.
    fn ahead(self, at_host: Time) -> Option<i128> {
        let (ahead, known) = self.0?;
        Some(ahead + (i128::from(at_host.0) - i128::from(known.0)).abs() / DRIFT)
    }

    /// Learns from a command: the tester sent it at `asked`, and the host began it at `begun_at_host` on its clock or
    /// later.
    pub(crate) fn learn(&mut self, asked: Time, begun_at_host: Time) {
        let ahead = i128::from(begun_at_host.0) - i128::from(asked.0);
        if self.ahead(begun_at_host).is_none_or(|known| ahead < known) {
            self.0 = Some((ahead, begun_at_host));
        }
    }

    /// Returns the earliest time on the tester's clock of an event that happened at `at_host` on the host's clock or
    /// later.
    pub(crate) fn earliest(self, at_host: Time) -> Option<Time> {
        let earliest = i128::from(at_host.0) - self.ahead(at_host)?;
        Some(Time(u64::try_from(earliest.max(0)).unwrap_or(u64::MAX)))
    }
}

/// Formats a duration: "491.52 ms".
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

/// Formats a duration that is compared with a bound: with all digits if [`words`] of both would be equal although they
/// differ.
#[must_use]
pub fn words_beside(duration: Duration, bound: Duration) -> String {
    let rounded = words(duration);
    if duration == bound || rounded != words(bound) {
        return rounded;
    }
    let ns = duration.as_nanos();
    match ns {
        0..1_000_000 => format!("{:.3} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.6} ms", ns as f64 / 1e6),
        _ => format!("{:.9} s", duration.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_differs_from_its_bound_in_words() {
        for (bound, over, expected) in [
            (2_000_000_000, 12_345, "2.000012345 s"),
            (4_000_000, 1_234, "4.001234 ms"),
            (4_000, 3, "4.003 us"),
            (2_000_000_000, 1_000_000, "2.001 s"),
            (2_000_000_000, 0, "2.000 s"),
        ] {
            let seen = words_beside(Duration::from_nanos(bound + over), Duration::from_nanos(bound));
            assert_eq!(seen, expected);
        }
    }

    #[test]
    fn span_difference_has_two_bounds() {
        let sent = Span::between(Time(100), Time(120));
        let seen = Span::between(Time(500), Time(510));
        assert_eq!(seen.since(sent), (Duration::from_nanos(380), Duration::from_nanos(410)));
    }

    #[test]
    fn host_clock_gives_earlier_event_time() {
        let mut clock = HostClock::default();
        assert_eq!(clock.earliest(Time(5)), None);
        clock.learn(Time(1_000), Time(900_000));
        clock.learn(Time(2_000), Time(950_000));
        assert_eq!(clock.earliest(Time(900_500)), Some(Time(1_500)));
        // A command with a shorter delay gives a tighter bound.
        clock.learn(Time(3_000), Time(901_500));
        assert_eq!(clock.earliest(Time(901_500)), Some(Time(3_000)));
        // The clocks may have drifted by 1.8 s after an hour.
        let hour = 3_600_000_000_000;
        assert_eq!(
            clock.earliest(Time(901_500 + hour)),
            Some(Time(3_000 + hour - hour / 2_000))
        );
    }

    #[test]
    fn touching_spans_have_no_order() {
        let span = |from, to| Span::between(Time(from), Time(to));
        assert!(span(1, 2).is_before(span(3, 4)));
        assert!(!span(3, 4).is_before(span(1, 2)));
        assert!(!span(1, 3).is_before(span(3, 4)) && !span(3, 4).is_before(span(1, 3)));
    }

    #[test]
    fn time_arithmetic_saturates() {
        assert_eq!(Time(3).since(Time(9)), Duration::ZERO);
        assert_eq!(Time(u64::MAX).after(Duration::MAX), Time(u64::MAX));
    }
}
