//! `c14-017-lease-reload` (C14_017_03): a right-key SMP reloads the lease timer, so that the next failed check starts
//! it with the whole period.
//!
//! The port gets a wrong-key Get, a right-key Get half a period later, and another wrong-key Get. A conforming
//! port is still protected a second before the period has passed since the second wrong-key Get. False alarm:
//! another SM that changes the protect bits; the test runs only on rigs without another SM.

use core::time::Duration;

use verbatim_record::{Findings, Gap, Label, Trace};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::{NodeInfo, PortInfo};

use super::c14_017_lease::{Halves, PROBE, elapsed, not_expired, seen_by_the_device, timing};
use crate::management::keys::{self, BEFORE};

const FIRST: Label<NodeInfo> = Label::new("wrong key, starts the timer");
const RIGHT: Label<NodeInfo> = Label::new("right key, stops and reloads the timer");
const SECOND: Label<NodeInfo> = Label::new("wrong key, starts the timer anew");

pub(super) static TEST: Test = Test {
    id: "c14-017-lease-reload",
    aliases: &["C14_017_03"],
    revision: 1,
    about: "After a right-key Get the next failed check starts the lease timer from the whole period.",
    reading: "The probe comes a second before the period has passed since the second failed check.",
    statements: &["C14-19", "C14-24", "C14-26"],
    needs: &[Need::Mad, Need::OwnSubnet],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let (ours, [other, ..]) = keys::keys(t);
    let Halves { lease, half, slack } = Halves::of(t);
    keys::lock(t, ours, 2, lease, 2)?;
    let began = t.now();
    t.get_once(FIRST, other)?;
    t.wait_until(began.after(Duration::from_secs(half)))?;
    t.get(RIGHT, ours)?;
    let again = t.now();
    t.get_once(SECOND, other)?;
    t.wait_until(again.after(Duration::from_secs(u64::from(lease) - 1 - slack)))?;
    t.get(PROBE, ours)?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    if !keys::locked(t, f)? {
        return Ok(());
    }
    let before: PortInfo = t.answer(BEFORE)?;
    let lease = before.m_key_lease_period().duration().unwrap_or(Duration::MAX);
    let (first, right, second) = (t.exchange(FIRST)?, t.exchange(RIGHT)?, t.exchange(SECOND)?);
    keys::require_dropped(t, FIRST, first)?;
    t.answered::<NodeInfo>(right)?;
    let (_, right_at) = elapsed(t, first, right)?;
    t.require(RIGHT, "a right key before the lease expired", right_at < lease)?;
    keys::require_dropped(t, SECOND, second)?;
    let probe = t.exchange(PROBE)?;
    seen_by_the_device(t, 2)?;
    let seen: PortInfo = t.answer(PROBE)?;
    let (least, most) = elapsed(t, second, probe)?;
    let result = not_expired(seen.protect_bits() == before.protect_bits(), most, lease);
    let expected = format!(
        "{} until the whole lease period has passed again",
        before.protect_bits()
    );
    f.claim("C14-19", "M_KeyProtectBits")
        .by_all([first, right, second, probe])
        .saw(timing(&before, &seen, least, most))
        .comes_to(expected, result);
    Ok(())
}
