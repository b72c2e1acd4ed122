//! `c14-016-set-protect-N` (C14_016_Set): at every protect level a Set needs the right M_Key.
//!
//! A correct port obeys the right-key Set, and neither answers nor obeys nor forgets to count the wrong-key ones.
//! Reading: the component changed is LocalPhyErrors, which has no side effect. A port without LID or SM may answer
//! 0x001C and apply the rest: what a later Get shows decides. False alarm: an SM of somebody else.

use verbatim_record::{Findings, Gap, Label, Trace};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::PortInfo;

use crate::management::keys::{self, AFTER, BEFORE, FOUND};

const CHANGE: Label<PortInfo> = Label::new("right key, set LocalPhyErrors");
const CHANGED: Label<PortInfo> = Label::new("right key, after its Set");
const WRONG: [Label<PortInfo>; 3] = [
    Label::new("wrong key, set LocalPhyErrors"),
    Label::new("wrong key, high half, set LocalPhyErrors"),
    Label::new("wrong key, low half, set LocalPhyErrors"),
];

const READING: &str = "The component changed is LocalPhyErrors. Read-back decides whether a Set was obeyed. Violations \
    are judged as a difference: three wrong-key Sets. Each level is a run of its own.";

const fn test(id: &'static str, about: &'static str, level: u8) -> Test {
    Test {
        id,
        aliases: &["C14_016_Set"],
        revision: 1,
        about,
        reading: READING,
        statements: &["C14-16", "C14-24", "C14-26", "C14-29"],
        needs: &[Need::Mad],
        parameters: &[],
        procedure: match level {
            0 => procedure::<0>,
            1 => procedure::<1>,
            2 => procedure::<2>,
            _ => procedure::<3>,
        },
        judge,
    }
}

/// Level 0.
pub(super) static PROTECT_0: Test = test(
    "c14-016-set-protect-0",
    "At protect level 0 a Set needs the right M_Key.",
    0,
);
/// Level 1.
pub(super) static PROTECT_1: Test = test(
    "c14-016-set-protect-1",
    "At protect level 1 a Set needs the right M_Key.",
    1,
);
/// Level 2.
pub(super) static PROTECT_2: Test = test(
    "c14-016-set-protect-2",
    "At protect level 2 a Set needs the right M_Key.",
    2,
);
/// Level 3.
pub(super) static PROTECT_3: Test = test(
    "c14-016-set-protect-3",
    "At protect level 3 a Set needs the right M_Key.",
    3,
);

fn procedure<const LEVEL: u8>(t: &mut Tester<'_>) -> Step {
    let (ours, others) = keys::keys(t);
    let lease = t.longer_than_this_test();
    let port = keys::lock(t, ours, LEVEL, lease, 3)?;
    let found = port.found().local_phy_errors();
    let with_key = port.quiet().change(|info| {
        info.with_m_key(ours)
            .with_protect_bits(verbatim_wire::values::ProtectBits(LEVEL))
            .with_m_key_lease_period(verbatim_wire::values::LeasePeriod(lease))
    });
    t.set(
        CHANGE,
        &port,
        with_key.change(|info| info.with_local_phy_errors(found ^ 1)),
    )?;
    t.get(CHANGED, ours)?;
    for (label, other) in WRONG.iter().zip(others) {
        let value = with_key.change(|info| info.with_local_phy_errors(found ^ 3));
        t.set_once(*label, &port, (other, 0), value)?;
    }
    t.get(AFTER, ours)?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
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
    f.status("C14-26", t.exchange(CHANGE)?, keys::accepted(&found));
    let changed: PortInfo = t.answer(CHANGED)?;
    let obeyed = f.equal(
        "C14-26",
        CHANGED,
        "LocalPhyErrors",
        (asked.local_phy_errors(), changed.local_phy_errors()),
    );
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
    f.equal(
        "C14-16",
        AFTER,
        "LocalPhyErrors after wrong-key Sets",
        (changed.local_phy_errors(), after.local_phy_errors()),
    );
    keys::violations(t, f, WRONG.len())
}
