//! Rules of what must wait: after an RNR NAK for its interval, in SQD for RTS.
//!
//! Source: architecture 9.7.5.2.8 (RNR NAK), C9-130 (its interval), 10.3.1 (SQD).

use core::time::Duration;

use verbatim_record::verbs::{Command, pb};
use verbatim_record::{Evidence, Side, duration_words};

use super::asking::{Asking, VerbsRule};
use super::qp_trace::{PeerResponse, QpTrace};
use super::retransmission::interval;
use super::retry::{causes, oldest_open};
use crate::rc::is_taken;
use crate::rule::Rule;
use crate::rules::responder::ResponseKind;

pub(super) static RULES: &[(Rule, VerbsRule)] = &[(Rule::RnrWait, rnr_wait), (Rule::Drained, drained)];

/// Longer than what left before the NAK came takes to cross it on a short path.
const CROSSING: Duration = Duration::from_micros(100);

fn rnr_wait<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let sent: Vec<_> = qp.requests.iter().map(|sent| (sent.offset, sent.seen.place)).collect();
    for (at, request) in qp.requests.iter().enumerate() {
        let Some((offset, post)) = request.offset.and_then(|of| Some((of, &qp.posts[qp.post_of(of)?]))) else {
            continue;
        };
        let place = request.seen.place;
        let times = qp.transmissions(offset, place + 1).len();
        let naks = || {
            let before = qp.answers.iter().filter(move |answer| answer.place() < place);
            before.filter(move |answer| answer.says == ResponseKind::Rnr && answer.offset == Some(offset))
        };
        // With the timer on it may have left before the NAK arrived, which `rnr-interval` judges: here only what the RNR NAK alone can have
        // brought about.
        let began = oldest_open(qp, post).posted.command.asked;
        let lasted = qp.trace.begin.at_most(request.seen.frame.at.since(began).1);
        let is_early = qp.habits.of_retry(false).is_some();
        if qp.timeout().is_some_and(|once| lasted >= once || is_early) {
            continue;
        }
        // Each transmission but the first has one reason, the latest of which is the last RNR NAK.
        let is_each_used =
            times > 1 && naks().count() == times - 1 && causes(qp, post, place).all() as usize == times - 1;
        let Some(last) = naks().next_back().filter(|_| is_each_used) else {
            continue;
        };
        // What was being sent when the NAK came goes on, as long as a host takes to look at the NAK.
        if !qp.is_lossless() && is_begun_before(&sent[..=at], last.place()) {
            continue;
        }
        must_wait(qp, asking, (last, request.seen.frame), post.in_words());
    }
}

/// Whether the last of these packets, each with its PSN and its place, follows without a gap on one that came before a place.
fn is_begun_before(sent: &[(Option<u32>, usize)], place: usize) -> bool {
    for pair in sent.windows(2).rev() {
        let [(before, came), (next, _)] = pair else {
            return false;
        };
        match (before, next) {
            (Some(before), Some(next)) if before + 1 == *next => {}
            _ => return false,
        }
        if *came < place {
            return true;
        }
    }
    false
}

/// The time between the RNR NAK, when it left here, and what comes again, when it came in here, is the interval or more.
fn must_wait<'t>(
    qp: &QpTrace<'t>,
    asking: &mut Asking<'_, 't>,
    (nak, again): (&PeerResponse<'t>, &'t verbatim_record::FrameSeen),
    about: String,
) {
    let least = interval(nak);
    let (shortest, longest) = again.at.since(nak.frame.at);
    let waited = qp.trace.begin.at_most(longest);
    // It may have been on its way, and others of it swapped, so that it was counted as the next.
    if !qp.is_lossless() && waited < CROSSING {
        return;
    }
    // What the way alone may have taken is no proof that anybody waited.
    let is_open = |path| waited >= least && shortest.saturating_sub(path) < least;
    if qp.path().is_some_and(is_open) {
        return;
    }
    let evidence = [nak.frame, again].map(Evidence::from);
    if waited >= least {
        return asking.at_least((waited, least), evidence);
    }
    asking.must(false, evidence, || {
        let expected = format!("again {} after {}, or later", duration_words(least), nak.packet);
        (about, expected, format!("{} after it at most", duration_words(waited)))
    });
}

fn drained<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let within = qp.trace.timeline.commands_between(qp.dialogue.places).iter();
    let steps = within.filter(|done| {
        let is_its = matches!(&done.command, Command::ModifyQp(modify) if modify.qp == qp.dialogue.handle);
        done.side == Side::Dut && is_its && is_taken(done)
    });
    let mut drains = None;
    for step in steps {
        let Command::ModifyQp(modify) = &step.command else {
            continue;
        };
        if let Some(begins) = drains.filter(|_| modify.state() != pb::QpState::Sqd) {
            waits(qp, asking, (begins, step.place));
        }
        let is_done = step.answer.as_ref().map(|(.., place)| *place);
        drains = drains.or(is_done).filter(|_| modify.state() == pb::QpState::Sqd);
    }
    if let Some(begins) = drains {
        waits(qp, asking, (begins, qp.dialogue.places.1));
    }
}

/// What was posted between these places came after them.
fn waits<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>, (begins, ends): (usize, usize)) {
    for post in qp
        .posts
        .iter()
        .filter(|post| post.place() > begins && post.place() < ends)
    {
        let early = qp
            .requests
            .iter()
            .find(|sent| sent.offset.is_some_and(|offset| post.has(offset)) && sent.seen.frame.place < ends);
        let evidence = [Evidence::from(post.posted.command)].into_iter();
        asking.must(
            early.is_none(),
            evidence.chain(early.map(|sent| sent.seen.frame.into())),
            || {
                let seen = early.map(|sent| sent.seen.packet.to_string()).unwrap_or_default();
                (post.in_words(), "no packet in SQD".into(), seen)
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::is_begun_before;

    #[test]
    fn what_was_being_sent_when_the_nak_left_goes_on_and_what_begins_anew_does_not() {
        let sent = |all: &[(u32, usize)]| all.iter().map(|(of, place)| (Some(*of), *place)).collect::<Vec<_>>();
        // The NAK is at 5: a round that began before it, the same packet alone, a round that began behind it.
        assert!(is_begun_before(&sent(&[(0, 1), (1, 2), (0, 4), (1, 6), (2, 7)]), 5));
        assert!(!is_begun_before(&sent(&[(0, 1), (1, 2), (1, 6)]), 5));
        assert!(!is_begun_before(&sent(&[(0, 1), (1, 2), (0, 6), (1, 7)]), 5));
        assert!(!is_begun_before(&sent(&[(1, 6)]), 5));
    }
}
