//! `c16-link-counters`: a port counts once each packet that its link layer discards. It never counts a valid packet,
//! and stops PortRcvErrors at 0xFFFF.
//!
//! Reading: PortRcvErrorDetails is optional, and judged if the port has it. The default of `violations` exceeds 0xFFFF.
//! False alarm: errors of a real link; a simulated link has none.

use verbatim_record::{Delimiter, Exchange, Findings, Gap, Label, Span, Trace};
use verbatim_tester::{Need, Parameter, Step, Test, Tester};
use verbatim_wire::{Attribute, PKey, Status};

use crate::link::native::{self, COUNTERS, DETAILS, Link, Rule, Wire};

const STATEMENT: &str = "16.1 counters";
const ONE: Rule = Rule::new(STATEMENT);
const MANY: Rule = Rule {
    label: Label::new("many broken packets"),
    statement: STATEMENT,
};

pub(super) static TEST: Test = Test {
    id: "c16-link-counters",
    aliases: &[],
    revision: 2,
    about: "Each discarded packet counts once, a sound one never, and PortRcvErrors stops at 0xFFFF.",
    reading: "PortRcvErrorDetails is optional; it is judged if the port has it.",
    statements: &["16.1 counters"],
    needs: &[Need::Link, Need::Mad],
    parameters: &[Parameter {
        name: "violations",
        about: "broken packets in a row, after single ones",
        range: (1, 100_000),
        simulated: 65_540,
        default: 65_540,
    }],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let many = t.parameter("violations");
    let mut link = Link::open(t)?;
    let wires = [
        link.smp(),
        link.smp().flipped(1, 0x10),
        link.smp().bad_icrc(),
        link.smp().ended(Delimiter::Other),
        link.smp().lrh(|lrh| lrh.with_lver(2)).mended(),
        link.smp().longer(4),
        link.smp(),
    ];
    for wire in &wires {
        link.probe(&ONE, wire)?;
    }
    let broken = Wire::plain(link.smp_lid(), PKey(0xFFFF), 0).flipped(1, 1);
    for _ in 0..many {
        link.throw(&MANY, &broken)?;
    }
    // All packets are in transit; each arrives before the wait for silence ends.
    let until = link.t.now().after(link.t.silence());
    link.t.wait_until(until)?;
    link.read()
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    native::judge(t, f, &[ONE], native::NOTHING_SENT)?;
    let (Some(first), Some(last)) = (t.frames(MANY.label).next(), t.frames(MANY.label).last()) else {
        return Err(Gap::Missing(MANY.label.name));
    };
    let (first, last) = (first.at, last.at);
    many(t, f, (first, last), COUNTERS, &["PortRcvErrors"])?;
    if t.each(DETAILS)
        .any(|read| is_success(read) && read.sent.earliest > last.latest)
    {
        many(t, f, (first, last), DETAILS, &["PortLocalPhysicalErrors"])?;
    }
    Ok(())
}

fn is_success(read: &Exchange) -> bool {
    read.answer().is_some_and(|answer| answer.mad.status() == Status::OK)
}

/// The counters that the physical lanes may increment when they see many errors in a row.
const OF_THE_LANES: [&str; 3] = [
    "SymbolErrorCounter",
    "LinkErrorRecoveryCounter",
    "LocalLinkIntegrityErrors",
];

/// Checks the counters after many broken packets: the counters in `counting` have risen up to 0xFFFF, and all others
/// are unchanged.
fn many<A: Attribute>(
    t: &Trace,
    f: &mut Findings<'_>,
    (first, last): (Span, Span),
    label: Label<A>,
    counting: &[&str],
) -> Result<(), Gap> {
    let reads = || t.each(label).filter(|read| is_success(read));
    let before = reads().filter(|read| read.sent.latest < first.earliest).last();
    let after = reads().find(|read| read.sent.earliest > last.latest);
    let value = |read: Option<&Exchange>| t.answered::<A>(read.ok_or(Gap::Missing(label.name))?);
    let sent = t.frames(MANY.label).count() as u64;
    let (was, is) = (value(before)?, value(after)?);
    for name in counting {
        let of = |counters: &A| A::field(name).bits(counters.bytes(), 0);
        f.claim(STATEMENT, format!("{name} after {sent} broken packets"))
            .by_all(before.into_iter().chain(after))
            .saw(of(&is))
            .is(of(&was).saturating_add(sent).min(0xFFFF));
    }
    let except: Vec<&str> = counting.iter().chain(&OF_THE_LANES).copied().collect();
    let moved = native::differences(&was, &is, &except);
    f.claim(
        STATEMENT,
        format!("other counters of {} after {sent} broken packets", A::NAME),
    )
    .by_all(before.into_iter().chain(after))
    .saw(if moved.is_empty() {
        "as before".into()
    } else {
        moved.join(", ")
    })
    .must("as before", moved.is_empty());
    Ok(())
}
