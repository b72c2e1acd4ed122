//! `c14-015-get` (C14_015): while the M_Key is 0 a Get with any key is answered, even at protect levels 2 and 3.
//!
//! False alarm: none known.

use verbatim_record::{Findings, Gap, Label, Trace};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::values::{LeasePeriod, ProtectBits};
use verbatim_wire::{MKey, NodeInfo, PortInfo, Status};

use crate::management::keys;

/// The port before anything was changed.
const FOUND: Label<PortInfo> = keys::FOUND;
/// The labels of one level.
struct Level {
    level: u8,
    unlock: Label<PortInfo>,
    before: Label<PortInfo>,
    node: Label<NodeInfo>,
    after: Label<PortInfo>,
}

const LEVELS: [Level; 2] = [
    Level {
        level: 2,
        unlock: Label::new("set M_Key 0 and level 2"),
        before: Label::new("level 2, before"),
        node: Label::new("level 2, another key, NodeInfo"),
        after: Label::new("level 2, another key, PortInfo"),
    },
    Level {
        level: 3,
        unlock: Label::new("set M_Key 0 and level 3"),
        before: Label::new("level 3, before"),
        node: Label::new("level 3, another key, NodeInfo"),
        after: Label::new("level 3, another key, PortInfo"),
    },
];

/// While the M_Key is 0, no Get is checked.
pub(super) static TEST: Test = Test {
    id: "c14-015-get",
    aliases: &["C14_015"],
    revision: 1,
    about: "While the M_Key is 0 a Get with any key is answered and not counted, at protect levels 2 and 3.",
    reading: "The page's level 2 or 3 is run as both. The key sent is random.",
    statements: &["C14-15", "C14-24", "C14-26"],
    needs: &[Need::Mad],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let (any, _) = keys::keys(t);
    let rig_key = t.rig_key();
    let port = t.guard(FOUND, rig_key)?;
    for Level {
        level,
        unlock,
        before,
        node,
        after,
    } in LEVELS
    {
        let value = port.quiet().change(|info| {
            info.with_m_key(MKey(0))
                .with_protect_bits(ProtectBits(level))
                .with_m_key_lease_period(LeasePeriod(0))
        });
        t.set(unlock, &port, value)?;
        t.get(before, MKey(0))?;
        t.ask_at(node, any, 0)?;
        t.ask_at(after, any, 0)?;
    }
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let found: PortInfo = t.answer(FOUND)?;
    for Level {
        unlock,
        before,
        node,
        after,
        ..
    } in LEVELS
    {
        let (_, wanted) = t.asked(unlock)?;
        if t.exchange(unlock)?.answer().is_some() {
            f.status("C14-26", t.exchange(unlock)?, keys::accepted(&found));
        }
        let start: PortInfo = t.answer(before)?;
        if !f.same_fields(
            "C14-24",
            t.exchange(before)?,
            &["M_Key", "M_KeyProtectBits"],
            (&wanted, &start),
        ) {
            return Ok(());
        }
        let (key, _) = t.asked(node)?;
        t.require(node, "a key other than 0", key != MKey(0))?;
        f.status("C14-15", t.exchange(node)?, &[Status::OK]);
        if f.status("C14-15", t.exchange(after)?, &[Status::OK]) {
            let end: PortInfo = t.answer(after)?;
            f.equal("C14-15", after, "M_Key", (MKey(0), end.m_key()));
            f.equal(
                "C14-15",
                after,
                "M_KeyViolations",
                (start.m_key_violations(), end.m_key_violations()),
            );
        }
    }
    Ok(())
}
