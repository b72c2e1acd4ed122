//! Responses to READs and atomics come in the order of their PSNs: what the packets alone cannot tell from a lost one, hindsight
//! can.
//!
//! Source: architecture 9.5 (ordering), C9-27.

use verbatim_record::{Evidence, FrameSeen};

use super::talk::Talk;
use super::{Asking, VerbsRule};
use crate::oracle::heard::Heard;
use crate::oracle::rule::Rule;
use crate::oracle::rules::responder::Says;
use crate::oracle::rules::rule;
use crate::transport::rc::ask::HALF;

pub(super) static RULES: &[(Rule, VerbsRule)] = &[(
    rule!(
        "never-back",
        "C9-27",
        "No response to a READ or atomic that was sent once comes behind one of a later PSN."
    ),
    never_back,
)];

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
    for (offset, heard, _) in talk.asked() {
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
        let is_once = sent.iter().any(|sent| sent.psns.contains(&offset) && sent.times == 1);
        if let Some((_, other, before)) = furthest.filter(|_| is_once && says != Says::Ack) {
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
