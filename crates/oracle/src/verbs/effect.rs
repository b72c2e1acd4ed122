//! Rules for the memory that the peer's requests read and write on the device, in any test.
//!
//! [`Replay`] replays a connection from the record and tracks the content of the memory. A response, or the
//! completion of a receive, proves that a request was executed. Requests are executed once each, in the order of
//! their PSNs; only a READ may be executed after later requests. A request without such proof may or may not have
//! been executed, so the memory may hold either content. The rules therefore hold on every link: a lost packet only
//! makes more content possible.
//!
//! Source: architecture 9.4.1 (SEND), 9.4.3 (WRITE), 9.4.4 (READ), 9.4.5 (atomics), 9.5 (transaction ordering),
//! 9.7.5.1 (acknowledgement). Numbers are little-endian in memory, as on x86 and most Arm hosts.

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
            let expected = format!("at most {MOST} possible values");
            (
                format!("memory at offset {at}"),
                expected,
                "more possible values, so the rule does not judge this byte".into(),
            )
        });
    }
    for effect in effects.iter().filter(|effect| effect.of == of) {
        asking.must(effect.broken.is_none(), effect.evidence.iter().copied(), || {
            effect.broken.clone().unwrap_or_default()
        });
    }
}
