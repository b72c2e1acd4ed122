//! The counters that a packet increments; all other fields must stay unchanged.

use verbatim_record::FrameSeen;
use verbatim_wire::{Attribute, PortCounters, PortInfo, PortRcvErrorDetails, PortState, Style};

use super::wire::is_marked;
use verbatim_oracle::packet_check::{Action, Certainty, Check, Checks, Counter, Judgement};

/// The port's attributes at one time.
pub(super) struct Shown {
    pub(super) port: PortInfo,
    pub(super) counters: PortCounters,
    pub(super) details: Option<PortRcvErrorDetails>,
}

/// Returns the counters that a packet must increment. Returns `None` if the architecture does not define them, or if
/// the order of two failed checks is uncertain.
pub(super) fn expected(judgement: &Judgement, frame: &FrameSeen) -> Option<Vec<&'static str>> {
    if judgement.action == Action::Accept {
        return Some(Vec::new());
    }
    let (first, certainty) = judgement.first?;
    // A marked packet has an inverted VCRC. If the VCRC check came first, no packet would ever count as marked.
    let is_marked = frame
        .delimiter
        .is_some_and(|delimiter| is_marked(&frame.bytes, delimiter));
    let alone = judgement.failed.without(Checks::of(&[Check::Delimiter, Check::Vcrc]));
    let is_settled = certainty == Certainty::Certain || (is_marked && alone.is_empty());
    let counter = judgement.counter.filter(|_| is_settled)?;
    let detail = match first {
        Check::Delimiter if counter == Counter::PortRcvErrors => Some("PortLocalPhysicalErrors"),
        Check::Delimiter => None,
        other => other.detail(),
    };
    let mut counts = vec![counter.name()];
    counts.extend(detail.filter(|_| counter == Counter::PortRcvErrors));
    Some(counts)
}

const ARMED: u64 = PortState::ARMED.0 as u64;
const ACTIVE: u64 = PortState::ACTIVE.0 as u64;
/// The largest value of a 16-bit counter, at which it stops.
pub(super) const MOST: u64 = 0xFFFF;
/// The counters that the architecture defines for discarded packets.
pub(super) const COUNTED: [&str; 5] = [
    "PortRcvErrors",
    "PortRcvRemotePhysicalErrors",
    "P_KeyViolations",
    "PortLocalPhysicalErrors",
    "PortMalformedPktErrors",
];
/// The fields that are not compared: the reads change them, the port measures them at any time, or they repeat the
/// request.
const NOT_COUNTERS: [&str; 10] = [
    "DiagCode",
    "LinkRoundTripLatency",
    "PortSelect",
    "CounterSelect",
    "CounterSelect2",
    "PortXmitData",
    "PortRcvData",
    "PortXmitPkts",
    "PortRcvPkts",
    "PortXmitWait",
];

/// Returns whether the physical lanes may have incremented this counter: for an invalid code, or for repeated local
/// errors.
pub(super) fn is_of_the_lanes(name: &str, judgement: &Judgement) -> bool {
    const PHYSICAL: [Check; 3] = [Check::Delimiter, Check::Vcrc, Check::Icrc];
    let names = [
        "SymbolErrorCounter",
        "LinkErrorRecoveryCounter",
        "LocalLinkIntegrityErrors",
    ];
    names.contains(&name) && PHYSICAL.iter().any(|check| judgement.failed.contains(*check))
}

/// Returns whether this counter may count a packet for which the architecture defines no counter. Marked packets,
/// foreign P_Keys and local errors have counters that count nothing else. The remaining counters belong to switches,
/// buffers or the sender.
pub(super) fn may_count(name: &str, judgement: &Judgement) -> bool {
    let fails = |check| judgement.failed.contains(check);
    match name {
        _ if matches!(judgement.action, Action::NotJudged(_)) => true,
        "PortRcvErrors" | "PortMalformedPktErrors" => true,
        "PortRcvRemotePhysicalErrors" => fails(Check::Delimiter),
        "P_KeyViolations" => fails(Check::PKey),
        "PortLocalPhysicalErrors" => [Check::Delimiter, Check::Vcrc, Check::Icrc].into_iter().any(fails),
        _ => is_of_the_lanes(name, judgement),
    }
}

/// A field's name and value.
type Field = (&'static str, u64);

fn fields<A: Attribute>(of: &A) -> Vec<Field> {
    let shown = A::FIELDS.iter().filter(|field| field.style != Style::Reserved);
    let each = shown.flat_map(|field| (0..field.count).map(move |index| (field, index)));
    each.map(|(field, index)| (field.name, field.bits(of.bytes(), index)))
        .collect()
}

impl Shown {
    /// Returns the fields of PortInfo, PortCounters and PortRcvErrorDetails that both readings have.
    fn all(&self, other: &Self) -> Vec<Field> {
        let mut all = fields(&self.port);
        all.extend(fields(&self.counters));
        if let Some(details) = self.details.as_ref().filter(|_| other.details.is_some()) {
            all.extend(fields(details));
        }
        all.retain(|(name, _)| !NOT_COUNTERS.contains(name));
        all
    }

    /// Returns the counters for discarded packets: name, value before, value after.
    pub(super) fn counters(&self, after: &Self) -> Vec<(&'static str, u64, u64)> {
        let both = self.all(after).into_iter().zip(after.all(self));
        let counters = both.filter(|((name, _), _)| COUNTED.contains(name));
        counters
            .map(|((name, before), (_, after))| (name, before, after))
            .collect()
    }

    /// Describes the changed fields, except those for which `may` returns true.
    pub(super) fn moved(&self, after: &Self, may: impl Fn(&str) -> bool) -> Vec<String> {
        let both = self.all(after).into_iter().zip(after.all(self));
        // A received data packet takes an Armed port to Active, and the requests for its counters are data packets.
        let arms = |name: &str, before: u64, after: u64| name == "PortState" && (before, after) == (ARMED, ACTIVE);
        let moved =
            both.filter(|((name, before), (_, after))| before != after && !may(name) && !arms(name, *before, *after));
        moved
            .map(|((name, before), (_, after))| format!("{name} {before:#x} / {after:#x}"))
            .collect()
    }
}

/// Describes the fields that differ between two readings, except the fields of `NOT_COUNTERS` and of `except`.
pub(crate) fn differences<A: Attribute>(before: &A, after: &A, except: &[&str]) -> Vec<String> {
    let both = fields(before).into_iter().zip(fields(after));
    let moved = both.filter(|((name, before), (_, after))| {
        before != after && !NOT_COUNTERS.contains(name) && !except.contains(name)
    });
    moved
        .map(|((name, before), (_, after))| format!("{name} {before:#x} / {after:#x}"))
        .collect()
}
