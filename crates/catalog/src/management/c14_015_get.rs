//! `c14-015-get` (C14_015): while the M_Key is 0, a port responds to a Get with any key, even at protect levels 2 and
//! 3.
//!
//! False alarm: none known.

use verbatim_record::{Findings, Gap, Label, Trace};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::{NodeInfo, PortInfo, Status};

use crate::management::keys::{self, FOUND, Unlock};

/// The labels of one protect level.
struct Level {
    level: u8,
    unlock: Unlock,
    node: Label<NodeInfo>,
    after: Label<PortInfo>,
}

const LEVELS: [Level; 2] = [
    Level {
        level: 2,
        unlock: Unlock {
            set: Label::new("set M_Key 0 and level 2"),
            before: Label::new("level 2, before"),
        },
        node: Label::new("level 2, another key, NodeInfo"),
        after: Label::new("level 2, another key, PortInfo"),
    },
    Level {
        level: 3,
        unlock: Unlock {
            set: Label::new("set M_Key 0 and level 3"),
            before: Label::new("level 3, before"),
        },
        node: Label::new("level 3, another key, NodeInfo"),
        after: Label::new("level 3, another key, PortInfo"),
    },
];

pub(super) static TEST: Test = Test {
    id: "c14-015-get",
    aliases: &["C14_015"],
    revision: 1,
    about: "While the M_Key is 0 a Get with any key is answered and not counted, at protect levels 2 and 3.",
    reading: "The public suite names level 2 or 3; this test runs both. The key sent is random.",
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
        node,
        after,
    } in LEVELS
    {
        unlock.run(t, &port, level, 0)?;
        t.ask_at(node, any, 0)?;
        t.ask_at(after, any, 0)?;
    }
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    for Level {
        unlock, node, after, ..
    } in LEVELS
    {
        let Some(start) = unlock.kept(t, f, &["M_Key", "M_KeyProtectBits"])? else {
            return Ok(());
        };
        keys::require_another(t, node)?;
        f.status("C14-15", t.exchange(node)?, &[Status::OK]);
        if f.status("C14-15", t.exchange(after)?, &[Status::OK]) {
            f.same_fields("C14-15", t.exchange(after)?, &["M_Key", "M_KeyViolations"], &start)?;
        }
    }
    Ok(())
}
