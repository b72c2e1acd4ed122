//! `c14-015-lease` (C14_015): while the M_Key is 0, no check fails, so no lease timer starts.
//!
//! A conforming port with M_Key 0, level 2 and a lease period keeps its protect bits, regardless of SMPs with
//! other keys. Reading: a key that is not checked cannot fail a check. False alarm: another SM that changes the
//! protect bits during the test. The test runs only on rigs without another SM.

use core::time::Duration;

use verbatim_record::{Findings, Gap, Label, Trace};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::{MKey, NodeInfo, PortInfo};

use crate::management::keys::{self, FOUND, LOCKED, Unlock};

const UNLOCK: Unlock = Unlock {
    set: Label::new("set M_Key 0, level 2 and a lease"),
    before: Label::new("before"),
};
const OTHER: Label<NodeInfo> = Label::new("another key, NodeInfo");
const AFTER: Label<PortInfo> = Label::new("after the lease period");

/// The lease period in seconds: the shortest with time for two exchanges.
const LEASE_S: u16 = 2;

pub(super) static TEST: Test = Test {
    id: "c14-015-lease",
    aliases: &["C14_015"],
    revision: 1,
    about: "While the M_Key is 0 an SMP with another key starts no lease timer.",
    reading: "With M_Key 0 no M_Key check can fail, so the protect bits stay set after the lease period.",
    statements: &["C14-15", "C14-24", "C14-26"],
    needs: &[Need::Mad, Need::OwnSubnet],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let (any, _) = keys::keys(t);
    let rig_key = t.rig_key();
    let port = t.guard(FOUND, rig_key)?;
    UNLOCK.run(t, &port, 2, LEASE_S)?;
    t.ask_at(OTHER, any, 0)?;
    t.pause(Duration::from_secs(u64::from(LEASE_S) + 1))?;
    t.get(AFTER, MKey(0))?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let Some(before) = UNLOCK.kept(t, f, &LOCKED)? else {
        return Ok(());
    };
    keys::require_another(t, OTHER)?;
    t.answered::<NodeInfo>(t.exchange(OTHER)?)?; // the device received the other key
    let after: PortInfo = t.answer(AFTER)?;
    f.claim("C14-15", "M_KeyProtectBits after the lease period")
        .on(AFTER)
        .saw(after.protect_bits())
        .is(before.protect_bits());
    Ok(())
}
