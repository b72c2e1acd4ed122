//! `c14-015-set` (C14_015): while the M_Key is 0 a Set with any key is obeyed, even at protect levels 2 and 3.
//!
//! Reading: the component changed is LocalPhyErrors, which has no side effect. False alarm: none known.

use verbatim_record::{Findings, Gap, Label, Trace};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::values::{LeasePeriod, ProtectBits};
use verbatim_wire::{MKey, PortInfo};

use crate::management::keys::{self, FOUND};

/// One set of labels for each of the levels 2 and 3: unlock, before, the Set with another key, after.
const LEVELS: [(u8, [Label<PortInfo>; 4]); 2] = [
    (
        2,
        [
            Label::new("set M_Key 0 and level 2"),
            Label::new("level 2, before"),
            Label::new("level 2, another key, set LocalPhyErrors"),
            Label::new("level 2, after"),
        ],
    ),
    (
        3,
        [
            Label::new("set M_Key 0 and level 3"),
            Label::new("level 3, before"),
            Label::new("level 3, another key, set LocalPhyErrors"),
            Label::new("level 3, after"),
        ],
    ),
];

/// While the M_Key is 0, no Set is checked.
pub(super) static TEST: Test = Test {
    id: "c14-015-set",
    aliases: &["C14_015"],
    revision: 1,
    about: "While the M_Key is 0 a Set with any key is obeyed and not counted, at protect levels 2 and 3.",
    reading: "The component changed is LocalPhyErrors; read-back decides. The page's level 2 or 3 is run as both.",
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
    let found = port.found().local_phy_errors();
    for (level, [unlock, before, set, after]) in LEVELS {
        let value = port.quiet().change(|info| {
            info.with_m_key(MKey(0))
                .with_protect_bits(ProtectBits(level))
                .with_m_key_lease_period(LeasePeriod(0))
        });
        t.set(unlock, &port, value)?;
        t.get(before, MKey(0))?;
        t.set_with(
            set,
            &port,
            (any, 0),
            value.change(|info| info.with_local_phy_errors(found ^ level)),
        )?;
        t.get(after, MKey(0))?;
    }
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let found: PortInfo = t.answer(FOUND)?;
    for (_, [unlock, before, set, after]) in LEVELS {
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
        let (key, asked) = t.asked(set)?;
        t.require(set, "a key other than 0", key != MKey(0))?;
        t.require(
            set,
            "a value that was not there before",
            asked.local_phy_errors() != start.local_phy_errors(),
        )?;
        f.status("C14-15", t.exchange(set)?, keys::accepted(&found));
        let end: PortInfo = t.answer(after)?;
        f.equal(
            "C14-15",
            after,
            "LocalPhyErrors",
            (asked.local_phy_errors(), end.local_phy_errors()),
        );
        f.equal(
            "C14-15",
            after,
            "M_KeyViolations",
            (start.m_key_violations(), end.m_key_violations()),
        );
    }
    Ok(())
}
