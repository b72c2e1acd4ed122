//! Rules of the asynchronous events: what a queue pair tells of itself, and of the error that ended it.
//!
//! Source: architecture 11.6.3.1 (affiliated asynchronous events), 11.6.3.2 (affiliated asynchronous errors).

use verbatim_record::verbs::{Command, Event, pb};
use verbatim_record::{Evidence, FrameSeen, Side, VerbsDone};
use verbatim_wire::NakCode;
use verbatim_wire::packet::Syndrome;
use verbatim_wire::verbs::EventKind;

use super::states::{Life, is_done};
use super::steps::state_in_words;
use super::talk::Talk;
use super::{Asking, VerbsRule};
use crate::oracle::rule::Rule;
use crate::oracle::rules::responder::Says;
use crate::oracle::rules::rule;

pub(super) static RULES: &[(Rule, VerbsRule)] = &[(
    rule!(
        "event-as-nak",
        "11.6.3 asynchronous events",
        "A queue pair that has sent a NAK reports the error that the NAK names: access after remote access error, request after \
         invalid request."
    ),
    event_as_nak,
)];

fn event_as_nak<'t>(talk: &Talk<'t>, asking: &mut Asking<'_, 't>) {
    let fatal = talk.responses().filter(|(heard, _)| Says::of(heard) == Says::Fatal);
    let naks: Vec<(Option<Syndrome>, &FrameSeen)> = fatal.map(|(heard, frame)| (heard.syndrome(), frame)).collect();
    let [(Some(syndrome), nak)] = naks.as_slice() else {
        return;
    };
    for told in talk.trace.timeline.told_between(talk.dialogue.places) {
        let Event::AsyncEvent(event) = &told.event else {
            continue;
        };
        if told.side != Side::Dut || event.qp != talk.dialogue.handle {
            continue;
        }
        let code = match event.name.as_str() {
            name if name == EventKind::QP_ACCESS_ERR.to_string() => NakCode::REMOTE_ACCESS,
            name if name == EventKind::QP_REQ_ERR.to_string() => NakCode::INVALID_REQUEST,
            _ => continue,
        };
        asking.must(
            *syndrome == Syndrome::nak(code),
            [Evidence::from(*nak), told.into()],
            || {
                let expected = format!("an event of the error that {syndrome} names");
                (String::new(), expected, event.name.clone())
            },
        );
    }
}

/// What a queue pair tells of itself has happened.
pub(super) fn event_reason<'t>(life: &Life<'t>, asking: &mut Asking<'_, 't>) {
    // A host may tell late of an event. So where the queue pair began but once, it is asked whether and how often, not when.
    let late = !life.is_simulated();
    let begins = |done: &&&VerbsDone| is_done(done) && is_step_to(done, pb::QpState::Rtr);
    if late && life.commands.iter().filter(begins).count() > 1 {
        return;
    }
    let mut drained = None;
    let mut spoken_to = None;
    for told in &life.told {
        let Event::AsyncEvent(event) = &told.event else {
            continue;
        };
        let is = |kind: EventKind| event.name == kind.to_string();
        let before = |done: &&&VerbsDone| done.place < told.place;
        let (state, since) = by_steps(life, told.place);
        let up = life.commands.iter().filter(begins).rfind(before).map(|done| done.place);
        let came = up.is_some_and(|up| life.has_traffic(up, told.place));
        let (is_so, expected) = if is(EventKind::SQ_DRAINED) {
            let asked = |done: &&&VerbsDone| is_step_to(done, pb::QpState::Sqd);
            let is_first = late || drained.replace(since) != Some(since);
            let in_sqd =
                state == pb::QpState::Sqd || late && life.commands.iter().filter(asked).any(|done| before(&done));
            (in_sqd && is_first, "in SQD alone, and once")
        } else if is(EventKind::COMM_EST) {
            let is_first = spoken_to.replace(up) != Some(up);
            let in_rtr = (state == pb::QpState::Rtr || late) && came;
            (in_rtr && is_first, "once, when something comes in RTR")
        } else if is(EventKind::QP_ACCESS_ERR) || is(EventKind::QP_REQ_ERR) {
            (came, "after something has come")
        } else {
            continue;
        };
        asking.must(is_so, [Evidence::from(*told)], || {
            let about = format!("{}: when it is reported", event.name);
            (about, expected.into(), format!("in {}", state_in_words(state)))
        });
    }
}

fn is_step_to(done: &VerbsDone, state: pb::QpState) -> bool {
    matches!(&done.command, Command::ModifyQp(modify) if modify.state() == state)
}

/// The state that the steps have made by a place, and where it began: by what was asked by then, since what comes of a step may be
/// told before its answer.
fn by_steps(life: &Life<'_>, until: usize) -> (pb::QpState, usize) {
    let steps = life.commands.iter().filter(|done| done.place < until && is_done(done));
    let last = steps.filter_map(|done| match &done.command {
        Command::ModifyQp(modify) => Some((modify.state(), done.place)),
        _ => None,
    });
    // SQD to SQD is one stay.
    last.fold((pb::QpState::Reset, life.begin), |(state, since), (to, place)| {
        if to == state { (state, since) } else { (to, place) }
    })
}
