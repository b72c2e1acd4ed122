//! What a Linux kernel on the way may have made of a record: said in the verdict, decides nothing.
//!
//! Source: `drivers/infiniband/core` of Linux: `mad.c`, `smi.c`, `agent.c`, `user_mad.c`. docs/hardware.md tells it class
//! by class.

use verbatim_record::{Exchange, Findings, Trace};
use verbatim_wire::{AttributeId, MgmtClass, Status};

/// Exchanges that an observation names, at most.
const SHOWN: usize = 3;

/// Something that a kernel may have done.
struct Hand {
    /// The kinds of rig on whose way it is.
    rigs: &'static [&'static str],
    /// Whether an exchange may be its work.
    may_be: fn(&Exchange, &Trace) -> bool,
    /// What it may have done.
    words: &'static str,
}

/// A port of this machine, with ib_mad and ib_umad between it and us.
const UMAD: &[&str] = &["umad"];

static HANDS: [Hand; 4] = [
    Hand {
        rigs: UMAD,
        may_be: |exchange, trace| exchange.is_silent(&trace.begin),
        words: "\"no answer\" is what the tester's kernel lets be seen: it drops an answer with a base version other than 1, \
                with another transaction id or class, and one that comes after it gave the request up",
    },
    Hand {
        rigs: UMAD,
        may_be: |exchange, _| {
            let status = exchange.answer().map(|arrived| arrived.mad.status());
            status == Some(Status::METHOD_ATTRIBUTE_UNSUPPORTED)
        },
        words: "on a device in a Linux host status 0x000C may be the kernel's own answer, to a Get or Set that neither \
                firmware nor driver took",
    },
    Hand {
        rigs: UMAD,
        may_be: |exchange, _| exchange.request.class() == MgmtClass::PERF && exchange.answer().is_some(),
        words: "on a device in a Linux host performance attributes may be answered by its driver, not by its firmware",
    },
    Hand {
        rigs: UMAD,
        may_be: |exchange, _| {
            exchange.request.attribute_id() == AttributeId::NODE_DESCRIPTION && exchange.answer().is_some()
        },
        words: "on a device in a Linux host NodeDescription may be kept by its driver, and written by the host",
    },
];

/// Observes what a kernel on the way may have made of what was recorded.
pub(crate) fn observe(trace: &Trace, findings: &mut Findings<'_>) {
    let on_the_way = HANDS
        .iter()
        .filter(|hand| hand.rigs.contains(&trace.begin.rig_kind.as_str()));
    for hand in on_the_way {
        let shown: Vec<_> = trace
            .exchanges
            .iter()
            .filter(|exchange| (hand.may_be)(exchange, trace))
            .take(SHOWN)
            .collect();
        if !shown.is_empty() {
            findings.observe(hand.words, &shown);
        }
    }
}
