//! Rule that responses to READs and atomics come in the order of their PSNs. If a response skips an earlier one,
//! only later packets show whether the earlier response was lost or comes too late.
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

/// PSNs of a request, counted from the first PSN that the device expects, and the number of its transmissions.
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
        // Only a PSN before `end` can belong to an earlier request.
        let before = if offset < end { &mut sent[..] } else { &mut [] };
        match before.iter_mut().find(|sent| sent.psns.contains(&offset)) {
            Some(sent) => sent.times += 1,
            None => {
                end = end.max(psns.end);
                sent.push(Sent { psns, times: 1 });
            }
        }
    }
    // Response with the furthest PSN so far, with its offset and frame.
    let mut furthest: Option<(u32, Parsed<'_>, &'t FrameSeen)> = None;
    for (parsed, frame) in qp.responses() {
        let (offset, says) = (parsed.psn.since(first), ResponseKind::of(&parsed));
        if !matches!(says, ResponseKind::Ack | ResponseKind::Read(_) | ResponseKind::Atomic) || offset >= HALF {
            continue;
        }
        let is_once = || sent.iter().any(|sent| sent.psns.contains(&offset) && sent.times == 1);
        if let Some((_, other, before)) = furthest.filter(|_| says != ResponseKind::Ack && is_once()) {
            let is_behind = other.psn.since(first) > offset;
            // The tester's adapter may have swapped packets whose time spans overlap.
            if is_behind && !qp.is_lossless() && !before.at.is_before(frame.at) {
                continue;
            }
            asking.must(!is_behind, [before, frame].map(Evidence::from), || {
                let expected = format!(
                    "{} PSN {} before {} PSN {}",
                    parsed.opcode, parsed.psn, other.opcode, other.psn
                );
                (String::new(), expected, "the opposite order".into())
            });
        }
        if furthest.is_none_or(|(furthest, ..)| offset > furthest) {
            furthest = Some((offset, parsed, frame));
        }
    }
}

/// Returns the PSN and time of the DUT's RNR NAKs. An RNR NAK refuses the request with its PSN. It also refuses all
/// later requests that were sent before the NAK. The DUT executes none of these requests.
///
/// A NAK is returned only if it is unambiguous: no other NAK has its PSN, and the request had been transmitted
/// exactly once before it. Transmissions that an earlier NAK refused do not count.
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

/// Returns whether one of the RNR NAKs refused this transmission.
fn is_among(put_off: &[(u32, Span)], offset: u32, frame: &FrameSeen) -> bool {
    let is_it = |(from, at): &(u32, Span)| *from <= offset && frame.at.is_before(*at);
    put_off.iter().any(is_it)
}
