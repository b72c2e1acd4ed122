//! `c14-016-set-protect-N` (C14_016_Set): at every protect level a Set needs the right M_Key.
//!
//! A conforming port executes the right-key Set. It drops and counts the wrong-key Sets. Reading: the Sets change
//! LocalPhyErrors, which has no side effect. If the port has no LID or no SM, the Set repeats that invalid LID or
//! MasterSMLID. The port may then respond with 0x001C. A Get shows whether the port applied all other fields or
//! none; with none the test is NOT_APPLICABLE. False alarm: another SM that sends wrong keys or writes PortInfo
//! during the test.

use core::time::Duration;

use verbatim_record::{Findings, Gap, Label, Trace};
use verbatim_tester::{HANDLED, Need, Procedure, Step, Test, Tester};
use verbatim_wire::PortInfo;

use crate::management::keys::{self, AFTER, BEFORE, FOUND};

const CHANGE: Label<PortInfo> = Label::new("right key, set LocalPhyErrors");
const CHANGED: Label<PortInfo> = Label::new("right key, after its Set");
const WRONG: [Label<PortInfo>; 4] = [
    Label::new("wrong key, set LocalPhyErrors"),
    Label::new("wrong key, high half, set LocalPhyErrors"),
    Label::new("wrong key, low half, set LocalPhyErrors"),
    Label::new("M_Key 0, set LocalPhyErrors"),
];

const READING: &str = "The component changed is LocalPhyErrors. The value read back decides whether a Set was obeyed. \
    Violations are judged as a difference: four wrong-key Sets. Each level is a run of its own.";

const fn test(id: &'static str, about: &'static str, procedure: Procedure) -> Test {
    Test {
        id,
        aliases: &["C14_016_Set"],
        // Revision 3 waits for all silences together.
        revision: 3,
        about,
        reading: READING,
        statements: &["C14-16", "C14-24", "C14-26", "C14-29"],
        needs: &[Need::Mad],
        parameters: &[],
        procedure,
        judge,
    }
}

/// At this level another SM can read the key and may legally remove it, so the test needs its own subnet.
pub(super) static PROTECT_0: Test = Test {
    needs: &[Need::Mad, Need::OwnSubnet],
    ..test(
        "c14-016-set-protect-0",
        "At protect level 0 a Set needs the right M_Key.",
        |t| procedure(t, 0),
    )
};
pub(super) static PROTECT_1: Test = test(
    "c14-016-set-protect-1",
    "At protect level 1 a Set needs the right M_Key.",
    |t| procedure(t, 1),
);
pub(super) static PROTECT_2: Test = test(
    "c14-016-set-protect-2",
    "At protect level 2 a Set needs the right M_Key.",
    |t| procedure(t, 2),
);
pub(super) static PROTECT_3: Test = test(
    "c14-016-set-protect-3",
    "At protect level 3 a Set needs the right M_Key.",
    |t| procedure(t, 3),
);

fn procedure(t: &mut Tester<'_>, level: u8) -> Step {
    let (ours, others) = keys::keys(t);
    let lease = t.longer_than_this_test();
    let port = keys::lock(t, ours, level, lease, WRONG.len() as u16)?;
    let found = port.found().local_phy_errors();
    let with_key = keys::protected(&port, ours, level, lease);
    let changed = with_key.change(|info| info.with_local_phy_errors(found ^ 1));
    t.set(CHANGE, &port, changed)?;
    t.get(CHANGED, ours)?;
    for (label, other) in WRONG.iter().zip(others) {
        let value = with_key.change(|info| info.with_local_phy_errors(found ^ 3));
        t.provoke_by_set_soon(*label, &port, 0, value, &[other])?;
    }
    t.wait_out(Duration::ZERO)?;
    t.get(AFTER, ours)?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    t.not_judged(HANDLED);
    if !keys::locked(t, f)? {
        return Ok(());
    }
    let found: PortInfo = t.answer(FOUND)?;
    let before: PortInfo = t.answer(BEFORE)?;
    let (_, asked) = t.asked(CHANGE)?;
    t.require(
        CHANGE,
        "a value that was not there before",
        asked.local_phy_errors() != before.local_phy_errors(),
    )?;
    keys::obeyed(t, f, "C14-26", (&found, CHANGE), (CHANGED, &["LocalPhyErrors"]))?;
    let changed: PortInfo = t.answer(CHANGED)?;
    let obeyed = f.same_fields("C14-26", t.exchange(CHANGED)?, &["LocalPhyErrors"], &asked)?;
    for label in WRONG {
        let (key, other) = t.asked(label)?;
        t.require(label, "a key that is not the port's", key != before.m_key())?;
        t.require(
            label,
            "a value that differs",
            !obeyed || other.local_phy_errors() != changed.local_phy_errors(),
        )?;
        f.silent("C14-16", t.exchange(label)?);
    }
    let after: PortInfo = t.answer(AFTER)?;
    f.claim("C14-16", "LocalPhyErrors after wrong-key Sets")
        .on(AFTER)
        .saw(after.local_phy_errors())
        .is(changed.local_phy_errors());
    keys::violations(t, f, WRONG.len())
}
