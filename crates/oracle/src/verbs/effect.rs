//! Rules of what the peer's requests read and write in the device's memory, whatever test sends them.
//!
//! [`Replay`] goes through a connection as the record has it and keeps a picture of the memory. A request is known to be
//! executed when an answer, or the completion of a receive, says so; requests are executed once each, in the order of their
//! PSNs. What was sent and of which nobody knows may have been executed or not, so the memory may hold either. Hence the
//! rules hold on every link: a lost packet makes less known, and never more.
//!
//! Source: architecture 9.4.1 (SEND), 9.4.3 (WRITE), 9.4.4 (READ), 9.4.5 (atomics), 9.5 (transaction ordering), 9.7.5.1
//! (acknowledgement). A READ may be executed after requests behind it. Numbers are little-endian in memory, as on x86 and most
//! Arm hosts.

use verbatim_record::Passed;

use super::asking::{Asking, VerbsRule};
use super::qp_trace::QpTrace;
use super::replay::{Replay, Thing};
use crate::freedom::MOST;
use crate::rule::Rule;

pub(super) static RULES: &[(Rule, VerbsRule)] = &[
    (Rule::MemoryContent, |qp, asking| ask(qp, asking, Thing::Memory)),
    (Rule::SendContent, |qp, asking| ask(qp, asking, Thing::Sent)),
    (Rule::WriteContent, |qp, asking| ask(qp, asking, Thing::Written)),
    (Rule::AtomicContent, |qp, asking| ask(qp, asking, Thing::Swapped)),
    (Rule::RefusedContent, |qp, asking| ask(qp, asking, Thing::Refused)),
    (Rule::ReadContent, |qp, asking| ask(qp, asking, Thing::Read)),
    (Rule::AtomicOriginal, |qp, asking| ask(qp, asking, Thing::Atomic)),
];

fn ask<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>, of: Thing) {
    let (effects, excess) = qp.effects.get_or_init(|| {
        let (effects, excess) = Replay::of(qp);
        (effects.into(), excess)
    });
    if let Some(at) = excess.filter(|_| of == Thing::Memory) {
        asking.say(Passed::Inconclusive, [], || {
            let expected = format!("{MOST} values that it may hold, at most");
            (
                format!("memory at offset {at}"),
                expected,
                "more: it is not judged".into(),
            )
        });
    }
    for effect in effects.iter().filter(|effect| effect.of == of) {
        asking.must(effect.broken.is_none(), effect.evidence.iter().copied(), || {
            effect.broken.clone().unwrap_or_default()
        });
    }
}
