//! Rules for surplus responses: each request gets one response, and an atomic that the connection cannot have
//! executed gets none.
//!
//! Source: architecture 9.7.5.1 (acknowledgements), 9.7.5.2.8 (RNR NAK). An ACK may be repeated, since it grants
//! credits. On hardware a network may repeat any frame, so that `answered-once` does not apply.

use std::collections::BTreeMap;

use verbatim_record::{Evidence, FrameSeen};

use super::asking::{Asking, VerbsRule};
use super::qp_trace::QpTrace;
use crate::parsed::{Parsed, RequestKind};
use crate::rc::HALF;
use crate::rule::Rule;
use crate::rules::responder::ResponseKind;

pub(super) static RULES: &[(Rule, VerbsRule)] = &[
    (Rule::AnsweredOnce, answered_once),
    (Rule::AtomicUnknown, atomic_unknown),
];

/// Kind of response that a responder sends at most once for each transmission of the request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    Read,
    Atomic,
    Rnr,
}

/// Responses beyond the requested number, by kind and PSN offset.
type Came<'t> = BTreeMap<(Kind, u32), Vec<&'t FrameSeen>>;

fn too_many<'t>(qp: &QpTrace<'t>) -> Came<'t> {
    let Some(first) = qp.first() else {
        return Came::new();
    };
    let asked: Vec<(u32, u32, RequestKind, usize)> = qp
        .asked_anywhere()
        .map(|(offset, parsed, frame)| (offset, qp.psns(&parsed), RequestKind::of(parsed.opcode), frame.place))
        .collect();
    let (mut times, mut came) = (BTreeMap::new(), Came::new());
    for (parsed, frame) in qp.responses() {
        let kind = match ResponseKind::of(&parsed) {
            ResponseKind::Read(_) => Kind::Read,
            ResponseKind::Atomic => Kind::Atomic,
            ResponseKind::Rnr => Kind::Rnr,
            _ => continue,
        };
        let offset = parsed.psn.since(first);
        let asks_for_it = |(of, psns, asks, place): &&(u32, u32, RequestKind, usize)| {
            // Distance from the request's PSN to the response's PSN, modulo 2^24. The request may lie before the first
            // PSN.
            let into = offset.wrapping_sub(*of) & 0xFF_FFFF;
            *place < frame.place
                && match kind {
                    Kind::Read => *asks == RequestKind::Read && into < *psns,
                    Kind::Atomic => *asks == RequestKind::Atomic && into == 0,
                    // A request with a later PSN may also cause the RNR NAK.
                    Kind::Rnr => into == 0 || into > HALF,
                }
        };
        let times = times.entry((kind, offset)).or_insert(0);
        *times += 1;
        let more = came.entry((kind, offset)).or_default();
        if *times > asked.iter().filter(asks_for_it).count() {
            more.push(frame);
        }
    }
    came
}

fn answered_once<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    if !qp.is_lossless() {
        return;
    }
    for ((kind, _), more) in too_many(qp) {
        asking.must(more.is_empty(), more.iter().map(|frame| Evidence::from(*frame)), || {
            let seen = more
                .first()
                .map_or(String::new(), |one| format!("another in frame {}", one.number));
            (format!("{kind:?}"), "one response for each request".into(), seen)
        });
    }
}

fn atomic_unknown<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let Some(first) = qp.first() else { return };
    for (offset, parsed, frame) in qp.asked_anywhere() {
        if RequestKind::of(parsed.opcode) != RequestKind::Atomic || offset < HALF {
            continue;
        }
        let is_it = |(of, answer): &(Parsed<'_>, &FrameSeen)| {
            ResponseKind::of(of) == ResponseKind::Atomic && of.psn.since(first) == offset && answer.place > frame.place
        };
        let answer = qp.responses().find(is_it).map(|(_, answer)| answer);
        let evidence = [Some(frame), answer].into_iter().flatten().map(Evidence::from);
        asking.must(answer.is_none(), evidence, || {
            let about = format!("PSN {}, and the first is {first}", parsed.psn);
            let seen = answer.map_or(String::new(), |one| format!("frame {}", one.number));
            (about, "no ATOMIC ACKNOWLEDGE".into(), seen)
        });
    }
}
