//! Habits of a retry timer that break rules in many tests. Only certain tests judge a habit. In all other tests, a
//! violation that the habit explains is an observation, which does not affect the verdict.
//!
//! `pace` finds the habits in a record.

use core::time::Duration;

use verbatim_record::duration_words;
use verbatim_wire::packet::AckTimeout;

use crate::registry::Rule;

/// Timing of the device's retransmissions while the peer does not respond.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Habit {
    /// The device retransmits at intervals that grow up to the timeout.
    Adaptive,
    /// The device retransmits long before the timeout.
    Early,
    /// The device waits longer than four times the timeout before it retransmits.
    Floor,
}

impl Habit {
    /// Rule that judges a habit, in the tests of that habit.
    pub const RULE: Rule = Rule::AckTimeout;

    /// Returns the tests that judge the habit.
    const fn tests(self) -> &'static [&'static str] {
        match self {
            Self::Adaptive => &["c09-142-ack-timeout"],
            Self::Early | Self::Floor => &["c09-142-ack-timeout", "c09-142-long-timeout"],
        }
    }

    /// Returns whether `test` judges this habit.
    pub fn is_subject_of(self, test: &str) -> bool {
        self.tests().contains(&test)
    }

    /// Returns the observation in the verdicts of tests that do not judge the habit.
    pub fn words(self) -> String {
        let what = match self {
            Self::Adaptive => "the device retransmits before its ACK timeout, at growing intervals",
            Self::Early => "the device retransmits before its ACK timeout",
            Self::Floor => "the device's ACK timeout is longer than 4 T",
        };
        format!("{what}; {} judges this", self.tests()[0])
    }
}

/// Habits that a record shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Habits {
    /// Longest series of growing intervals of one request, in order.
    pub(super) growing: Vec<Duration>,
    /// Whether an unanswered packet was sent a second time long before the timeout.
    pub(super) early: bool,
    /// Longest of the intervals that exceed four times the timeout and occurred twice in a row.
    pub(super) longest: Option<Duration>,
}

/// Minimum number of successively longer intervals that chance does not explain.
pub(super) const GROWING: usize = 3;
/// Smallest ratio of an interval to the previous interval, in tenths. Adaptive timers double their intervals; a host
/// that stalls stretches the intervals of a steady timer by less.
const BY: u32 = 15;

impl Habits {
    /// Returns whether the record shows a habit.
    pub fn has(&self, habit: Habit) -> bool {
        match habit {
            Habit::Adaptive => !self.growing.is_empty(),
            Habit::Early => self.early,
            Habit::Floor => self.longest.is_some(),
        }
    }

    /// Returns the first habit in the record that the test does not judge.
    pub fn foreign_to(&self, test: &str) -> Option<Habit> {
        let all = [Habit::Adaptive, Habit::Early, Habit::Floor].into_iter();
        all.filter(|habit| self.has(*habit))
            .find(|habit| !habit.is_subject_of(test))
    }

    /// Returns the habit of this record that explains a late retransmission, or an early one if `is_late` is false.
    pub fn of_retry(&self, is_late: bool) -> Option<Habit> {
        let habits: &[Habit] = match is_late {
            true => &[Habit::Floor, Habit::Adaptive],
            false => &[Habit::Adaptive, Habit::Early],
        };
        habits.iter().copied().find(|habit| self.has(*habit))
    }

    /// Returns the intervals that show the habit, and the adapter's setting that may cause it, in words.
    pub(super) fn signature(&self, habit: Habit) -> String {
        match habit {
            Habit::Early => String::new(),
            Habit::Adaptive => {
                let steps: Vec<String> = self.growing.iter().map(|step| duration_words(*step)).collect();
                format!(
                    "; intervals {} up to the timeout: looks like adaptive retransmission (ConnectX: ROCE_ACCL roce_adp_retrans_en)",
                    steps.join(", ")
                )
            }
            Habit::Floor => self.longest.and_then(least_code).map_or_else(String::new, |code| {
                format!(
                    "; may be a floor of the ACK timeout (ConnectX: ROCE_ACCL min_ack_timeout_limit_disabled); set \
                     dut_ack_timeout_least = {code} to make the tests respect it"
                )
            }),
        }
    }
}

/// Returns the smallest code whose timeout is at least half of the interval. A timeout that is 1 % shorter also
/// counts.
fn least_code(interval: Duration) -> Option<u8> {
    let fits = |code: &u8| {
        AckTimeout(*code)
            .duration()
            .is_some_and(|once| interval <= 2 * once + once / 50)
    };
    (1..=31).find(fits)
}

/// Returns the longest of the intervals that exceed `bound` and occurred twice in a row. Only a timer repeats an
/// interval so exactly.
pub(super) fn steady_beyond(intervals: &[Duration], bound: Duration) -> Option<Duration> {
    let is_steady = |pair: &&[Duration]| pair[0].min(pair[1]) > bound && pair[0].abs_diff(pair[1]) <= pair[0] / 50;
    intervals
        .windows(2)
        .filter(is_steady)
        .map(|pair| pair[0].max(pair[1]))
        .max()
}

/// Returns the first series of intervals that begins below the timeout and grows steadily; empty if no series is long
/// enough.
pub(super) fn grows_until(intervals: &[Duration], once: Duration) -> &[Duration] {
    for (from, interval) in intervals.iter().enumerate() {
        let grows = intervals[from..]
            .windows(2)
            .take_while(|pair| pair[1] > pair[0] && pair[1] * 10 >= pair[0] * BY);
        let count = grows.count() + 1;
        if *interval < once && count >= GROWING {
            return &intervals[from..from + count];
        }
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(steps: &[u64]) -> Vec<Duration> {
        steps.iter().copied().map(Duration::from_millis).collect()
    }

    #[test]
    fn growing_intervals_are_a_signature() {
        let once = Duration::from_millis(67);
        assert_eq!(grows_until(&ms(&[12, 8, 16, 33, 67, 536, 536]), once).len(), 5);
        assert!(grows_until(&ms(&[33, 33, 33]), once).is_empty());
        assert!(grows_until(&ms(&[80, 160, 240]), once).is_empty(), "none is early");
        assert!(grows_until(&ms(&[12, 24]), once).is_empty(), "too few");
        assert!(grows_until(&ms(&[44, 56, 69]), once).is_empty(), "a stalled host");
        assert!(
            grows_until(&ms(&[0, 0, 0, 0]), once).is_empty(),
            "they came late, together"
        );
    }

    #[test]
    fn repeated_late_interval_is_steady() {
        let bound = Duration::from_millis(268);
        assert_eq!(
            steady_beyond(&ms(&[100, 201, 536, 537, 537]), bound),
            Some(Duration::from_millis(537))
        );
        assert_eq!(steady_beyond(&ms(&[201, 536, 805]), bound), None);
    }

    #[test]
    fn least_code_covers_half_the_interval() {
        assert_eq!(least_code(Duration::from_micros(536_900)), Some(16));
        assert_eq!(least_code(Duration::from_millis(500)), Some(16));
        assert_eq!(least_code(Duration::from_millis(5)), Some(10));
    }
}
