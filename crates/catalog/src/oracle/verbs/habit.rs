//! Habits of a retry timer that break rules of many tests: each is established once, in a test of its own; elsewhere what comes of it is
//! an observation, and the verdict rests on the test's own subject.
//!
//! A habit is seen where the peer says nothing at all between two transmissions, so that the timer alone decides.

use core::time::Duration;

use verbatim_record::{Time, Trace, duration_words};
use verbatim_wire::packet::AckTimeout;

use super::retry::{QUEUED, causes};
use super::talk::{Answer, Post, Request, Talk, talks};
use crate::oracle::rules::responder::Says;

/// What a device does to every request that nobody answers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Habit {
    /// It is sent again at intervals that grow up to the timeout.
    Adaptive,
    /// It is sent again long before the timeout.
    Early,
    /// It is sent again later than 4 T.
    Floor,
}

impl Habit {
    /// The rule whose findings establish it, in the tests that do.
    pub(crate) const RULE: &str = "ack-timeout";

    /// The tests that establish it.
    const fn tests(self) -> &'static [&'static str] {
        match self {
            Self::Adaptive => &["c09-142-ack-timeout"],
            Self::Early | Self::Floor => &["c09-142-ack-timeout", "c09-142-long-timeout"],
        }
    }

    pub(crate) fn is_subject_of(self, test: &str) -> bool {
        self.tests().contains(&test)
    }

    /// What is said of it elsewhere.
    pub(crate) fn words(self) -> String {
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
pub(crate) struct Habits {
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
    pub(super) fn of(talks: &[Talk<'_>]) -> Self {
        let mut habits = Self::default();
        for talk in talks {
            let Some(once) = talk.timeout() else { continue };
            habits.early = habits.early || has_early(talk, once);
            for (at, post) in talk.posts.iter().enumerate() {
                if at > 0 && !talk.posts[..at].iter().all(|before| is_done_before(talk, before, post)) {
                    continue;
                }
                let intervals = unanswered_intervals(talk, post.first);
                let early = grows_until(&intervals, once);
                if early.len() > habits.growing.len() {
                    habits.growing = early.to_vec();
                }
                let none_lost = talk.is_lossless() || intervals.len() >= talk.retry_cnt() as usize;
                let late = steady_beyond(&intervals, 4 * once).filter(|_| none_lost);
                habits.longest = habits.longest.max(late);
            }
        }
        habits
    }

    /// Of a record, where nothing else is asked about its connections.
    pub(crate) fn in_record(trace: &Trace) -> Self {
        talks(trace)
            .first()
            .map_or_else(Self::default, |talk| (*talk.habits).clone())
    }

    pub(crate) fn has(&self, habit: Habit) -> bool {
        match habit {
            Habit::Adaptive => !self.growing.is_empty(),
            Habit::Early => self.early,
            Habit::Floor => self.longest.is_some(),
        }
    }

    /// The first that is no subject of that test.
    pub(crate) fn foreign_to(&self, test: &str) -> Option<Habit> {
        let all = [Habit::Adaptive, Habit::Early, Habit::Floor].into_iter();
        all.filter(|habit| self.has(*habit))
            .find(|habit| !habit.is_subject_of(test))
    }

    /// The habit that a retry is due to which is early, or late.
    pub(crate) fn of_retry(&self, is_late: bool) -> Option<Habit> {
        let habits: &[Habit] = match is_late {
            true => &[Habit::Floor, Habit::Adaptive],
            false => &[Habit::Adaptive, Habit::Early],
        };
        habits.iter().copied().find(|habit| self.has(*habit))
    }

    /// What the intervals look like, and the setting that does it.
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

/// A timer that is so many tenths of the timeout, or less, is early by more than its grain.
const LONG_BEFORE: u32 = 9;

/// Whether a packet came again long before a timeout could be over, though the peer had said nothing since it came last: the timeout of
/// its own first transmission where nothing was ever asked for again, or else of the connection's first.
fn has_early(talk: &Talk<'_>, once: Duration) -> bool {
    let asks = |answer: &&Answer<'_>| matches!(answer.says, Says::Rnr | Says::Sequence | Says::Nothing);
    let until = talk.answers.iter().find(asks).map_or(usize::MAX, Answer::place);
    let Some(begin) = talk.requests.first() else {
        return false;
    };
    (0..talk.requests.len()).any(|at| {
        let Some((post, earlier, later)) = oldest_again(talk, at) else {
            return false;
        };
        let is_soon = |since: &Request<'_>| {
            let most = talk
                .trace
                .begin
                .at_most(later.seen.frame.at.since(since.seen.frame.at).1)
                + QUEUED;
            most * 10 < once * LONG_BEFORE
        };
        let place = later.seen.place;
        let between = |answer: &Answer<'_>| (earlier.seen.place..place).contains(&answer.place());
        let times = |sent: &Request<'_>| {
            sent.offset
                .map_or(0, |of| talk.transmissions(of, sent.seen.place).len())
        };
        let is_second = place < until && earlier.offset == later.offset && times(earlier) == 0;
        let is_excess = || times(later) > causes(talk, post, place).all() as usize;
        let is_early = is_second && is_soon(earlier) || is_soon(begin) && is_excess();
        is_early && !talk.answers.iter().any(between)
    })
}

/// A request packet that is the oldest without an answer, and the one before it that was the same.
fn oldest_again<'a, 't>(talk: &'a Talk<'t>, at: usize) -> Option<(&'a Post<'t>, &'a Request<'t>, &'a Request<'t>)> {
    let later = talk.requests.get(at)?;
    let post = talk.posts.get(talk.post_of(later.offset?)?)?;
    let before = talk.answers.iter().filter(|answer| answer.place() < later.seen.place);
    // The last response to a READ ends it.
    let ends = |answer: &Answer<'_>| {
        let of = answer.offset.and_then(|of| talk.posts.get(talk.post_of(of)?));
        let last = of.filter(|of| of.posted.has_response_data() && answer.offset == Some(of.end - 1));
        answer.end().max(last.map(|of| of.end))
    };
    let done = before.filter_map(ends).max().unwrap_or(0);
    let is_read = post.posted.has_response_data();
    let is_oldest = later.offset == Some(done) || is_read && post.has(done) || post.first == done;
    let is_same = |sent: &&Request<'_>| match is_read {
        true => sent.offset.is_some_and(|of| post.has(of)),
        false => sent.offset == later.offset,
    };
    let earlier = talk.requests[..at].iter().rev().find(is_same);
    earlier.filter(|_| is_oldest).map(|earlier| (post, earlier, later))
}

/// How often between two places the timer alone has sent the oldest request again before the timeout was over.
pub(super) fn early_rounds(talk: &Talk<'_>, (since, until): (usize, usize)) -> u32 {
    let Some(once) = talk.timeout().filter(|_| talk.habits.of_retry(false).is_some()) else {
        return 0;
    };
    let is_early = |at: &usize| {
        let pair = oldest_again(talk, *at);
        pair.is_some_and(|(_, earlier, later)| {
            let is_within = (since + 1..=until).contains(&later.seen.place);
            is_within && later.seen.frame.at.since(earlier.seen.frame.at).0 < once
        })
    };
    u32::try_from((0..talk.requests.len()).filter(is_early).count()).unwrap_or(u32::MAX)
}

/// The habit that may have brought one of these transmissions about: then their count tells nothing.
pub(super) fn of_excess(talk: &Talk<'_>, sent: &[&Request<'_>]) -> Option<Habit> {
    let places = (sent.first()?.seen.place, sent.last()?.seen.place);
    let habit = talk.habits.of_retry(false).filter(|_| talk.timeout().is_some());
    habit.filter(|habit| *habit == Habit::Adaptive || early_rounds(talk, places) > 0)
}

/// Whether one request was done when another was posted.
fn is_done_before(talk: &Talk<'_>, before: &Post<'_>, post: &Post<'_>) -> bool {
    let at = talk.post_of(before.first);
    at.is_some_and(|at| {
        talk.told_of(at)
            .any(|told| told.is_success() && told.place() < post.place())
    })
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

/// The intervals between transmissions of a packet up to the first word of the peer.
fn unanswered_intervals(talk: &Talk<'_>, offset: u32) -> Vec<Duration> {
    let sent = talk.transmissions(offset, usize::MAX);
    let first = sent.first().map_or(0, |sent| sent.seen.place);
    let until = talk
        .answers
        .iter()
        .map(|answer| answer.place())
        .find(|place| *place > first);
    let before = sent
        .iter()
        .take_while(|sent| until.is_none_or(|until| sent.seen.place < until));
    let at: Vec<Time> = before.map(|sent| sent.seen.frame.at.latest).collect();
    at.windows(2).map(|pair| pair[1].since(pair[0])).collect()
}

/// The longest interval beyond a bound that came twice in a row: a timer's own.
fn steady_beyond(intervals: &[Duration], bound: Duration) -> Option<Duration> {
    let is_steady = |pair: &&[Duration]| pair[0].min(pair[1]) > bound && pair[0].abs_diff(pair[1]) <= pair[0] / 50;
    intervals
        .windows(2)
        .filter(is_steady)
        .map(|pair| pair[0].max(pair[1]))
        .max()
}

/// The intervals that begin below the timeout and grow by far, in one go; none if there are too few.
fn grows_until(intervals: &[Duration], once: Duration) -> &[Duration] {
    for (from, interval) in intervals.iter().enumerate() {
        let grows = intervals[from..]
            .windows(2)
            .take_while(|pair| pair[1] * 10 >= pair[0] * BY);
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
