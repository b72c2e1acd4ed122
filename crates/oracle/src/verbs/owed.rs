//! What must happen: what is posted is sent, what is answered completes.
//!
//! Each has a deadline: two seconds, and what the connection's own timers add to it. Unmet, with the host alive afterwards, is
//! broken where the cause must have arrived; else the record cannot decide it.
//!
//! Source: architecture 9.7.6 (completions), 9.7.5.1.1 (NAKs acknowledge what lies before them).

use core::time::Duration;

use verbatim_record::{Evidence, Passed, TRIES, Time, duration_words};
use verbatim_wire::packet::AckTimeout;
use verbatim_wire::verbs::WcStatus;

use super::asking::{Asking, VerbsRule};
use super::completion::may_acknowledge;
use super::local::has_reason;
use super::next::{expected, fits, is_read};
use super::talk::{Answer, Owed, Post, Request, SOON, Talk, Told};
use crate::rule::Rule;
use crate::rules::responder::Says;

pub(super) static RULES: &[(Rule, VerbsRule)] = &[
    (Rule::SentWhenPosted, sent_when_posted),
    (Rule::GoesOn, goes_on),
    (Rule::AnsweredCompletes, answered_completes),
    (Rule::NakAcknowledges, nak_acknowledges),
];

/// How long what the connection's own timers hold back may take.
pub(super) fn patience(talk: &Talk<'_>, rnr_interval: Duration) -> Duration {
    let code = talk
        .dialogue
        .attributes
        .timeout
        .and_then(|code| u8::try_from(code).ok());
    let retry_cnt = u8::try_from(talk.retry_cnt()).unwrap_or(7);
    let lasts = verbatim_record::silence::rc_lasts(rnr_interval, AckTimeout(code.unwrap_or(0)), retry_cnt);
    // A timer that is longer than it may be takes as much longer for all its retries, and one more for early ones.
    let longest = talk.habits.longest.filter(|_| talk.timeout().is_some());
    longest.map_or(lasts, |longest| lasts.max(longest * (u32::from(retry_cnt) + 2)))
}

impl<'t> Asking<'_, 't> {
    /// Something that must happen within a time of its cause. `proven`: whether its cause must have arrived.
    pub(super) fn owes(
        &mut self,
        owed: Owed<'t>,
        proven: bool,
        evidence: impl IntoIterator<Item = Evidence<'t>>,
        words: impl FnOnce() -> (String, String, String),
    ) {
        let (result, after) = match owed {
            Owed::Met => (Passed::Pass, None),
            Owed::NotDue => return,
            Owed::Unmet(after) if proven => (Passed::Fail, Some(after)),
            Owed::Unmet(after) => (Passed::Inconclusive, Some(after)),
        };
        self.say(result, evidence.into_iter().chain(after.map(Evidence::from)), words);
    }
}

pub(super) fn in_words(told: &[&Told<'_>]) -> String {
    match told {
        [] => "none".into(),
        all => all
            .iter()
            .map(|told| told.done.in_words())
            .collect::<Vec<_>>()
            .join(", "),
    }
}

/// How long after its cause something came, to stand behind it: what is late looks like what is not. Nothing where it did not come.
pub(super) fn after(since: Time, came: Option<Time>) -> String {
    came.map_or_else(String::new, |came| {
        format!(", {} after it", duration_words(came.since(since)))
    })
}

fn sent_when_posted<'t>(talk: &Talk<'t>, asking: &mut Asking<'_, 't>) {
    for (at, post) in talk.posts.iter().enumerate() {
        let first = talk
            .requests
            .iter()
            .find(|sent| sent.offset.is_some_and(|offset| post.has(offset)));
        // Only what is alone is held back by nothing.
        let before = &talk.posts[..at];
        let is_alone = (0..before.len()).all(|at| {
            talk.told_of(at)
                .any(|told| told.is_success() && told.place() < post.place())
        });
        if !is_alone || talk.failed().is_some_and(|told| told.post == Some(at)) && first.is_none() {
            continue;
        }
        let asked = post.posted.command.asked.latest;
        let came = first.map(|sent| sent.seen.frame.at.earliest);
        if came.is_none() && is_answered_unseen(talk, post.first) {
            continue;
        }
        let within = until_all_tries(talk);
        let owed = talk.owed(asked, within, came);
        let proven = talk.is_lossless() || comes_again(talk);
        asking.owes(owed, proven, [post.posted.command.into()], || {
            let seen = first.map_or_else(|| "no packet".into(), |sent| sent.seen.packet.to_string());
            (
                post.in_words(),
                format!("its first packet within {} of its post", duration_words(within)),
                seen + &after(asked, came),
            )
        });
    }
}

/// Whether what was never sent can't have been lost: where a timer runs it comes again, as often as tells.
fn comes_again(talk: &Talk<'_>) -> bool {
    talk.timeout().is_some() && talk.retry_cnt() >= TRIES
}

/// Whether the peer has answered that PSN, or what lies behind it, though nobody saw it: where packets are lost it was sent, and
/// need not come again.
fn is_answered_unseen(talk: &Talk<'_>, offset: u32) -> bool {
    let reaches = |answer: &Answer<'_>| answer.end().is_some_and(|end| end > offset);
    !talk.is_lossless() && talk.answers.iter().any(reaches)
}

/// How long it may take until one of its tries came in.
fn until_all_tries(talk: &Talk<'_>) -> Duration {
    if talk.is_lossless() {
        SOON
    } else {
        SOON + patience(talk, Duration::ZERO)
    }
}

fn goes_on<'t>(talk: &Talk<'t>, asking: &mut Asking<'_, 't>) {
    // What else an answer says may hold a request back.
    let is_calm = |answer: &Answer<'_>| matches!(answer.says, Says::Ack | Says::Read(_) | Says::Atomic);
    if !talk.answers.iter().all(is_calm) {
        return;
    }
    for answer in talk
        .answers
        .iter()
        .filter(|answer| answer.is_of_seen && answer.says == Says::Ack)
    {
        let Some((next, at)) = answer.end().and_then(|next| Some((next, talk.post_of(next)?))) else {
            continue;
        };
        let post = &talk.posts[at];
        // A READ is one packet, whatever PSNs it takes.
        if post.posted.has_response_data() && next != post.first {
            continue;
        }
        let sent = talk.requests.iter().find(|sent| sent.offset == Some(next));
        let told = (0..at).map(|at| {
            talk.told_of(at)
                .find(|told| told.is_success())
                .map(|told| told.done.told.at.latest)
        });
        let (Some(arrived), Some(told)) = (talk.has_arrived(answer), told.collect::<Option<Vec<_>>>()) else {
            continue;
        };
        let was_waiting = sent.is_none_or(|sent| sent.seen.place > answer.place()) && post.place() < answer.place();
        let is_over = sent.is_none() && is_answered_unseen(talk, next);
        if !was_waiting || is_over || talk.told_of(at).any(|told| !told.is_success()) {
            continue;
        }
        let since = told.into_iter().max().map_or(arrived, |told| told.max(arrived));
        let came = sent.map(|sent| sent.seen.frame.at.earliest);
        let within = until_all_tries(talk);
        let owed = talk.owed(since, within, came);
        let proven = talk.is_lossless() || comes_again(talk);
        asking.owes(owed, proven, [answer.frame.into(), post.posted.command.into()], || {
            let packet = if next == post.first {
                "its first packet"
            } else {
                "its next packet"
            };
            let expected = format!("{packet} within {} of {}", duration_words(within), answer.packet);
            let seen = sent.map_or_else(|| "no packet".into(), |sent| sent.seen.packet.to_string());
            (post.in_words(), expected, seen + &after(since, came))
        });
    }
}

/// The answer after which a request must complete, by what the peer has sent: the one that was missing last.
pub(super) fn answered_by<'a, 't>(talk: &'a Talk<'t>, at: usize) -> Option<&'a Answer<'t>> {
    let post = &talk.posts[at];
    let failed = talk.failed().map_or(usize::MAX, Told::place);
    let usable = || {
        talk.answers
            .iter()
            .filter(move |answer| answer.is_of_seen && answer.place() < failed)
    };
    if post.posted.has_response_data() {
        // In order, each response once; behind one that is missing the rest counts when the READ has come again.
        let (mut next, mut gap) = (post.first, None);
        for answer in usable() {
            let Some(offset) = answer
                .offset
                .filter(|offset| post.has(*offset) && answer.says != Says::Ack)
            else {
                continue;
            };
            let times = |since: usize| {
                let of_it = |sent: &&Request<'_>| sent.offset.is_some_and(|offset| post.has(offset));
                let sent = talk.requests.iter().filter(of_it);
                sent.filter(|sent| (since..answer.place()).contains(&sent.seen.place))
                    .count()
            };
            let came_again = |since: usize| times(since) > 0;
            // Nobody need take a response whose opcode is another's.
            let is_odd = is_read(post) && times(post.place()) < 2 && answer.says != Says::Read(expected(post, offset));
            if offset > next {
                gap = gap.or(Some(answer.place()));
            } else if is_odd || !fits(talk, answer) || gap.is_some_and(|gap| !came_again(gap)) {
                return None;
            } else if offset == next {
                (next, gap) = (next + 1, None);
                if next == post.end {
                    return Some(answer);
                }
            }
        }
        return None;
    }
    let acknowledged = usable().find(|answer| may_acknowledge(answer, post.end))?;
    // What lies in front must be out of the way, or be answered by the same.
    let with_data = (0..at).filter(|at| talk.posts[*at].posted.has_response_data());
    let mut last = acknowledged;
    for at in with_data {
        let before = answered_by(talk, at)?;
        if before.place() > acknowledged.place() {
            return None;
        }
        if before.place() > last.place() {
            last = before;
        }
    }
    Some(last)
}

/// Whether an answer could have ended a request in another way, or delays it: nothing is owed then.
pub(super) fn is_disturbed(talk: &Talk<'_>, until: usize) -> bool {
    talk.answers.iter().any(|answer| {
        answer.place() < until && (answer.is_odd() || answer.says == Says::Fatal && !talk.is_stale(answer))
    })
}

fn answered_completes<'t>(talk: &Talk<'t>, asking: &mut Asking<'_, 't>) {
    completes(talk, asking, |answer| !is_nak(answer));
}

fn nak_acknowledges<'t>(talk: &Talk<'t>, asking: &mut Asking<'_, 't>) {
    completes(talk, asking, is_nak);
}

fn is_nak(answer: &Answer<'_>) -> bool {
    matches!(answer.says, Says::Rnr | Says::Sequence | Says::Fatal)
}

/// When an acknowledgement of a request must have arrived, be it not the first one.
fn another_arrived(talk: &Talk<'_>, post: &Post<'_>) -> Option<Time> {
    let all = talk
        .answers
        .iter()
        .filter(|answer| answer.is_of_seen && answer.says == Says::Ack);
    let of_it = all.filter(|answer| !post.posted.has_response_data() && may_acknowledge(answer, post.end));
    of_it.filter_map(|answer| talk.has_arrived(answer)).min()
}

/// What answers of one kind complete.
fn completes<'t>(talk: &Talk<'t>, asking: &mut Asking<'_, 't>, of_kind: fn(&Answer<'_>) -> bool) {
    for (at, post) in talk.posts.iter().enumerate() {
        let Some(answer) = answered_by(talk, at).filter(|answer| of_kind(answer)) else {
            continue;
        };
        let told: Vec<&Told<'t>> = talk.told_of(at).collect();
        // A time-out may have ended it before an answer that came late; an error without any reason ends nothing.
        let error = told.first().filter(|told| !told.is_success());
        let arrived = talk
            .has_arrived(answer)
            .or_else(|| error.and_then(|_| another_arrived(talk, post)));
        // What was answered is retried no more, so that no time-out ends it any more.
        let came_in_vain = |told: &Told<'_>| {
            let within = talk.timeout().unwrap_or(SOON);
            let is_late = |arrived: Time| told.done.told.at.earliest > arrived.after(talk.trace.begin.at_most(within));
            told.done.status() == WcStatus::RETRY_EXC_ERR && arrived.is_some_and(is_late)
        };
        let without_reason = error.filter(|told| has_reason(talk, told, post) == Some(false) || came_in_vain(told));
        if error.is_some() && without_reason.is_none() || !post.posted.post.signaled {
            continue;
        }
        let in_front = (0..at).filter(|at| talk.posts[*at].posted.has_response_data());
        let is_clear = talk.is_lossless()
            || !post.posted.has_response_data() && in_front.into_iter().all(|at| talk.told_of(at).next().is_some());
        let proven = arrived.is_some() && is_clear;
        let since = arrived.unwrap_or(answer.frame.at.latest);
        let came = told.first().map(|told| told.done.told.at.earliest);
        let owed = match without_reason {
            Some(told) => talk.after(told.done.told.at.latest).map_or(Owed::NotDue, Owed::Unmet),
            None => talk.owed(since, SOON, came),
        };
        let evidence = [Evidence::from(answer.frame)];
        let evidence = evidence
            .into_iter()
            .chain(told.iter().map(|told| told.done.told.into()));
        asking.owes(owed, proven, evidence, || {
            let expected = format!("its completion within {} of {}", duration_words(SOON), answer.packet);
            (post.in_words(), expected, in_words(&told) + &after(since, came))
        });
    }
}
