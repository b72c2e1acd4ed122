//! Rules for expected responses: a response to each request that needs one and to each duplicate, and a NAK for each
//! gap.
//!
//! A response meets the rule if it acknowledges the request, refuses the request, or refuses an earlier request.
//! Other rules check the response itself. Where packets can be lost, a missing response breaks a rule only in three
//! cases:
//!
//! * The request is known to be in sequence, was sent three times, and the device responds to later packets.
//! * The response is a NAK that is sent only once, for a gap or at the end of the connection. It is missing on more
//!   connections than lost packets explain.
//! * Such a request was sent once on each of three or more connections, and none of these requests got a response.
//!
//! Source: architecture 9.7.4.1.1 (duplicates, gaps), 9.7.5.1 (acknowledgements), 9.7.5.2 (NAKs), 9.9.3.1.

use std::collections::BTreeMap;

use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Evidence, FrameSeen, TRIES, Trace, VerbsDone, duration_words};

use super::asking::{Asking, VerbsRule};
use super::credits::Receives;
use super::qp_trace::{EVENT_WAIT, QpTrace, qp_traces};
use super::requester_deadlines::after;
use super::responder_deadlines::{DutResponse, ExpectedResponse, Why, dues, met, responses};
use crate::parsed::{Parsed, RequestKind};
use crate::rule::Rule;
use crate::rules::responder::ResponseKind;
use crate::words::counted;

pub(super) static RULES: &[(Rule, VerbsRule)] = &[
    (Rule::RequestAnswered, request_answered),
    (Rule::RnrNakOwed, rnr_nak_owed),
    (Rule::AnsweredAtOnce, answered_at_once),
    (Rule::DuplicateAnswered, duplicate_answered),
    (Rule::GapAnswered, gap_answered),
];

/// Returns whether a single lost packet may explain the missing response, because the device sends that response
/// only once. Such a response is a NAK for a gap, or a NAK that ends the connection. The connection has not ended
/// if the device responds later, or if its host reports RTR or RTS.
fn may_be_told_once(qp: &QpTrace<'_>, due: &ExpectedResponse<'_>, responses: &[DutResponse]) -> bool {
    let last = due.tries.last().map_or(0, |last| last.place);
    let is_up = |done: &VerbsDone| {
        let is_it = matches!(&done.command, Command::QueryQp(of) if of.qp == qp.dialogue.handle);
        let state = match &done.answer {
            Some((_, _, Reply::Status(status), _)) => Some(status.state()),
            _ => None,
        };
        is_it && done.place > last && done.place < qp.deaf && matches!(state, Some(pb::QpState::Rtr | pb::QpState::Rts))
    };
    let mut later = qp.trace.timeline.commands_between(qp.dialogue.places).iter();
    let mut parsed = responses.iter().filter(|response| response.place > last);
    due.why == Why::Gap || !(parsed.any(|response| response.says != ResponseKind::Fatal) || later.any(is_up))
}

/// Returns whether responses to requests like this are missing on more connections than lost packets explain.
fn is_missing_always(trace: &Trace, like: &ExpectedResponse<'_>) -> bool {
    let of = label(like);
    let is_like = |due: &&ExpectedResponse<'_>| {
        due.why == like.why && due.parsed.opcode == like.parsed.opcode && label(due) == of
    };
    let (without, with) = with_and_without(trace, is_like, |due| due.is_proof);
    is_beyond_loss(without, with)
}

/// Returns whether a response is missing on more connections than lost packets explain: at least three, plus one for
/// every eight connections. `without` and `with` are the numbers of connections without and with the response. On a
/// link that loses one packet in 50, only one request in 25 gets no response.
const fn is_beyond_loss(without: usize, with: usize) -> bool {
    without >= TRIES as usize + (without + with) / 8
}

/// Returns whether a request that was sent once on each of at least three connections got no response on any of
/// them. The requests have the same PSNs, opcode and label.
fn is_never_answered(trace: &Trace, like: &ExpectedResponse<'_>) -> bool {
    let of = label(like);
    let is_like = |due: &&ExpectedResponse<'_>| {
        let alike = due.psns == like.psns && due.parsed.opcode == like.parsed.opcode;
        due.is_next && alike && label(due) == of
    };
    let (without, with) = with_and_without(trace, is_like, |_| true);
    with == 0 && without >= TRIES as usize
}

fn label<'t>(due: &ExpectedResponse<'t>) -> Option<&'t str> {
    due.tries.first().map(|frame| frame.label.as_str())
}

/// Considers only the expected responses that `is_like` selects. Returns the number of connections on which none of
/// them arrived, although one was certainly due (`is_sure`). Also returns the number of connections on which at
/// least one arrived.
fn with_and_without(
    trace: &Trace,
    is_like: impl Fn(&&ExpectedResponse<'_>) -> bool,
    is_sure: impl Fn(&ExpectedResponse<'_>) -> bool,
) -> (usize, usize) {
    let mut counts = (0, 0);
    for qp in qp_traces(trace) {
        let Some(first) = qp.first() else {
            continue;
        };
        let responses = responses(&qp, first);
        let dues = dues(&qp, &responses);
        let of_kind: Vec<&ExpectedResponse<'_>> = dues.iter().filter(&is_like).collect();
        match of_kind.iter().any(|due| met(due, &responses).is_some()) {
            true => counts.1 += 1,
            false if of_kind.iter().any(|due| is_sure(due)) => counts.0 += 1,
            false => {}
        }
    }
    counts
}

/// Returns whether a request was sent so often before the response `came` that lost packets do not explain the lack
/// of an earlier response.
fn is_asked_often(qp: &QpTrace<'_>, due: &ExpectedResponse<'_>, came: &DutResponse) -> bool {
    let since = due.tries.last().map_or(0, |last| last.place);
    let of_it = |of: u32, frame: &FrameSeen| of == due.psns.0 && (since..came.place).contains(&frame.place);
    qp.asked().filter(|(of, _, frame)| of_it(*of, frame)).count() > TRIES as usize
}

/// Checks the responses that are expected for the reason `why`.
fn owes<'t>(
    qp: &QpTrace<'t>,
    asking: &mut Asking<'_, 't>,
    why: Why,
    is_of_rule: impl Fn(&ExpectedResponse<'t>) -> bool,
) {
    // A failed request of the device itself moves the queue pair to the error state at an unknown time. After that,
    // the device does not respond.
    let (Some(first), None) = (qp.first(), qp.failed()) else {
        return;
    };
    let receives = Receives::of(qp);
    let responses = responses(qp, first);
    for due in dues(qp, &responses)
        .iter()
        .filter(|due| due.why == why && is_of_rule(due))
    {
        let Some(last) = due.tries.last() else { continue };
        let longest = EVENT_WAIT.max(qp.waited());
        // A gap or a missing receive gets its NAK at once. If that NAK was lost, a much later response belongs to
        // another request.
        let is_told = why == Why::Gap || lacks(&receives, due);
        let is_of_it = |came: &&DutResponse| {
            let is_soon = || came.at.since(last.at.latest) <= longest;
            !is_told || qp.is_lossless() || is_soon() || why == Why::Asked && is_asked_often(qp, due, came)
        };
        let came = met(due, &responses).filter(is_of_it);
        let is_shown = || {
            let is_heard = || !may_be_told_once(qp, due, &responses) || is_missing_always(qp.trace, due);
            due.is_proof && (qp.is_lossless() || is_heard()) || due.is_next && is_never_answered(qp.trace, due)
        };
        if came.is_none() && !is_shown() {
            continue;
        }
        // If the tester repeated a lost request, the response answers the last transmission before the response.
        let again = came.filter(|_| !is_told && !qp.is_lossless()).and_then(|came| {
            let before = |(of, _, frame): &(u32, Parsed<'_>, &FrameSeen)| *of == due.psns.0 && frame.place < came.place;
            qp.asked().filter(before).last()
        });
        let since = again.map_or(*last, |(_, _, frame)| frame).at.latest;
        let came = came.map(|came| came.at);
        // For a duplicate, also show the first transmission.
        let mut asked = qp.asked();
        let first = asked
            .find(|(of, _, _)| why == Why::Again && *of == due.psns.0)
            .map(|(_, _, frame)| frame);
        let evidence = first.into_iter().chain(due.tries.iter().copied()).map(Evidence::from);
        let within = if qp.is_lossless() { qp.waited() } else { longest };
        let owed = qp.owed_before(qp.deaf, (since, within), came);
        asking.owes(owed, true, evidence, || {
            let expected = match why {
                Why::Gap => "a sequence NAK",
                Why::Asked | Why::Again => "a response",
            };
            let about = due.parsed.opcode.to_string();
            let expected = format!("{expected} within {} of PSN {}", duration_words(within), due.parsed.psn);
            let seen = if came.is_some() { "a response" } else { "none" };
            (about, expected, format!("{seen}{}", after(since, came, within)))
        });
    }
}

fn request_answered<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let receives = Receives::of(qp);
    owes(qp, asking, Why::Asked, |due| !lacks(&receives, due));
}

/// Returns whether no receive was posted for the message of a request when the request was last sent.
fn lacks(receives: &Receives, due: &ExpectedResponse<'_>) -> bool {
    let is_send = matches!(RequestKind::of(due.parsed.opcode), RequestKind::Send(_));
    let sent = due.tries.last();
    sent.is_some_and(|sent| receives.lack(due.psns, is_send, sent.place))
}

fn rnr_nak_owed<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let receives = Receives::of(qp);
    owes(qp, asking, Why::Asked, |due| lacks(&receives, due));
}

/// Checks that at least one SEND or WRITE of a test is answered before its retransmission. If one or two requests
/// are answered only after it, the responses may have been late or lost. Three or more such requests break the rule.
fn answered_at_once<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let (at_once, late) = first_answers(qp);
    if at_once > 0 {
        return asking.held(format!("{at_once} answered before a retransmission"), []);
    }
    let is_enough = late.len() >= TRIES as usize;
    if is_enough && qp_traces(qp.trace).iter().all(|qp| first_answers(qp).0 == 0) {
        let evidence = late.iter().map(|frame| Evidence::from(*frame));
        asking.must(false, evidence, || {
            let expected = "an acknowledgement of at least one before its retransmission".into();
            let seen = format!(
                "{}, each acknowledged only after its retransmission",
                counted(late.len(), "request")
            );
            ("SENDs and WRITEs".into(), expected, seen)
        });
    }
}

/// Returns how many SENDs and WRITEs were answered before their retransmission. For those that were answered only
/// later, returns the first frames.
fn first_answers<'t>(qp: &QpTrace<'t>) -> (usize, Vec<&'t FrameSeen>) {
    let (Some(first), None) = (qp.first(), qp.failed()) else {
        return (0, Vec::new());
    };
    let responses = responses(qp, first);
    let dues = dues(qp, &responses);
    let is_first = |due: &&ExpectedResponse<'_>| {
        due.why == Why::Asked && due.is_next && !RequestKind::of(due.parsed.opcode).returns_data()
    };
    let mut came: BTreeMap<u32, Vec<&FrameSeen>> = BTreeMap::new();
    for (at, _, frame) in qp.asked() {
        came.entry(at).or_default().push(frame);
    }
    let came_again = |due: &ExpectedResponse<'t>| {
        let first = due.tries.first()?;
        let mut again = came.get(&due.psns.0)?.iter().copied();
        again.find(|frame| frame.place > first.place)
    };
    // After an RNR NAK, the responder drops the refused request and all later ones until the peer repeats them.
    let is_put_off = |due: &&ExpectedResponse<'t>| {
        let from = due.tries.first().map_or(usize::MAX, |first| first.place);
        let mut put_off = responses.iter().filter(|response| response.says == ResponseKind::Rnr);
        put_off.any(|response| response.place > from && response.offset <= due.psns.0)
    };
    let (mut at_once, mut late, mut answered) = (0, Vec::new(), 0);
    for due in dues.iter().filter(is_first).filter(|due| !is_put_off(due)) {
        let again = came_again(due);
        let until = again.map_or(usize::MAX, |again| again.place);
        match (met(due, &responses), again) {
            (Some(came), _) if came.place < until => at_once += 1,
            // Requests that waited together count once: a single lost response, or missing receive, may have
            // delayed them all.
            (Some(came), Some(again))
                if again.at.since(due.tries[0].at).0 >= qp.waited() && due.tries[0].place >= answered =>
            {
                late.push(due.tries[0]);
                answered = came.place;
            }
            _ => {}
        }
    }
    (at_once, late)
}

fn duplicate_answered<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    owes(qp, asking, Why::Again, |_| true);
}

fn gap_answered<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    owes(qp, asking, Why::Gap, |_| true);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lossy_link_explains_few_missing_responses_of_many() {
        assert!(
            is_beyond_loss(3, 0) && is_beyond_loss(3, 4),
            "a test with few connections"
        );
        assert!(!is_beyond_loss(2, 0));
        assert!(!is_beyond_loss(5, 40) && is_beyond_loss(9, 40));
    }
}
