//! What a port counts of a packet, and that nothing else of it moves.

use verbatim_record::FrameSeen;
use verbatim_wire::{Attribute, PortCounters, PortInfo, PortRcvErrorDetails, PortState, Style};

use super::wire::is_marked;
use verbatim_oracle::packet_check::{Action, Certainty, Check, Checks, Counter, Judgement};

/// The port and its counters at one time.
pub(super) struct Shown {
    pub(super) port: PortInfo,
    pub(super) counters: PortCounters,
    pub(super) details: Option<PortRcvErrorDetails>,
}

/// The counters that count a packet; `None` when that is not laid down, or when it is not certain which check ranks first.
pub(super) fn expected(judgement: &Judgement, frame: &FrameSeen) -> Option<Vec<&'static str>> {
    if judgement.action == Action::Accept {
        return Some(Vec::new());
    }
    let (first, certainty) = judgement.first?;
    // Whoever marks a packet spoils its VCRC: if that ranked first, no packet would ever be counted as marked.
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

/// PortState in two of its states.
const ARMED: u64 = PortState::ARMED.0 as u64;
const ACTIVE: u64 = PortState::ACTIVE.0 as u64;
/// A 16-bit counter stops there.
pub(super) const MOST: u64 = 0xFFFF;
/// The counters that are laid down for packets that are discarded.
pub(super) const COUNTED: [&str; 5] = [
    "PortRcvErrors",
    "PortRcvRemotePhysicalErrors",
    "P_KeyViolations",
    "PortLocalPhysicalErrors",
    "PortMalformedPktErrors",
];
/// What goes on while it is looked at, what a port measures anew when it likes, and what a request says itself.
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

/// Whether the lanes themselves may have counted something: what is no valid code, and many local errors one after the other.
pub(super) fn is_of_the_lanes(name: &str, judgement: &Judgement) -> bool {
    const PHYSICAL: [Check; 3] = [Check::Delimiter, Check::Vcrc, Check::Icrc];
    let names = [
        "SymbolErrorCounter",
        "LinkErrorRecoveryCounter",
        "LocalLinkIntegrityErrors",
    ];
    names.contains(&name) && PHYSICAL.iter().any(|check| judgement.failed.contains(*check))
}

/// Whether a counter may count a packet of which it is left open what counts it: marked packets, foreign partitions and local
/// errors each have a counter that counts nothing else, and the others are of switches, buffers or what is sent.
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

/// A field of the port or its counters, and what it shows.
type Field = (&'static str, u64);

fn fields<A: Attribute>(of: &A) -> Vec<Field> {
    let shown = A::FIELDS.iter().filter(|field| field.style != Style::Reserved);
    let each = shown.flat_map(|field| (0..field.count).map(move |index| (field, index)));
    each.map(|(field, index)| (field.name, field.bits(of.bytes(), index)))
        .collect()
}

impl Shown {
    /// All that both readings have: of PortInfo, PortCounters and PortRcvErrorDetails.
    fn all(&self, other: &Self) -> Vec<Field> {
        let mut all = fields(&self.port);
        all.extend(fields(&self.counters));
        if let Some(details) = self.details.as_ref().filter(|_| other.details.is_some()) {
            all.extend(fields(details));
        }
        all.retain(|(name, _)| !NOT_COUNTERS.contains(name));
        all
    }

    /// The counters that are laid down for discarded packets: name, before, after.
    pub(super) fn counters(&self, after: &Self) -> Vec<(&'static str, u64, u64)> {
        let both = self.all(after).into_iter().zip(after.all(self));
        let counters = both.filter(|((name, _), _)| COUNTED.contains(name));
        counters
            .map(|((name, before), (_, after))| (name, before, after))
            .collect()
    }

    /// What is not as before though it may not move, in words.
    pub(super) fn moved(&self, after: &Self, may: impl Fn(&str) -> bool) -> Vec<String> {
        let both = self.all(after).into_iter().zip(after.all(self));
        // Data that comes in takes an Armed port to Active, and the packets that ask for its counters are data.
        let arms = |name: &str, before: u64, after: u64| name == "PortState" && (before, after) == (ARMED, ACTIVE);
        let moved =
            both.filter(|((name, before), (_, after))| before != after && !may(name) && !arms(name, *before, *after));
        moved
            .map(|((name, before), (_, after))| format!("{name} {before:#x} / {after:#x}"))
            .collect()
    }
}

/// What the two readings show differently, but for what goes on while it is looked at and these fields, in words.
pub(crate) fn differences<A: Attribute>(before: &A, after: &A, except: &[&str]) -> Vec<String> {
    let both = fields(before).into_iter().zip(fields(after));
    let moved = both.filter(|((name, before), (_, after))| {
        before != after && !NOT_COUNTERS.contains(name) && !except.contains(name)
    });
    moved
        .map(|((name, before), (_, after))| format!("{name} {before:#x} / {after:#x}"))
        .collect()
}
