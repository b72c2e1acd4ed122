//! Rules for a NAK that ends a connection: the responder sends no further response, and its queue pair is in the
//! error state.
//!
//! Source: architecture 9.9.3 (responder errors), 10.3.1 (queue pair states). The rules depend on a NAK that was
//! seen, so that they hold on every link.

use core::time::Duration;

use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Evidence, FrameSeen, VerbsDone};

use super::asking::{Asking, VerbsRule};
use super::qp_trace::QpTrace;
use crate::rule::Rule;
use crate::rules::responder::ResponseKind;

pub(super) static RULES: &[(Rule, VerbsRule)] = &[
    (Rule::RefusedSilent, refused_silent),
    (Rule::RefusedState, refused_state),
];

/// Longest delay before a host reports the new state.
const MOMENT: Duration = Duration::from_millis(150);

/// Returns the first NAK that ends the connection.
fn fatal<'t>(qp: &QpTrace<'t>) -> Option<&'t FrameSeen> {
    let mut responses = qp.responses();
    responses
        .find(|(parsed, _)| ResponseKind::of(parsed) == ResponseKind::Fatal)
        .map(|(_, frame)| frame)
}

fn refused_silent<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let Some(nak) = fatal(qp) else { return };
    // A network may repeat a frame, or swap two frames so that their order is unknown.
    let is_later = |frame: &FrameSeen| {
        let is_behind = qp.is_lossless() || nak.at.is_before(frame.at);
        frame.place > nak.place && is_behind && (qp.is_lossless() || frame.bytes != nak.bytes)
    };
    let more = qp.responses().map(|(_, frame)| frame).find(|frame| is_later(frame));
    let evidence = [Some(nak), more].into_iter().flatten().map(Evidence::from);
    asking.must(more.is_none(), evidence, || {
        let seen = more.map(|more| format!("frame {}", more.number));
        (
            String::new(),
            "no response after the NAK".into(),
            seen.unwrap_or_default(),
        )
    });
}

fn refused_state<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let Some(nak) = fatal(qp) else { return };
    let state = |done: &'t VerbsDone| match (&done.command, &done.answer) {
        (Command::QueryQp(of), Some((_, _, Reply::Status(status), _))) if of.qp == qp.dialogue.handle => {
            Some((done, status.state()))
        }
        _ => None,
    };
    let of_it = qp.trace.timeline.commands_between(qp.dialogue.places).iter();
    // After a later transition, the NAK no longer determines the state.
    let is_moved = |done: &VerbsDone| matches!(&done.command, Command::ModifyQp(of) if of.qp == qp.dialogue.handle);
    let after = of_it
        .skip_while(|done| done.place < nak.place)
        .take_while(|done| !is_moved(done));
    let Some((done, state)) = after.filter_map(state).last() else {
        return;
    };
    if state != pb::QpState::Err && done.asked.earliest < nak.at.latest.after(MOMENT) {
        return;
    }
    asking.must(state == pb::QpState::Err, [nak.into(), Evidence::from(done)], || {
        let seen = state.as_str_name().replace("QP_STATE_", "");
        (String::new(), "ERR".into(), seen)
    });
}
