//! Habits of a retry timer that break rules of many tests: each is established once, in a test of its own; elsewhere
//! what comes of it is an observation, and the verdict rests on the test's own subject.
//!
//! `pace` finds them in a record.

use core::time::Duration;

use verbatim_record::duration_words;
use verbatim_wire::packet::AckTimeout;

use crate::registry::Rule;

/// The device's timing of retries when no response comes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Habit {
    /// It is sent again at intervals that grow up to the timeout.
    Adaptive,
    /// It is sent again long before the timeout.
    Early,
    /// It is sent again later than 4 T.
    Floor,
}

impl Habit {
    /// The rule whose findings establish it, in the tests that do.
    pub const RULE: Rule = Rule::AckTimeout;

    /// The tests that establish it.
    const fn tests(self) -> &'static [&'static str] {
        match self {
            Self::Adaptive => &["c09-142-ack-timeout"],
            Self::Early | Self::Floor => &["c09-142-ack-timeout", "c09-142-long-timeout"],
        }
    }

    /// Whether a test establishes this habit.
    pub fn is_subject_of(self, test: &str) -> bool {
        self.tests().contains(&test)
    }

    /// The observation that other tests print.
    pub fn words(self) -> String {
        let what = match self {
            Self::Adaptive => "the device sends again before its ACK timeout, at intervals that grow",
            Self::Early => "the device sends again before its ACK timeout",
            Self::Floor => "the device's ACK timeout is longer than 4 T",
        };
        format!("{what}: {} judges that", self.tests()[0])
    }
}

/// The habits that a record shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Habits {
    /// The intervals of the request that shows most of them, the early ones first.
    pub(super) growing: Vec<Duration>,
    /// A packet that nobody answered came a second time long before T.
    pub(super) early: bool,
    /// The longest interval beyond 4 T that came twice.
    pub(super) longest: Option<Duration>,
}

/// Intervals, each longer than the one before, that take more than chance.
const GROWING: usize = 3;
/// How much longer each is at least, in tenths.
const BY: u32 = 12;

impl Habits {
    /// Whether the record shows a habit.
    pub fn has(&self, habit: Habit) -> bool {
        match habit {
            Habit::Adaptive => !self.growing.is_empty(),
            Habit::Early => self.early,
            Habit::Floor => self.longest.is_some(),
        }
    }

    /// The first that is no subject of that test.
    pub fn foreign_to(&self, test: &str) -> Option<Habit> {
        let all = [Habit::Adaptive, Habit::Early, Habit::Floor].into_iter();
        all.filter(|habit| self.has(*habit))
            .find(|habit| !habit.is_subject_of(test))
    }

    /// The habit that a retry is due to which is early, or late.
    pub fn of_retry(&self, is_late: bool) -> Option<Habit> {
        let habits: &[Habit] = match is_late {
            true => &[Habit::Floor, Habit::Adaptive],
            false => &[Habit::Adaptive, Habit::Early],
        };
        habits.iter().copied().find(|habit| self.has(*habit))
    }

    /// The pattern of the intervals, and the setting that causes it.
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
                    "; may be a floor of the ACK timeout (ConnectX: ROCE_ACCL min_ack_timeout_limit_disabled): with \
                     dut_ack_timeout_least = {code} tests keep to it"
                )
            }),
        }
    }
}

/// The least code of which an interval is no more than twice the timeout.
fn least_code(interval: Duration) -> Option<u8> {
    let fits = |code: &u8| {
        AckTimeout(*code)
            .duration()
            .is_some_and(|once| interval <= 2 * once + once / 50)
    };
    (1..=31).find(fits)
}

/// The longest interval beyond a bound that came twice in a row: a timer's own.
pub(super) fn steady_beyond(intervals: &[Duration], bound: Duration) -> Option<Duration> {
    let is_steady = |pair: &&[Duration]| pair[0].min(pair[1]) > bound && pair[0].abs_diff(pair[1]) <= pair[0] / 50;
    intervals
        .windows(2)
        .filter(is_steady)
        .map(|pair| pair[0].max(pair[1]))
        .max()
}

/// The intervals that begin below the timeout and grow by far, in one go; none if there are too few.
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
    fn growing_intervals_are_a_signature_and_equal_ones_are_none() {
        let once = Duration::from_millis(67);
        assert_eq!(grows_until(&ms(&[12, 8, 16, 33, 67, 536, 536]), once).len(), 5);
        assert!(grows_until(&ms(&[33, 33, 33]), once).is_empty());
        assert!(grows_until(&ms(&[80, 160, 240]), once).is_empty(), "none is early");
        assert!(grows_until(&ms(&[12, 24]), once).is_empty(), "too few");
        assert!(
            grows_until(&ms(&[0, 0, 0, 0]), once).is_empty(),
            "they came late, together"
        );
    }

    #[test]
    fn a_late_interval_that_comes_twice_is_the_timer_s_own() {
        let bound = Duration::from_millis(268);
        assert_eq!(
            steady_beyond(&ms(&[100, 201, 536, 537, 537]), bound),
            Some(Duration::from_millis(537))
        );
        assert_eq!(steady_beyond(&ms(&[201, 536, 805]), bound), None);
    }

    #[test]
    fn the_least_code_is_that_of_twice_the_timeout() {
        assert_eq!(least_code(Duration::from_micros(536_900)), Some(16));
        assert_eq!(least_code(Duration::from_millis(500)), Some(16));
        assert_eq!(least_code(Duration::from_millis(5)), Some(10));
    }
}
