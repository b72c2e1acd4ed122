//! `c14-017-lease-zero` (C14_017_05): with M_KeyLeasePeriod 0 the lease never expires.
//!
//! Reading: a test cannot wait forever. It waits `wait_s` seconds: by default a second longer than the longest period
//! on a simulated rig, and 61 s on hardware. A PASS names the waiting time. False alarm: another SM that writes
//! PortInfo.

use core::time::Duration;

use verbatim_record::{Findings, Gap, Label, Trace, duration_words};
use verbatim_tester::{Need, Parameter, Step, Test, Tester};
use verbatim_wire::{NodeInfo, PortInfo};

use super::c14_017_lease::{PROBE, elapsed, seen_by_the_device};
use crate::management::keys::{self, BEFORE};

const WRONG: Label<NodeInfo> = Label::new("wrong key");

pub(super) static TEST: Test = Test {
    id: "c14-017-lease-zero",
    aliases: &["C14_017_05"],
    revision: 1,
    about: "With lease period 0 a port stays protected, however long after a failed check.",
    reading: "The test waits wait_s seconds; an observation states for how long the lease was not seen to expire.",
    statements: &["C14-21", "C14-24", "C14-26"],
    needs: &[Need::Mad, Need::OwnSubnet],
    parameters: &[Parameter {
        name: "wait_s",
        about: "seconds to wait after the failed check",
        range: (1, 1_000_000),
        simulated: 65_537,
        default: 61,
    }],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let (ours, [other, ..]) = keys::keys(t);
    keys::lock(t, ours, 2, 0, 1)?;
    let began = t.now();
    t.get_once(WRONG, other)?;
    let wait = Duration::from_secs(t.parameter("wait_s"));
    t.wait_until(began.after(wait))?;
    t.get(PROBE, ours)?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    if !keys::locked(t, f)? {
        return Ok(());
    }
    let before: PortInfo = t.answer(BEFORE)?;
    let violation = t.exchange(WRONG)?;
    keys::require_dropped(t, WRONG, violation)?;
    seen_by_the_device(t, 1)?;
    let (least, _) = elapsed(t, violation, t.exchange(PROBE)?)?;
    if f.same_fields("C14-21", t.exchange(PROBE)?, &["M_KeyProtectBits"], &before)? {
        f.observe(
            format!("the lease was not seen to expire in {}", duration_words(least)),
            &[],
        );
    }
    Ok(())
}
