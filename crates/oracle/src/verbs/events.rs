//! Rules for asynchronous events: each event has a cause, and an error event fits the NAK that ended the
//! connection.
//!
//! Source: architecture 11.6.3.1 (affiliated asynchronous events), 11.6.3.2 (affiliated asynchronous errors).

use std::collections::BTreeMap;

use verbatim_record::verbs::{Command, Event, pb};
use verbatim_record::{Evidence, FrameSeen, Side, VerbsDone};
use verbatim_wire::NakCode;
use verbatim_wire::packet::Syndrome;
use verbatim_wire::verbs::EventKind;

use super::asking::{Asking, VerbsRule};
use super::qp_history::{QpHistory, is_done};
use super::qp_trace::{Completion, PeerResponse, QpTrace, WorkRequest};
use super::requester_deadlines::is_disturbed;
use super::steps::state_in_words;
use crate::rule::Rule;
use crate::rules::responder::ResponseKind;

pub(super) static RULES: &[(Rule, VerbsRule)] = &[
    (Rule::EventAsNak, event_as_nak),
    (Rule::DrainedWhenDone, drained_when_done),
];

fn drained_when_done<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let within = qp.trace.timeline.commands_between(qp.dialogue.places).iter();
    let of_it = |done: &&VerbsDone| match &done.command {
        Command::ModifyQp(modify) => done.side == Side::Dut && modify.qp == qp.dialogue.handle && is_done(done),
        _ => false,
    };
    let mut last = None;
    let mut stays = within.filter(of_it).filter(|done| {
        let is_sqd = is_step_to(done, pb::QpState::Sqd);
        last.replace(is_sqd) != Some(true) && is_sqd
    });
    let events = qp.trace.timeline.told_between(qp.dialogue.places).iter();
    let drained = events.filter(|happened| match &happened.event {
        Event::AsyncEvent(event) => {
            let is_it = event.name == EventKind::SQ_DRAINED.to_string();
            happened.side == Side::Dut && event.qp == qp.dialogue.handle && is_it
        }
        Event::Completion(_) => false,
    });
    for happened in drained {
        // Each stay in SQD causes at most one event, and the host may report it late. The n-th event therefore
        // belongs to the n-th stay or to a later stay.
        let Some(stay) = stays.next() else { return };
        // When a request fails, all later requests are flushed, so that no request is left to drain. On hardware
        // the host may report the failure later than the event.
        let has_failed =
            |failed: &Completion<'_>| !qp.is_lossless() || failed.done.event.at.earliest <= happened.at.latest;
        let is_over = qp.failed().is_some_and(has_failed) || is_ended(qp, (stay.place, happened.place));
        if is_over || is_disturbed(qp, happened.place) {
            continue;
        }
        let sent = |post: &WorkRequest<'_>| {
            let mut before = qp.requests.iter().filter(|sent| sent.seen.place < stay.place);
            before.find(|sent| sent.offset.is_some_and(|offset| post.has(offset)))
        };
        let is_open = |at: &usize| {
            let may_end =
                |answer: &PeerResponse<'_>| may_end(&qp.posts[*at], answer) && answer.place() < happened.place;
            !qp.answers.iter().any(may_end) && !qp.completions_of(*at).any(|of_it| of_it.place() < happened.place)
        };
        let mut posts = 0..qp.posts.len();
        let open = posts.find_map(|at| sent(&qp.posts[at]).filter(|_| is_open(&at)).map(|sent| (at, sent)));
        let shown = open.map(|(_, sent)| Evidence::from(sent.seen.frame));
        asking.must(open.is_none(), shown.into_iter().chain([happened.into()]), || {
            let about = open.map_or_else(String::new, |(at, _)| qp.posts[at].in_words());
            (
                about,
                "IBV_EVENT_SQ_DRAINED after its response".into(),
                "the event before its response".into(),
            )
        });
    }
}

/// Returns whether a command between two places moves the queue pair to ERR or RESET. No request is outstanding in
/// these states.
fn is_ended(qp: &QpTrace<'_>, places: (usize, usize)) -> bool {
    let mut within = qp.trace.timeline.commands_between(places).iter();
    within.any(|done| match &done.command {
        Command::ModifyQp(modify) => {
            let is_its = done.side == Side::Dut && modify.qp == qp.dialogue.handle;
            is_its && matches!(modify.state(), pb::QpState::Err | pb::QpState::Reset)
        }
        _ => false,
    })
}

/// Returns whether a response may complete a request, possibly as the last of several responses.
fn may_end(post: &WorkRequest<'_>, answer: &PeerResponse<'_>) -> bool {
    if post.posted.has_response_data() {
        answer.says != ResponseKind::Ack && answer.offset.is_some_and(|offset| offset + 1 == post.end)
    } else {
        answer.end().is_some_and(|end| end >= post.end)
    }
}

fn event_as_nak<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let fatal = qp
        .responses()
        .filter(|(parsed, _)| ResponseKind::of(parsed) == ResponseKind::Fatal);
    let naks: Vec<(Option<Syndrome>, &FrameSeen)> = fatal.map(|(parsed, frame)| (parsed.syndrome(), frame)).collect();
    let [(Some(syndrome), nak)] = naks.as_slice() else {
        return;
    };
    for happened in qp.trace.timeline.told_between(qp.dialogue.places) {
        let Event::AsyncEvent(event) = &happened.event else {
            continue;
        };
        if happened.side != Side::Dut || event.qp != qp.dialogue.handle {
            continue;
        }
        let code = match event.name.as_str() {
            name if name == EventKind::QP_ACCESS_ERR.to_string() => NakCode::REMOTE_ACCESS,
            name if name == EventKind::QP_REQ_ERR.to_string() => NakCode::INVALID_REQUEST,
            _ => continue,
        };
        asking.must(
            *syndrome == Syndrome::nak(code),
            [Evidence::from(*nak), happened.into()],
            || {
                let expected = format!("the event for {syndrome}");
                (String::new(), expected, event.name.clone())
            },
        );
    }
}

/// Checks that each event of a queue pair has a cause, and occurs no more often than the cause. The queue pair's
/// state at the time of the report does not matter, because a host may report an event late.
pub(super) fn event_reason<'t>(history: &QpHistory<'t>, asking: &mut Asking<'_, 't>) {
    let (mut drained, mut spoken_to) = (0, 0);
    let mut failed = BTreeMap::new();
    for happened in &history.events {
        let Event::AsyncEvent(event) = &happened.event else {
            continue;
        };
        let is = |kind: EventKind| event.name == kind.to_string();
        let (is_so, expected) = if is(EventKind::SQ_DRAINED) {
            drained += 1;
            (
                drained <= stays(history, happened.place, pb::QpState::Sqd),
                "one event for each stay in SQD",
            )
        } else if is(EventKind::COMM_EST) {
            spoken_to += 1;
            (
                spoken_to <= with_traffic(history, happened.place, |_| true),
                "one event, after a packet arrived in RTR",
            )
        } else if is(EventKind::QP_ACCESS_ERR) || is(EventKind::QP_REQ_ERR) {
            let of_it = failed.entry(event.name.as_str()).or_insert(0);
            *of_it += 1;
            // The error ends the connection, so that each connection has at most one such event.
            let connections = with_traffic(history, happened.place, |to| to == pb::QpState::Rtr);
            (
                *of_it <= connections,
                "one event for each connection, after a packet arrived",
            )
        } else {
            continue;
        };
        asking.must(is_so, [Evidence::from(*happened)], || {
            let about = format!("{}: when it is reported", event.name);
            let (state, _) = steps(history, happened.place).last().unzip();
            let state = state_in_words(state.unwrap_or(pb::QpState::Reset));
            (about, expected.into(), format!("another event in {state}"))
        });
    }
}

/// Returns the accepted ModifyQp commands that were sent before the place `until` in the record. The reply to a
/// command may come after `until`, because an event that the command causes may be reported before the reply.
fn steps<'l, 't>(
    history: &'l QpHistory<'t>,
    until: usize,
) -> impl Iterator<Item = (pb::QpState, &'t VerbsDone)> + use<'l, 't> {
    let before = history
        .commands
        .iter()
        .filter(move |done| done.place < until && is_done(done));
    before.filter_map(|done| match &done.command {
        Command::ModifyQp(modify) => Some((modify.state(), *done)),
        _ => None,
    })
}

/// Returns how often the queue pair entered a state before a place. A step to the same state does not count.
fn stays(history: &QpHistory<'_>, until: usize, state: pb::QpState) -> usize {
    let mut last = pb::QpState::Reset;
    let comes = |(to, _)| core::mem::replace(&mut last, to) != state && to == state;
    steps(history, until).map(comes).filter(|comes| *comes).count()
}

/// Counts the connections that began before the place `until` and had traffic. A connection's traffic counts from
/// its step to RTR up to the next step for which `ends` is true.
fn with_traffic(history: &QpHistory<'_>, until: usize, ends: impl Fn(pb::QpState) -> bool) -> usize {
    let steps: Vec<_> = steps(history, until).collect();
    let ups = (0..steps.len()).filter(|at| steps[*at].0 == pb::QpState::Rtr);
    let came = ups.filter(|at| {
        // The traffic counts up to the reply to the step that ends it.
        let next = steps[at + 1..].iter().find(|(to, _)| ends(*to));
        let left = next
            .and_then(|(_, done)| done.answer.as_ref())
            .map_or(until, |(.., place)| *place);
        history.has_traffic(steps[*at].1.place, left)
    });
    came.count()
}

fn is_step_to(done: &VerbsDone, state: pb::QpState) -> bool {
    matches!(&done.command, Command::ModifyQp(modify) if modify.state() == state)
}
