//! Observations about a Linux kernel between the tester and the device. The observations do not affect the
//! outcome.
//!
//! Sources: `mad.c`, `smi.c`, `agent.c` and `user_mad.c` of Linux's `drivers/infiniband/core`. docs/hardware.md
//! describes the effects class by class.

use verbatim_record::{Exchange, Findings, Trace};
use verbatim_wire::{AttributeId, MgmtClass, Status};

/// The most exchanges that an observation names.
const SHOWN: usize = 3;

/// A possible effect of a kernel on a record.
struct Hand {
    /// The kinds of rig whose path includes the kernel.
    rigs: &'static [&'static str],
    /// Returns whether the kernel may have caused this exchange's result.
    may_be: fn(&Exchange, &Trace) -> bool,
    /// The text of the observation.
    words: &'static str,
}

/// A port of the tester's host, behind the kernel's ib_mad and ib_umad modules.
const UMAD: &[&str] = &["umad"];

static HANDS: [Hand; 4] = [
    Hand {
        rigs: UMAD,
        may_be: |exchange, trace| exchange.is_silent(&trace.begin),
        words: "\"no answer\" may hide a response that the tester's kernel dropped: it drops responses with a base \
                version other than 1, with another TransactionID or class, or after it gave up the request",
    },
    Hand {
        rigs: UMAD,
        may_be: |exchange, _| {
            let status = exchange.answer().map(|arrived| arrived.mad.status());
            status == Some(Status::METHOD_ATTRIBUTE_UNSUPPORTED)
        },
        words: "on a device in a Linux host, status 0x000C may come from the kernel, if neither firmware nor driver \
                handled the Get or Set",
    },
    Hand {
        rigs: UMAD,
        may_be: |exchange, _| exchange.request.class() == MgmtClass::PERF && exchange.answer().is_some(),
        words: "on a device in a Linux host, the driver may answer for performance attributes instead of the firmware",
    },
    Hand {
        rigs: UMAD,
        may_be: |exchange, _| {
            exchange.request.attribute_id() == AttributeId::NODE_DESCRIPTION && exchange.answer().is_some()
        },
        words: "on a device in a Linux host, the driver may keep NodeDescription, and the host may write it",
    },
];

/// Adds an observation for each effect that a kernel may have had on the record.
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
