//! Rules of the asynchronous events that tell of a responder's error.
//!
//! Source: architecture 11.6.3.2 (affiliated asynchronous errors).

use verbatim_record::verbs::Event;
use verbatim_record::{Evidence, FrameSeen, Side};
use verbatim_wire::NakCode;
use verbatim_wire::packet::Syndrome;
use verbatim_wire::verbs::EventKind;

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
