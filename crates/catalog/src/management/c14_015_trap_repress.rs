//! `c14-015-trap-repress` (C14_015): while the M_Key is 0, a TrapRepress with any key is no violation.
//!
//! Reading: a TrapRepress gets no response, so the test checks only that M_KeyViolations does not change. False
//! alarm: another SM that sets an M_Key during the test; while the M_Key is 0, no other SM can send a wrong key.

use verbatim_record::{Findings, Gap, Label, Trace};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::{MKey, Notice, PortInfo};

use crate::management::keys::{self, FOUND, Unlock};

const UNLOCK: Unlock = Unlock {
    set: Label::new("set M_Key 0 and level 2"),
    before: Label::new("before"),
};
const REPRESS: Label<Notice> = Label::new("TrapRepress with another key");
const AFTER: Label<PortInfo> = Label::new("after");

pub(super) static TEST: Test = Test {
    id: "c14-015-trap-repress",
    aliases: &["C14_015"],
    revision: 1,
    about: "While the M_Key is 0 a TrapRepress with any key is not counted as a violation.",
    reading: "A TrapRepress has no answer, so only the counter is judged.",
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
    UNLOCK.run(t, &port, 2, 0)?;
    t.repress(REPRESS, any, &keys::bad_m_key_notice())?;
    t.get(AFTER, MKey(0))?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let Some(before) = UNLOCK.kept(t, f, &["M_Key", "M_KeyProtectBits"])? else {
        return Ok(());
    };
    keys::require_another(t, REPRESS)?;
    let repress = t.exchange(REPRESS)?;
    t.require(REPRESS, "a TrapRepress that left the host", repress.returned.is_none())?;
    if let Some(answer) = repress.answer() {
        f.observe_ambiguous(format!("a TrapRepress was answered: {}", answer.mad), &[repress]);
    }
    f.same_fields("C14-15", t.exchange(AFTER)?, &["M_KeyViolations"], &before)?;
    Ok(())
}
