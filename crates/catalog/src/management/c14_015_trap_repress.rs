//! `c14-015-trap-repress` (C14_015): while the M_Key is 0 a TrapRepress with any key is no violation.
//!
//! Reading: a TrapRepress is not answered, so all that can be seen is that M_KeyViolations stays. False alarm: an
//! SM of somebody else that sends wrong keys meanwhile, which it cannot while the M_Key is 0.

use verbatim_record::{Findings, Gap, Label, Trace};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::values::{Hex32, LeasePeriod, ProtectBits};
use verbatim_wire::{MKey, Notice, PortInfo, trap};

use crate::management::keys::{self, FOUND};

const UNLOCK: Label<PortInfo> = Label::new("set M_Key 0 and level 2");
const BEFORE: Label<PortInfo> = Label::new("before");
const REPRESS: Label<Notice> = Label::new("TrapRepress with another key");
const AFTER: Label<PortInfo> = Label::new("after");

/// While the M_Key is 0, no TrapRepress is checked.
pub(super) static TEST: Test = Test {
    id: "c14-015-trap-repress",
    aliases: &["C14_015"],
    revision: 1,
    about: "While the M_Key is 0 a TrapRepress with any key is not counted as a violation.",
    reading: "A TrapRepress has no answer: only the counter can be seen.",
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
    let value = port.quiet().change(|info| {
        info.with_m_key(MKey(0))
            .with_protect_bits(ProtectBits(2))
            .with_m_key_lease_period(LeasePeriod(0))
    });
    t.set(UNLOCK, &port, value)?;
    t.get(BEFORE, MKey(0))?;
    let notice = Notice::default()
        .with_is_generic(true)
        .with_notice_type(2)
        .with_producer_type(Hex32(1))
        .with_trap_number(trap::BAD_M_KEY);
    t.repress(REPRESS, any, &notice)?;
    t.get(AFTER, MKey(0))?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let found: PortInfo = t.answer(FOUND)?;
    let (_, wanted) = t.asked(UNLOCK)?;
    if t.exchange(UNLOCK)?.answer().is_some() {
        f.status("C14-26", t.exchange(UNLOCK)?, keys::accepted(&found));
    }
    let before: PortInfo = t.answer(BEFORE)?;
    if !f.same_fields(
        "C14-24",
        t.exchange(BEFORE)?,
        &["M_Key", "M_KeyProtectBits"],
        (&wanted, &before),
    ) {
        return Ok(());
    }
    let (key, _) = t.asked(REPRESS)?;
    t.require(REPRESS, "a key other than 0", key != MKey(0))?;
    let repress = t.exchange(REPRESS)?;
    t.require(REPRESS, "a TrapRepress that left the host", repress.returned.is_none())?;
    if let Some(answer) = repress.answer() {
        f.observe_ambiguous(format!("a TrapRepress was answered: {}", answer.mad), &[repress]);
    }
    let after: PortInfo = t.answer(AFTER)?;
    f.equal(
        "C14-15",
        AFTER,
        "M_KeyViolations",
        (before.m_key_violations(), after.m_key_violations()),
    );
    Ok(())
}
