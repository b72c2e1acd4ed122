//! Pace of retransmissions: the habits of the retry timer that a record shows.
//!
//! A habit is visible only if the peer sends nothing between two transmissions. The timer alone then determines the
//! interval.

use core::time::Duration;
use std::rc::Rc;

use verbatim_record::{Time, Trace};

use super::causes::causes;
use super::habit::{GROWING, Habit, Habits, grows_until, steady_beyond};
use super::qp_trace::{PeerResponse, QpTrace, Request, WorkRequest, qp_traces};
use crate::rc;
use crate::rules::responder::ResponseKind;

/// Longest wait of a packet in its port, behind packets of other queue pairs.
pub(super) const QUEUED: Duration = Duration::from_millis(1);

/// Returns the longest time that the path may add to, or take from, the time between two arrivals; `None` if the path
/// was not measured.
pub(super) fn spread(qp: &QpTrace<'_>) -> Option<Duration> {
    let trips = &qp.trace.timeline.round_trips;
    let shortest = trips.iter().map(|trips| trips.shortest).min();
    Some(rc::path(qp.trace)?.saturating_sub(shortest.unwrap_or_default()))
}

/// Sets the habits of each connection from all connections of a record.
pub(super) fn look(qp_traces: &mut [QpTrace<'_>]) {
    let habits = Rc::new(of(qp_traces));
    for qp in qp_traces {
        qp.habits = Rc::clone(&habits);
    }
}

/// Returns the habits that a record shows.
pub fn in_record(trace: &Trace) -> Habits {
    of(&qp_traces(trace))
}

/// Returns the habits that a sufficient share of connections shows. A timer has its habit on all connections. A
/// late packet or a stalled host makes a sound timer look early or adaptive, but only on a few connections.
fn of(qp_traces: &[QpTrace<'_>]) -> Habits {
    let mut habits = Habits::default();
    let mut keeps_time = false;
    let (mut early, mut in_time, mut growing, mut steady) = (0, 0, 0, 0);
    for qp in qp_traces {
        let Some(once) = qp.timeout() else { continue };
        let is_early = has_early(qp, once);
        early += usize::from(is_early);
        for (at, post) in qp.posts.iter().enumerate() {
            if at > 0 && !qp.posts[..at].iter().all(|before| is_done_before(qp, before, post)) {
                continue;
            }
            let intervals = unanswered_intervals(qp, post.first);
            let grows = grows_until(&intervals, once);
            growing += usize::from(!grows.is_empty());
            steady += usize::from(grows.is_empty() && intervals.len() >= GROWING);
            if grows.len() > habits.growing.len() {
                habits.growing = grows.to_vec();
            }
            keeps_time = keeps_time || is_kept_twice(&intervals, once);
            let is_in_time = |interval: &Duration| *interval * 10 >= once * LONG_BEFORE;
            in_time += usize::from(!is_early && intervals.first().is_some_and(is_in_time));
            let none_lost = qp.is_lossless() || intervals.len() >= qp.retry_cnt() as usize;
            let late = steady_beyond(&intervals, 4 * once + QUEUED).filter(|_| none_lost);
            habits.longest = habits.longest.max(late);
        }
    }
    habits.early = is_usual(early, in_time) && !keeps_time;
    if !is_usual(growing, steady) {
        habits.growing.clear();
    }
    habits
}

/// Returns whether at least a quarter of all cases show a habit.
const fn is_usual(with: usize, without: usize) -> bool {
    with > 0 && with * 3 >= without
}

/// Returns whether two intervals in a row are close to the timeout. A timer with the habit of early retransmission
/// shows no such pair.
fn is_kept_twice(intervals: &[Duration], once: Duration) -> bool {
    let is_kept = |interval: &Duration| (once * LONG_BEFORE..=once * 12).contains(&(*interval * 10));
    intervals.windows(2).any(|pair| pair.iter().all(is_kept))
}

/// Share of the timeout, in tenths. A timer that fires before this share has passed is early by more than its
/// granularity.
const LONG_BEFORE: u32 = 9;

/// Returns whether a packet was retransmitted long before a timeout, although no response came since its previous
/// transmission. There are two such cases:
///
/// * The second transmission comes too soon after the first.
/// * A transmission comes too soon after the connection's first request, and the retransmissions outnumber the
///   causes other than timeouts.
fn has_early(qp: &QpTrace<'_>, once: Duration) -> bool {
    let asks = |answer: &&PeerResponse<'_>| {
        matches!(
            answer.says,
            ResponseKind::Rnr | ResponseKind::Sequence | ResponseKind::Nothing
        )
    };
    let until = qp.answers.iter().find(asks).map_or(usize::MAX, PeerResponse::place);
    let path = spread(qp).unwrap_or_default();
    let Some(begin) = qp.requests.first() else {
        return false;
    };
    (0..qp.requests.len()).any(|at| {
        let Some((post, earlier, later)) = oldest_again(qp, at) else {
            return false;
        };
        let is_soon = |since: &Request<'_>| {
            let most = qp.trace.begin.at_most(later.seen.frame.at.since(since.seen.frame.at).1) + path + QUEUED;
            most * 10 < once * LONG_BEFORE
        };
        let place = later.seen.place;
        let between = |answer: &PeerResponse<'_>| (earlier.seen.place..place).contains(&answer.place());
        let times = |sent: &Request<'_>| sent.offset.map_or(0, |of| qp.transmissions(of, sent.seen.place).len());
        let is_second = place < until && earlier.offset == later.offset && times(earlier) == 0;
        let is_excess = || times(later) > causes(qp, post, place).all() as usize;
        let is_early = is_second && is_soon(earlier) || is_soon(begin) && is_excess();
        is_early && !qp.answers.iter().any(between)
    })
}

/// For the packet at index `at`, returns its work request, its previous transmission and the packet itself. Returns
/// `None` if the packet was not sent before, or if its request is not the oldest unanswered request.
fn oldest_again<'a, 't>(
    qp: &'a QpTrace<'t>,
    at: usize,
) -> Option<(&'a WorkRequest<'t>, &'a Request<'t>, &'a Request<'t>)> {
    let later = qp.requests.get(at)?;
    let post = qp.posts.get(qp.post_of(later.offset?)?)?;
    let before = qp.answers.iter().filter(|answer| answer.place() < later.seen.place);
    // A READ ends with its last response.
    let ends = |answer: &PeerResponse<'_>| {
        let of = answer.offset.and_then(|of| qp.posts.get(qp.post_of(of)?));
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
    let before = qp.requests[..at]
        .iter()
        .rposition(|sent| is_same(&sent))
        .filter(|_| is_oldest)?;
    // If the device did not receive a response, an older request stays open and is repeated with this request.
    let since = qp.requests[before + 1..].iter();
    let mut with_it = since.take_while(|sent| sent.seen.place <= later.seen.place);
    let is_older = with_it.any(|sent| sent.offset.is_some_and(|of| of < post.first));
    (!is_older).then_some((post, &qp.requests[before], later))
}

/// Returns how often, between two places, the timer alone repeated the oldest request before the timeout had
/// passed.
pub(super) fn early_rounds(qp: &QpTrace<'_>, (since, until): (usize, usize)) -> u32 {
    let Some(once) = qp.timeout().filter(|_| qp.habits.of_retry(false).is_some()) else {
        return 0;
    };
    let is_early = |at: &usize| {
        let pair = oldest_again(qp, *at);
        pair.is_some_and(|(_, earlier, later)| {
            let is_within = (since + 1..=until).contains(&later.seen.place);
            is_within && later.seen.frame.at.since(earlier.seen.frame.at).0 < once
        })
    };
    u32::try_from((0..qp.requests.len()).filter(is_early).count()).unwrap_or(u32::MAX)
}

/// Returns the habit that may have caused one of these transmissions. The number of the transmissions then proves
/// nothing.
pub(super) fn of_excess(qp: &QpTrace<'_>, sent: &[&Request<'_>]) -> Option<Habit> {
    let places = (sent.first()?.seen.place, sent.last()?.seen.place);
    let habit = qp.habits.of_retry(false).filter(|_| qp.timeout().is_some());
    habit.filter(|habit| *habit == Habit::Adaptive || early_rounds(qp, places) > 0)
}

/// Returns whether the request `before` had completed when `post` was posted.
fn is_done_before(qp: &QpTrace<'_>, before: &WorkRequest<'_>, post: &WorkRequest<'_>) -> bool {
    let at = qp.post_of(before.first);
    at.is_some_and(|at| {
        qp.completions_of(at)
            .any(|completion| completion.is_success() && completion.place() < post.place())
    })
}

/// Returns the intervals between transmissions of a packet, up to the first response after its first transmission.
fn unanswered_intervals(qp: &QpTrace<'_>, offset: u32) -> Vec<Duration> {
    let sent = qp.transmissions(offset, usize::MAX);
    let first = sent.first().map_or(0, |sent| sent.seen.place);
    let until = qp
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn habit_shows_on_a_quarter_of_all_series() {
        assert!(is_usual(1, 0) && is_usual(1, 2), "a test with few connections");
        assert!(!is_usual(2, 19), "two late packets of a sound device");
        assert!(!is_usual(0, 0));
    }

    #[test]
    fn timer_that_keeps_timeout_is_not_early() {
        let is_kept = |ms: &[u64]| {
            let intervals: Vec<Duration> = ms.iter().copied().map(Duration::from_millis).collect();
            is_kept_twice(&intervals, Duration::from_millis(67))
        };
        assert!(is_kept(&[31, 68, 64]), "the first alone is early");
        assert!(
            !is_kept(&[17, 17, 17, 17]) && !is_kept(&[8, 16, 33, 67, 134]),
            "early, or growing"
        );
        assert!(!is_kept(&[31, 68]) && !is_kept(&[537, 537]));
    }
}
