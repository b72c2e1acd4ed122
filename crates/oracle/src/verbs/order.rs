//! Responses to READs and atomics come in the order of their PSNs: what the packets alone cannot tell from a lost one, hindsight
//! can.
//!
//! Source: architecture 9.5 (ordering), C9-27.

use verbatim_record::{Evidence, FrameSeen, Span};
use verbatim_wire::packet::Psn;

use super::asking::{Asking, VerbsRule};
use super::talk::Talk;
use crate::heard::Heard;
use crate::rc::HALF;
use crate::rule::Rule;
use crate::rules::responder::Says;

pub(super) static RULES: &[(Rule, VerbsRule)] = &[(Rule::NeverBack, never_back)];

/// The PSNs that a READ or atomic takes, counted from the first that the device expects, where it was sent, and how often.
struct Sent {
    psns: core::ops::Range<u32>,
    times: u32,
}

fn never_back<'t>(talk: &Talk<'t>, asking: &mut Asking<'_, 't>) {
    let Some(first) = talk.first() else {
        return;
    };
    let (mut sent, mut end): (Vec<Sent>, u32) = (Vec::new(), 0);
    let put_off = put_off(talk, first);
    for (offset, heard, frame) in talk.asked() {
        if is_among(&put_off, offset, frame) {
            continue;
        }
        let psns = offset..offset.saturating_add(talk.psns(&heard));
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
    let mut furthest: Option<(u32, Heard<'_>, &'t FrameSeen)> = None;
    for (heard, frame) in talk.responses() {
        let (offset, says) = (heard.psn.since(first), Says::of(&heard));
        if !matches!(says, Says::Ack | Says::Read(_) | Says::Atomic) || offset >= HALF {
            continue;
        }
        let is_once = || sent.iter().any(|sent| sent.psns.contains(&offset) && sent.times == 1);
        if let Some((_, other, before)) = furthest.filter(|_| says != Says::Ack && is_once()) {
            let is_behind = other.psn.since(first) > offset;
            // The tester's adapter may have swapped those whose spans overlap.
            if is_behind && !talk.is_lossless() && !before.at.is_before(frame.at) {
                continue;
            }
            asking.must(!is_behind, [before, frame].map(Evidence::from), || {
                let expected = format!(
                    "{} PSN {} before {} PSN {}",
                    heard.opcode, heard.psn, other.opcode, other.psn
                );
                (String::new(), expected, "it came behind it".into())
            });
        }
        if furthest.is_none_or(|(furthest, ..)| offset > furthest) {
            furthest = Some((offset, heard, frame));
        }
    }
}

/// From which request on the DUT put everything off by an RNR NAK, and when: what had been sent by then is not done. Those alone that leave no
/// doubt of which sending they answer: one NAK of a request that was sent once by then, but for what an earlier one put off.
fn put_off(talk: &Talk<'_>, first: Psn) -> Vec<(u32, Span)> {
    let naks = talk.responses().filter(|(heard, _)| Says::of(heard) == Says::Rnr);
    let naks: Vec<_> = naks.map(|(heard, frame)| (heard.psn.since(first), frame.at)).collect();
    let mut plain: Vec<(u32, Span)> = Vec::new();
    for &(offset, at) in &naks {
        let counts = |&(asked, _, frame): &(u32, Heard<'_>, &FrameSeen)| {
            asked == offset && frame.at.is_before(at) && !is_among(&plain, asked, frame)
        };
        let is_alone = naks.iter().filter(|(other, _)| *other == offset).count() == 1;
        if is_alone && talk.asked().filter(counts).count() == 1 {
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
