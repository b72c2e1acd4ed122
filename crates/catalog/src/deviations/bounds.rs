//! Bounds of a known deviation. A deviation does not explain a finding outside its bounds.

use core::ops::RangeInclusive;

use serde::Deserialize;
use verbatim_record::{Check, Measured};

/// Bounds on the values of a finding. A value that cannot be parsed is outside all bounds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Within {
    /// How far a time may be below the statement's lower bound, in milliseconds.
    pub early_ms: Option<f64>,
    /// How far a time may be above the statement's upper bound, in milliseconds.
    pub late_ms: Option<f64>,
    /// The shortest time, in milliseconds.
    pub least_ms: Option<f64>,
    /// The longest time, in milliseconds.
    pub most_ms: Option<f64>,
    /// The smallest number.
    pub least: Option<f64>,
    /// The largest number.
    pub most: Option<f64>,
}

/// The values parsed from a finding. Times are in milliseconds.
#[derive(Clone, PartialEq, Debug, Default)]
struct Value {
    /// A measured time, as the range of its possible values.
    time: Option<RangeInclusive<f64>>,
    /// The lower bound of the time.
    lower: Option<f64>,
    /// The upper bound of the time.
    upper: Option<f64>,
    number: Option<f64>,
}

impl Within {
    /// Returns whether the finding's value may lie within the bounds. If a time is a range, each bound is compared
    /// with the more favorable end of the range.
    #[must_use]
    pub fn holds(&self, check: &Check) -> bool {
        let value = Value::of(check);
        let (shortest, longest) = match &value.time {
            Some(time) => (Some(*time.start()), Some(*time.end())),
            None => (None, None),
        };
        let early = value.lower.zip(longest).map(|(lower, longest)| lower - longest);
        let late = value.upper.zip(shortest).map(|(upper, shortest)| shortest - upper);
        let at_most = |value: Option<f64>, bound: Option<f64>| {
            bound.is_none_or(|bound| value.is_some_and(|value| value <= bound))
        };
        let at_least = |value: Option<f64>, bound: Option<f64>| {
            bound.is_none_or(|bound| value.is_some_and(|value| value >= bound))
        };
        at_most(early, self.early_ms)
            && at_most(late, self.late_ms)
            && at_least(longest, self.least_ms)
            && at_most(shortest, self.most_ms)
            && at_least(value.number, self.least)
            && at_most(value.number, self.most)
    }

    /// Returns whether the bounds are missing, not finite, negative or contradictory.
    pub(super) fn is_wrong(&self) -> bool {
        let all = [
            self.early_ms,
            self.late_ms,
            self.least_ms,
            self.most_ms,
            self.least,
            self.most,
        ];
        let mut given = all.iter().flatten().peekable();
        let is_crossed = |(least, most): (f64, f64)| least > most;
        given.peek().is_none()
            || given.any(|bound| !bound.is_finite() || *bound < 0.0)
            || self.least_ms.zip(self.most_ms).is_some_and(is_crossed)
            || self.least.zip(self.most).is_some_and(is_crossed)
    }
}

impl Value {
    /// Takes the values from the check's measurement, otherwise parses its text.
    fn of(check: &Check) -> Self {
        if let Some(measured) = &check.measured {
            return measured.into();
        }
        let number = number(&check.seen);
        if let Some((each, timeout)) = number.and_then(|sent| each_retry(&check.expected, sent)) {
            return Self {
                time: Some(each..=each),
                lower: Some(timeout),
                number,
                ..Self::default()
            };
        }
        let (lower, upper) = match times(&check.expected) {
            Some((lower, Some(upper))) => (Some(lower), Some(upper)),
            // For example "33.55 ms after that, or later".
            Some((lower, None)) => (Some(lower), None),
            None => (None, None),
        };
        Self {
            time: times(&check.seen).map(|(least, most)| least..=most.unwrap_or(least)),
            lower,
            upper,
            number,
        }
    }
}

impl From<&Measured> for Value {
    fn from(measured: &Measured) -> Self {
        let ms = |ns: u64| ns as f64 / 1e6;
        Self {
            time: Some(ms(measured.least_ns)..=ms(measured.most_ns)),
            lower: measured.lower_ns.map(ms),
            upper: measured.upper_ns.map(ms),
            number: None,
        }
    }
}

/// Returns the mean time between retries and the ACK timeout, both in milliseconds, for a request that was transmitted
/// `sent` times. `expected` must list the legal retries: "2 transmissions at most in 120.00 ms: 0 RNR NAKs, 0 other
/// reasons, ACK timeout 67.11 ms".
fn each_retry(expected: &str, sent: f64) -> Option<(f64, f64)> {
    let (lasted, reasons) = expected.split_once(" transmissions at most in ")?.1.split_once(": ")?;
    let (reasons, timeout) = reasons.split_once(", ACK timeout ")?;
    let explained: f64 = reasons.split(", ").map(number).sum::<Option<f64>>()?;
    let time_outs = sent - 1.0 - explained;
    (time_outs > 0.0).then_some((time(lasted)?.0 / time_outs, time(timeout)?.0))
}

/// Parses the whole number at the start of a text. After the number, the text must end or continue with a colon or a
/// blank. Returns `None` for a time.
fn number(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let stands_alone = rest.is_empty() || rest.starts_with([':', ' ']) && time(text).is_none();
    digits.parse().ok().filter(|_| stands_alone)
}

/// Parses the time or the range of times at the start of a text.
fn times(text: &str) -> Option<(f64, Option<f64>)> {
    let (first, rest) = time(text)?;
    let second = rest.strip_prefix("..").and_then(time);
    Some((first, second.map(|(second, _)| second)))
}

/// Parses the time at the start of a text, in the format of `duration_words`; returns milliseconds and the rest.
fn time(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (digits, rest) = text.split_at(end);
    let units = [(" ns", 1e-6), (" us", 1e-3), (" ms", 1.0), (" s", 1e3)];
    let (unit, ms) = units.into_iter().find(|(unit, _)| {
        let behind = rest.strip_prefix(unit).map(|rest| rest.chars().next());
        behind.is_some_and(|behind| behind.is_none_or(|c| !c.is_alphanumeric()))
    })?;
    let value: f64 = digits.parse().ok()?;
    Some((value * ms, &rest[unit.len()..]))
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use verbatim_record::duration_words;

    use super::*;

    fn check(expected: &str, seen: &str) -> Check {
        Check {
            expected: expected.into(),
            seen: seen.into(),
            ..Check::default()
        }
    }

    fn within(text: &str) -> Within {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn parses_every_duration_format() {
        for ns in [7, 1_500, 67_110_000, 536_900_000, 8_225_000_000] {
            let words = duration_words(Duration::from_nanos(ns));
            let (ms, rest) = time(&words).unwrap();
            assert!(
                (ms - ns as f64 / 1e6).abs() < 0.01 * ms && rest.is_empty(),
                "{words}: {ms}"
            );
        }
        for none in ["", "ms", "7", "7 msgs", "7 SENDs", "1.2.3 ms", "-7 ms"] {
            assert_eq!(time(none), None, "{none}");
        }
        assert_eq!(
            (number("8"), number("8: SEND"), number("8 at most")),
            (Some(8.0), Some(8.0), Some(8.0))
        );
        assert_eq!((number("8 ms"), number("8th"), number("none")), (None, None, None));
    }

    #[test]
    fn early_and_late_count_from_the_bound() {
        let early = within("early_ms = 8");
        let of = |seen| check("67.11 ms..268.44 ms after the transmission before", seen);
        assert!(early.holds(&of("63.90 ms..64.20 ms")) && early.holds(&of("55.00 ms..59.12 ms")));
        assert!(!early.holds(&of("16.60 ms..16.90 ms")), "four times too fast");
        assert!(!early.holds(&of("soon")) && !early.holds(&check("as it must be", "63.90 ms")));
        let late = within("late_ms = 300");
        assert!(late.holds(&of("536.90 ms..537.00 ms")) && !late.holds(&of("600.00 ms..2.000 s")));
        let floor = within("least_ms = 500\nmost_ms = 550");
        assert!(floor.holds(&of("536.90 ms..537.00 ms")) && !floor.holds(&of("1.074 s..1.075 s")));
        assert!(!floor.holds(&of("400.00 ms..450.00 ms")));
    }

    #[test]
    fn measurement_precedes_text() {
        let measured = Measured {
            least_ns: 16_000_000,
            most_ns: 17_000_000,
            lower_ns: Some(67_110_000),
            upper_ns: None,
        };
        let check = Check {
            measured: Some(measured),
            ..check("67.11 ms", "63.90 ms")
        };
        assert!(!within("early_ms = 8").holds(&check) && within("early_ms = 51").holds(&check));
    }

    #[test]
    fn retries_use_the_mean_interval() {
        let of = |lasted, seen| {
            let expected =
                format!("2 transmissions at most in {lasted}: 0 RNR NAKs, 0 other reasons, ACK timeout 67.11 ms");
            within("early_ms = 8").holds(&check(&expected, seen))
        };
        assert!(of("128.00 ms", "3: SEND Only"), "two time-outs of 64 ms");
        assert!(!of("50.00 ms", "4: SEND Only"), "three of 17 ms");
        assert!(!of("soon", "3: SEND Only") && !of("128.00 ms", "1: SEND Only"));
    }

    #[test]
    fn numbers_have_bounds() {
        let most = within("least = 8\nmost = 17");
        let of = |seen| most.holds(&check("2 at most", seen));
        assert!(of("8") && of("17") && !of("7") && !of("18") && !of("many"));
    }

    #[test]
    fn rejects_empty_and_contradictory_bounds() {
        assert!(within("").is_wrong() && within("early_ms = -1").is_wrong() && within("most = nan").is_wrong());
        assert!(within("least = 9\nmost = 8").is_wrong() && !within("least = 8\nmost = 8").is_wrong());
    }
}
