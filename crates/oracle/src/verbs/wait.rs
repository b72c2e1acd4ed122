//! Rules for required waiting: for the interval after an RNR NAK, and for RTS after SQD.
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

/// A packet that arrives within this time after a NAK may have left the device before the NAK came, on a short path.
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
        // Check only a retransmission whose sole possible cause is the RNR NAK. With the timer on, a time-out may
        // have caused the retransmission before the NAK arrived. The rule `rnr-interval` covers that case.
        let began = oldest_open(qp, post).posted.command.asked;
        let lasted = qp.trace.begin.at_most(request.seen.frame.at.since(began).1);
        let is_early = qp.habits.of_retry(false).is_some();
        if qp.timeout().is_some_and(|once| lasted >= once || is_early) {
            continue;
        }
        // Check only if each retransmission had an RNR NAK of its own, and no other possible cause.
        let is_each_used =
            times > 1 && naks().count() == times - 1 && causes(qp, post, place).all() as usize == times - 1;
        let Some(last) = naks().next_back().filter(|_| is_each_used) else {
            continue;
        };
        // The device continues a running series of packets until its host has processed the NAK. A packet of such a
        // series proves nothing.
        if !qp.is_lossless() && is_begun_before(&sent[..=at], last.place()) {
            continue;
        }
        must_wait(qp, asking, (last, request.seen.frame), post.in_words());
    }
}

/// Returns whether the last packet belongs to a series of successive PSNs that began before `place`. Each element
/// holds the PSN and the place of a packet.
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

/// Checks that at least the NAK's interval passes between the RNR NAK and the retransmission, as seen by the
/// tester.
fn must_wait<'t>(
    qp: &QpTrace<'t>,
    asking: &mut Asking<'_, 't>,
    (nak, again): (&PeerResponse<'t>, &'t verbatim_record::FrameSeen),
    about: String,
) {
    let least = interval(nak);
    let (shortest, longest) = again.at.since(nak.frame.at);
    let waited = qp.trace.begin.at_most(longest);
    // The device may have sent the packet before the NAK arrived.
    if !qp.is_lossless() && waited < CROSSING {
        return;
    }
    // A wait that is long enough only because of the path proves nothing.
    let is_open = |path| waited >= least && shortest.saturating_sub(path) < least;
    if qp.path().is_some_and(is_open) {
        return;
    }
    let evidence = [nak.frame, again].map(Evidence::from);
    if waited >= least {
        return asking.at_least((waited, least), evidence);
    }
    asking.must(false, evidence, || {
        let expected = format!(
            "a retransmission {} after {}, or later",
            duration_words(least),
            nak.packet
        );
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

/// Checks that requests posted during a stay in SQD are not sent before it ends. `begins` and `ends` are places.
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
    fn separates_running_from_new_transmission() {
        let sent = |all: &[(u32, usize)]| all.iter().map(|(of, place)| (Some(*of), *place)).collect::<Vec<_>>();
        // The NAK is at place 5. In the first case, the last packet continues a series from before the NAK. In the
        // other cases, the last packet repeats a packet, continues a series from after the NAK, or stands alone.
        assert!(is_begun_before(&sent(&[(0, 1), (1, 2), (0, 4), (1, 6), (2, 7)]), 5));
        assert!(!is_begun_before(&sent(&[(0, 1), (1, 2), (1, 6)]), 5));
        assert!(!is_begun_before(&sent(&[(0, 1), (1, 2), (0, 6), (1, 7)]), 5));
        assert!(!is_begun_before(&sent(&[(1, 6)]), 5));
    }
}
