//! `c14-015-set` (C14_015): while the M_Key is 0, a port executes a Set with any key, even at protect levels 2 and 3.
//!
//! Reading: the Set changes LocalPhyErrors, which has no side effect. False alarm: none known.

use verbatim_record::{Findings, Gap, Label, Trace};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::{MKey, PortInfo};

use crate::management::keys::{self, FOUND, Unlock};

/// The labels of one protect level.
struct Level {
    level: u8,
    unlock: Unlock,
    set: Label<PortInfo>,
    after: Label<PortInfo>,
}

const LEVELS: [Level; 2] = [
    Level {
        level: 2,
        unlock: Unlock {
            set: Label::new("set M_Key 0 and level 2"),
            before: Label::new("level 2, before"),
        },
        set: Label::new("level 2, another key, set LocalPhyErrors"),
        after: Label::new("level 2, after"),
    },
    Level {
        level: 3,
        unlock: Unlock {
            set: Label::new("set M_Key 0 and level 3"),
            before: Label::new("level 3, before"),
        },
        set: Label::new("level 3, another key, set LocalPhyErrors"),
        after: Label::new("level 3, after"),
    },
];

pub(super) static TEST: Test = Test {
    id: "c14-015-set",
    aliases: &["C14_015"],
    revision: 1,
    about: "While the M_Key is 0 a Set with any key is obeyed and not counted, at protect levels 2 and 3.",
    reading: "The component changed is LocalPhyErrors; the value read back decides. The public suite names level 2 or \
        3; this test runs both.",
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
    for Level {
        level,
        unlock,
        set,
        after,
    } in LEVELS
    {
        let value = unlock.run(t, &port, level, 0)?;
        let value = value.change(|info| info.with_local_phy_errors(found ^ level));
        t.set_with(set, &port, (any, 0), value)?;
        t.get(after, MKey(0))?;
    }
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let found: PortInfo = t.answer(FOUND)?;
    for Level { unlock, set, after, .. } in LEVELS {
        let Some(start) = unlock.kept(t, f, &["M_Key", "M_KeyProtectBits"])? else {
            return Ok(());
        };
        keys::require_another(t, set)?;
        let (_, asked) = t.asked(set)?;
        t.require(
            set,
            "a value that was not there before",
            asked.local_phy_errors() != start.local_phy_errors(),
        )?;
        keys::obeyed(t, f, "C14-15", (&found, set), (after, &["LocalPhyErrors"]))?;
        f.same_fields("C14-15", t.exchange(after)?, &["LocalPhyErrors"], &asked)?;
        f.same_fields("C14-15", t.exchange(after)?, &["M_KeyViolations"], &start)?;
    }
    Ok(())
}
