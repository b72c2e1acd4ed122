//! `c14-017-lease-reset` (C14_017_03): a right-key SMP stops a running lease timer.
//!
//! A correct port that had a failed check, then a right-key Get half a period later, is still protected when the
//! period has passed since the failed check. False alarm: an SM of somebody else: such rigs do not offer what this
//! test needs.

use core::time::Duration;

use verbatim_record::{Findings, Gap, Label, Passed, Trace, duration_words};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::{NodeInfo, PortInfo};

use super::c14_017_lease::{Halves, PROBE, elapsed, seen_by_the_device, timing};
use crate::management::keys::{self, BEFORE};

const WRONG: Label<NodeInfo> = Label::new("wrong key, starts the timer");
const RESET: Label<NodeInfo> = Label::new("right key, stops the timer");

/// A right key stops the timer.
pub(super) static TEST: Test = Test {
    id: "c14-017-lease-reset",
    aliases: &["C14_017_03"],
    revision: 1,
    about: "A right-key Get stops a running lease timer: the port stays protected past the lease period.",
    reading: "The right-key Get comes half a period after the failed check, the probe a second past the period.",
    statements: &["C14-19", "C14-24", "C14-26"],
    needs: &[Need::Mad, Need::OwnSubnet],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let (ours, [other, ..]) = keys::keys(t);
    let Halves { lease, half, slack } = Halves::of(t);
    keys::lock(t, ours, 2, lease, 1)?;
    let began = t.now();
    t.get_once(WRONG, other)?;
    t.wait_until(began.after(Duration::from_secs(half)))?;
    t.get(RESET, ours)?;
    t.wait_until(began.after(Duration::from_secs(u64::from(lease) + 1 + slack)))?;
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
    let lease = before.m_key_lease_period().duration().unwrap_or(Duration::MAX);
    let reset = t.exchange(RESET)?;
    t.answered::<NodeInfo>(reset)?;
    let (_, reset_at) = elapsed(t, violation, reset)?;
    t.require(RESET, "a right key before the lease expired", reset_at < lease)?;
    let probe = t.exchange(PROBE)?;
    seen_by_the_device(t, 1)?;
    let seen: PortInfo = t.answer(PROBE)?;
    let (least, most) = elapsed(t, violation, probe)?;
    let result = match (seen.protect_bits() == before.protect_bits(), least > lease) {
        (_, false) => Passed::Inconclusive,
        (true, true) => Passed::Pass,
        (false, true) => Passed::Fail,
    };
    let timing = timing(&before, &seen, least, most);
    f.claim("C14-19", "M_KeyProtectBits")
        .by_all([violation, reset, probe])
        .saw(format!(
            "{timing}, right key after {} at most",
            duration_words(reset_at)
        ))
        .comes_to(format!("{}: the timer was stopped", before.protect_bits()), result);
    Ok(())
}
