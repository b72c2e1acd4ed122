//! The pace of a run: how long it will still take, and whether its current test takes longer than expected.

use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// The tests of a run with their expected durations. All times count from the start of the first test.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    expected: Vec<(String, Duration)>,
    /// The position of the current test, and its start.
    now: Option<(usize, Duration)>,
    /// The time of the last line.
    told: Duration,
    is_told_slow: bool,
}

impl Pace {
    /// Sets the tests of the run, in its order.
    pub(crate) fn of(expected: Vec<(String, Duration)>) -> Self {
        Self {
            expected,
            ..Self::default()
        }
    }

    /// Notes that the test at this position has started.
    pub(crate) fn begun(&mut self, place: usize, at: Duration) {
        self.now = Some((place, at));
        self.is_told_slow = false;
    }

    /// Returns the expected duration of the whole run.
    pub(crate) fn whole(&self) -> Duration {
        self.expected.iter().map(|(_, expected)| *expected).sum()
    }

    /// Returns the expected time to the end of the run; None before its start and for unknown tests.
    pub(crate) fn left(&self, at: Duration) -> Option<Duration> {
        let (place, begun) = self.now?;
        let (_, current) = self.expected.get(place)?;
        let later: Duration = self.expected[place + 1..].iter().map(|(_, expected)| *expected).sum();
        Some(later + current.saturating_sub(at.saturating_sub(begun)))
    }

    /// Returns a line on the progress, once a minute.
    pub(crate) fn each_minute(&mut self, at: Duration) -> Option<String> {
        let (place, begun) = self.now?;
        if at < self.told + MINUTE {
            return None;
        }
        self.told = at;
        let (test, _) = self.expected.get(place)?;
        let (all, left) = (self.expected.len(), self.left(at)?);
        Some(format!(
            "after {}: {place} of {all} tests have ended, {test} has run for {}; about {} left",
            words(at),
            words(at.saturating_sub(begun)),
            words(left)
        ))
    }

    /// Returns a line when the current test takes much longer than expected, once for each test.
    pub(crate) fn slow(&mut self, at: Duration) -> Option<String> {
        let (place, begun) = self.now?;
        let (test, expected) = self.expected.get(place)?;
        let lasts = at.saturating_sub(begun);
        if self.is_told_slow || lasts < *expected + (*expected).max(MINUTE / 2) {
            return None;
        }
        self.is_told_slow = true;
        Some(format!(
            "{test} has run for {}, but {} were expected; it may wait for a slow device",
            words(lasts),
            words(*expected)
        ))
    }
}

/// Formats a duration for people: seconds below two minutes, else minutes.
pub(crate) fn words(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..120 => format!("{seconds} s"),
        seconds => format!("{} min", (seconds + 30) / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn pace() -> Pace {
        Pace::of(vec![("a".into(), s(10)), ("b".into(), s(200)), ("c".into(), s(300))])
    }

    #[test]
    fn time_left_counts_current_and_later_tests() {
        let mut pace = pace();
        assert_eq!((pace.whole(), pace.left(s(0))), (s(510), None));
        pace.begun(1, s(12));
        assert_eq!(pace.left(s(112)), Some(s(400)));
        assert_eq!(pace.left(s(900)), Some(s(300)), "a late test is expected to end now");
        pace.begun(7, s(900));
        assert_eq!(pace.left(s(900)), None);
    }

    #[test]
    fn tells_once_a_minute() {
        let mut pace = pace();
        pace.begun(1, s(10));
        assert_eq!(pace.each_minute(s(59)), None);
        let line = pace.each_minute(s(61)).unwrap();
        assert_eq!(
            line,
            "after 61 s: 1 of 3 tests have ended, b has run for 51 s; about 7 min left"
        );
        assert_eq!(pace.each_minute(s(120)), None);
        assert!(pace.each_minute(s(121)).is_some());
    }

    #[test]
    fn slow_test_is_told_once() {
        let mut pace = pace();
        pace.begun(0, s(0));
        assert_eq!(pace.slow(s(39)), None, "short tests have half a minute more");
        assert!(
            pace.slow(s(40))
                .unwrap()
                .starts_with("a has run for 40 s, but 10 s were expected")
        );
        assert_eq!(pace.slow(s(50)), None);
        pace.begun(1, s(50));
        assert_eq!(pace.slow(s(449)), None);
        assert!(pace.slow(s(450)).is_some());
    }
}
