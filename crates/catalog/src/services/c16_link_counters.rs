//! `c16-link-counters`: each packet that the link layer discards counts once, a sound one never, and PortRcvErrors stops at
//! 0xFFFF.
//!
//! Reading: PortRcvErrorDetails is optional and judged where it is there. `violations` goes beyond 0xFFFF by default. False
//! alarm: errors of the link itself, which a simulated one has not.

use verbatim_record::{Delimiter, Exchange, Findings, Gap, Label, Trace};
use verbatim_tester::{Need, Parameter, Step, Test, Tester};
use verbatim_wire::{PKey, PortCounters};

use crate::link::native::{self, COUNTERS, Link, Rule, Wire};

const STATEMENT: &str = "16.1 counters";
const ONE: Rule = Rule::new(STATEMENT);
const MANY: Rule = Rule {
    label: Label::new("many broken packets"),
    statement: STATEMENT,
};

/// One by one, and many.
pub(super) static TEST: Test = Test {
    id: "c16-link-counters",
    aliases: &[],
    revision: 1,
    about: "Each discarded packet counts once, a sound one never, and PortRcvErrors stops at 0xFFFF.",
    reading: "PortRcvErrorDetails is optional and judged where it is there.",
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
    // All of them are on the way, and a way takes no longer than silence does.
    let until = link.t.now().after(link.t.silence());
    link.t.wait_until(until)?;
    link.read()
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    native::judge(t, f, &[ONE], native::NOTHING_SENT)?;
    let (Some(first), Some(last)) = (t.frames(MANY.label).next(), t.frames(MANY.label).last()) else {
        return Err(Gap::Missing(MANY.label.name));
    };
    let before = t
        .each(COUNTERS)
        .filter(|read| read.sent.latest < first.at.earliest)
        .last();
    let after = t.each(COUNTERS).find(|read| read.sent.earliest > last.at.latest);
    let value = |read: Option<&Exchange>| t.answered::<PortCounters>(read.ok_or(Gap::Missing(COUNTERS.name))?);
    let sent = t.frames(MANY.label).count();
    let wanted = usize::from(value(before)?.port_rcv_errors())
        .saturating_add(sent)
        .min(0xFFFF);
    let seen = usize::from(value(after)?.port_rcv_errors());
    f.claim(STATEMENT, format!("PortRcvErrors after {sent} broken packets"))
        .by_all(before.into_iter().chain(after))
        .saw(seen)
        .is(wanted);
    Ok(())
}
