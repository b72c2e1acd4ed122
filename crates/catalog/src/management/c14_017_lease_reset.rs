//! `c14-017-lease-reset` (C14_017_03), `c14-017-lease-reset-by-set`, `c14-017-lease-reset-by-trap-repress`: a right-key
//! SMP stops a running lease timer.
//!
//! The port gets a wrong-key Get. About half a period later it gets a right-key Get, a Set of the current values,
//! or a TrapRepress. A conforming port is still protected when the period has passed since the wrong-key Get.
//! False alarm: another SM that changes the protect bits; the tests run only on rigs without another SM.

use core::time::Duration;

use verbatim_record::{Findings, Gap, Label, Passed, TRIES, Trace, duration_words};
use verbatim_tester::{Judge, Need, Procedure, Step, Test, Tester};
use verbatim_wire::{AnyAttribute, AttributeId, NodeInfo, Notice, PortInfo};

use super::c14_017_lease::{Halves, PROBE, elapsed, seen_by_the_device, timing};
use crate::management::keys::{self, BEFORE};

const WRONG: Label<NodeInfo> = Label::new("wrong key, starts the timer");
const WRONG_THRICE: Label<AnyAttribute> = Label::new("wrong key, three times, starts the timer");
const RESET: Label<NodeInfo> = Label::new("right key, stops the timer");
const RESET_BY_SET: Label<PortInfo> = Label::new("right key, a Set stops the timer");

const RESET_BY_REPRESS: Label<Notice> = Label::new("right key, a TrapRepress stops the timer");

/// The request that stops the timer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Get,
    Set,
    TrapRepress,
}

const fn test(
    id: &'static str,
    aliases: &'static [&'static str],
    about: &'static str,
    procedure: Procedure,
    judge: Judge,
) -> Test {
    Test {
        id,
        aliases,
        revision: 1,
        about,
        reading: "The right-key SMP comes half a period after the failed check, the probe a second past the period.",
        statements: &["C14-19", "C14-24", "C14-26"],
        needs: &[Need::Mad, Need::OwnSubnet],
        parameters: &[],
        procedure,
        judge,
    }
}

pub(super) static TEST: Test = test(
    "c14-017-lease-reset",
    &["C14_017_03"],
    "A right-key Get stops a running lease timer: the port stays protected past the lease period.",
    |t| procedure(t, By::Get),
    |t, f| judge(t, f, By::Get),
);

pub(super) static BY_SET: Test = test(
    "c14-017-lease-reset-by-set",
    &[],
    "A right-key Set stops a running lease timer: the port stays protected past the lease period.",
    |t| procedure(t, By::Set),
    |t, f| judge(t, f, By::Set),
);

pub(super) static BY_TRAP_REPRESS: Test = Test {
    // Revision 2 does not apply to a port that sends no traps, because such a port need not handle TrapRepress.
    revision: 2,
    ..test(
        "c14-017-lease-reset-by-trap-repress",
        &[],
        "A right-key TrapRepress stops a running lease timer: the port stays protected past the lease period.",
        |t| procedure(t, By::TrapRepress),
        |t, f| judge(t, f, By::TrapRepress),
    )
};

fn procedure(t: &mut Tester<'_>, by: By) -> Step {
    let (ours, [other, ..]) = keys::keys(t);
    let Halves { lease, half, slack } = Halves::of(t);
    let port = keys::lock(t, ours, 2, lease, 1)?;
    let mut began = t.now();
    if by == By::Set {
        // The Set overwrites the counter that would show a lost wrong-key Get, so the test sends three Gets: at least
        // one arrives.
        t.provoke(WRONG_THRICE, &[(AttributeId::NODE_INFO, 0, other); TRIES as usize])?;
        began = t.now();
    } else {
        t.get_once(WRONG, other)?;
        t.wait_until(began.after(Duration::from_secs(half)))?;
    }
    match by {
        By::Get => drop(t.get(RESET, ours)?),
        By::Set => drop(t.set(RESET_BY_SET, &port, keys::protected(&port, ours, 2, lease))?),
        // A TrapRepress gets no response, so the test sends three: at least one arrives.
        By::TrapRepress => t.repress_often(RESET_BY_REPRESS, ours, &keys::bad_m_key_notice())?,
    }
    t.wait_until(began.after(Duration::from_secs(u64::from(lease) + 1 + slack)))?;
    t.get(PROBE, ours)?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>, by: By) -> Result<(), Gap> {
    if !keys::locked(t, f)? {
        return Ok(());
    }
    let before: PortInfo = t.answer(BEFORE)?;
    let wrong: Vec<_> = if by == By::Set {
        t.each(WRONG_THRICE).collect()
    } else {
        vec![t.exchange(WRONG)?]
    };
    let (Some(first), Some(violation)) = (wrong.first().copied(), wrong.last().copied()) else {
        return Err(Gap::Missing(WRONG_THRICE.name));
    };
    for wrong in wrong.iter().filter(|of| by != By::Set || !of.is_busy()) {
        keys::require_dropped(t, WRONG, wrong)?;
    }
    let lease = before.m_key_lease_period().duration().unwrap_or(Duration::MAX);
    let reset = match by {
        By::Get => t.exchange(RESET)?,
        By::Set => t.exchange(RESET_BY_SET)?,
        By::TrapRepress => t
            .each(RESET_BY_REPRESS)
            .last()
            .ok_or(Gap::Missing(RESET_BY_REPRESS.name))?,
    };
    // A response proves that the request arrived; a port without LID may refuse the Set.
    if by != By::TrapRepress && (reset.answer().is_none() || reset.is_busy()) {
        t.answered::<NodeInfo>(reset)?;
    }
    let (_, reset_at) = match by {
        By::TrapRepress => (Duration::ZERO, reset.sent.latest.since(first.sent.earliest)),
        _ => elapsed(t, first, reset)?,
    };
    t.require(RESET, "a right key before the lease expired", reset_at < lease)?;
    let probe = t.exchange(PROBE)?;
    if by != By::Set {
        seen_by_the_device(t, 1)?;
    }
    let seen: PortInfo = t.answer(PROBE)?;
    let (least, most) = elapsed(t, violation, probe)?;
    let result = match (seen.protect_bits() == before.protect_bits(), least > lease) {
        (_, false) => Passed::Inconclusive,
        (true, true) => Passed::Pass,
        (false, true) => Passed::Fail,
    };
    let timing = timing(&before, &seen, least, most);
    if by == By::TrapRepress && verbatim_oracle::management::sends_no_traps(&before) && result == Passed::Fail {
        f.not_applicable = Some(keys::NO_TRAPS.into());
        return Ok(());
    }
    f.claim("C14-19", "M_KeyProtectBits")
        .by_all([violation, reset, probe])
        .saw(format!(
            "{timing}, right key after at most {}",
            duration_words(reset_at)
        ))
        .comes_to(
            format!("{}, since the right key stopped the timer", before.protect_bits()),
            result,
        );
    Ok(())
}
