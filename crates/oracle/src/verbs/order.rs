//! Responses to READs and atomics come in the order of their PSNs: what the packets alone cannot tell from a lost one, hindsight
//! can.
//!
//! Source: architecture 9.5 (ordering), C9-27.

use verbatim_record::{Evidence, FrameSeen, Span};
use verbatim_wire::packet::Psn;

use super::asking::{Asking, VerbsRule};
use super::qp_trace::QpTrace;
use crate::parsed::Parsed;
use crate::rc::HALF;
use crate::rule::Rule;
use crate::rules::responder::ResponseKind;

pub(super) static RULES: &[(Rule, VerbsRule)] = &[(Rule::NeverBack, never_back)];

/// The PSNs that a READ or atomic takes, counted from the first that the device expects, where it was sent, and how often.
struct Sent {
    psns: core::ops::Range<u32>,
    times: u32,
}

fn never_back<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let Some(first) = qp.first() else {
        return;
    };
    let (mut sent, mut end): (Vec<Sent>, u32) = (Vec::new(), 0);
    let put_off = put_off(qp, first);
    for (offset, parsed, frame) in qp.asked() {
        if is_among(&put_off, offset, frame) {
            continue;
        }
        let psns = offset..offset.saturating_add(qp.psns(&parsed));
        // Most lie behind all others.
        let before = if offset < end { &mut sent[..] } else { &mut [] };
        match before.iter_mut().find(|sent| sent.psns.contains(&offset)) {
            Some(sent) => sent.times += 1,
            None => {
                end = end.max(psns.end);
                sent.push(Sent { psns, times: 1 });
            }
        }
    }
    // What was answered furthest, and by what.
    let mut furthest: Option<(u32, Parsed<'_>, &'t FrameSeen)> = None;
    for (parsed, frame) in qp.responses() {
        let (offset, says) = (parsed.psn.since(first), ResponseKind::of(&parsed));
        if !matches!(says, ResponseKind::Ack | ResponseKind::Read(_) | ResponseKind::Atomic) || offset >= HALF {
            continue;
        }
        let is_once = || sent.iter().any(|sent| sent.psns.contains(&offset) && sent.times == 1);
        if let Some((_, other, before)) = furthest.filter(|_| says != ResponseKind::Ack && is_once()) {
            let is_behind = other.psn.since(first) > offset;
            // The tester's adapter may have swapped those whose spans overlap.
            if is_behind && !qp.is_lossless() && !before.at.is_before(frame.at) {
                continue;
            }
            asking.must(!is_behind, [before, frame].map(Evidence::from), || {
                let expected = format!(
                    "{} PSN {} before {} PSN {}",
                    parsed.opcode, parsed.psn, other.opcode, other.psn
                );
                (String::new(), expected, "it came behind it".into())
            });
        }
        if furthest.is_none_or(|(furthest, ..)| offset > furthest) {
            furthest = Some((offset, parsed, frame));
        }
    }
}

/// From which request on the DUT put everything off by an RNR NAK, and when: what had been sent by then is not done. Those alone that leave no
/// doubt of which sending they answer: one NAK of a request that was sent once by then, but for what an earlier one put off.
fn put_off(qp: &QpTrace<'_>, first: Psn) -> Vec<(u32, Span)> {
    let naks = qp
        .responses()
        .filter(|(parsed, _)| ResponseKind::of(parsed) == ResponseKind::Rnr);
    let naks: Vec<_> = naks
        .map(|(parsed, frame)| (parsed.psn.since(first), frame.at))
        .collect();
    let mut plain: Vec<(u32, Span)> = Vec::new();
    for &(offset, at) in &naks {
        let counts = |&(asked, _, frame): &(u32, Parsed<'_>, &FrameSeen)| {
            asked == offset && frame.at.is_before(at) && !is_among(&plain, asked, frame)
        };
        let is_alone = naks.iter().filter(|(other, _)| *other == offset).count() == 1;
        if is_alone && qp.asked().filter(counts).count() == 1 {
            plain.push((offset, at));
        }
    }
    plain
}

/// Whether a request was put off.
fn is_among(put_off: &[(u32, Span)], offset: u32, frame: &FrameSeen) -> bool {
    let is_it = |(from, at): &(u32, Span)| *from <= offset && frame.at.is_before(*at);
    put_off.iter().any(is_it)
}
