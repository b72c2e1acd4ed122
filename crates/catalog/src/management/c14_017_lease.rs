//! `c14-017-lease-not-early`, `c14-017-lease-expires`, `c14-017-lease-expires-after-set` (C14_017_01): a failed check
//! starts the lease timer. When it expires, and not before, the protect bits become 0. The M_Key stays.
//!
//! Reading: the lease period is a number of whole seconds, and the specification states no accuracy. One run
//! therefore probes a second before the expiry, and another a second after it. The probe is a single right-key
//! Get, because a right key stops the timer. The test repeats the probe only if no response arrives. Between the
//! violation and the probe the test sends nothing else to the port. If the rig has a path to a second port of the
//! node, `c14-017-lease-expires` reads NodeInfo there; this must not affect the first port's lease. False alarm:
//! another SM whose sweep stops the timer; these tests run only on rigs without another SM.

use core::time::Duration;

use verbatim_oracle::management::accuracy;
use verbatim_record::{Exchange, Findings, Gap, Label, Passed, Trace, duration_words};
use verbatim_tester::{Judge, Need, Procedure, Step, Test, Tester};
use verbatim_wire::values::ProtectBits;
use verbatim_wire::{NodeInfo, Notice, PortInfo};

use crate::management::keys::{self, BEFORE, NODE};

const WRONG: Label<NodeInfo> = Label::new("wrong key, starts the timer");
const WRONG_SET: Label<PortInfo> = Label::new("wrong-key Set, starts the timer");
const WRONG_REPRESS: Label<Notice> = Label::new("wrong-key TrapRepress, starts the timer");
/// A right-key SMP to the other port.
const SECOND: Label<NodeInfo> = Label::new("NodeInfo, through the second port");
/// The Get of PortInfo at the decisive time of the lease tests.
pub(super) const PROBE: Label<PortInfo> = Label::new("right key, the one probe");

/// The longest usual response time of a probe. A longer time makes the test inconclusive.
const ANSWER: Duration = Duration::from_millis(200);

const READING: &str = "One run probes at LeasePeriod - 1 s, another at + 1 s. Times are spans: a probe whose \
    span contains the expiry is inconclusive. The period is longer than the proof of silence.";

const fn test(id: &'static str, about: &'static str, procedure: Procedure, judge: Judge) -> Test {
    Test {
        id,
        aliases: &["C14_017_01"],
        revision: 1,
        about,
        reading: READING,
        statements: &["C14-17", "C14-20", "C14-24", "C14-26"],
        needs: &[Need::Mad, Need::OwnSubnet],
        parameters: &[],
        procedure,
        judge,
    }
}

pub(super) static NOT_EARLY: Test = test(
    "c14-017-lease-not-early",
    "A second before the lease period has passed since a failed check, the port is still protected.",
    |t| procedure(t, Start::Get, Probe::Before),
    |t, f| judge(t, f, Start::Get, Probe::Before),
);
pub(super) static EXPIRES: Test = Test {
    // Revision 2 also sends a request to a second port.
    revision: 2,
    ..test(
        "c14-017-lease-expires",
        "A second after the lease period has passed since a failed Get, the protect bits are 0 and the key is kept.",
        |t| procedure(t, Start::Get, Probe::After),
        |t, f| judge(t, f, Start::Get, Probe::After),
    )
};
/// A failed Set at level 1 also starts the timer.
pub(super) static EXPIRES_AFTER_SET: Test = test(
    "c14-017-lease-expires-after-set",
    "A second after the lease period has passed since a failed Set, the protect bits are 0 and the key is kept.",
    |t| procedure(t, Start::Set, Probe::After),
    |t, f| judge(t, f, Start::Set, Probe::After),
);

/// A failed TrapRepress at level 1 also starts the timer.
pub(super) static EXPIRES_AFTER_TRAP_REPRESS: Test = Test {
    // Revision 2 does not apply to a port that sends no traps, because such a port need not handle TrapRepress.
    revision: 2,
    ..test(
        "c14-017-lease-expires-after-trap-repress",
        "A second after the lease period has passed since a failed TrapRepress, the protect bits are 0 and the key is kept.",
        |t| procedure(t, Start::TrapRepress, Probe::After),
        |t, f| judge(t, f, Start::TrapRepress, Probe::After),
    )
};

/// The request that fails the check.
#[derive(Clone, Copy, PartialEq)]
enum Start {
    /// A Get at level 2.
    Get,
    /// A Set at level 1.
    Set,
    /// A TrapRepress at level 1.
    TrapRepress,
}

/// The time of the probe, relative to the expiry.
#[derive(Clone, Copy, PartialEq)]
enum Probe {
    Before,
    After,
}

fn procedure(t: &mut Tester<'_>, start: Start, probe: Probe) -> Step {
    let (ours, [other, ..]) = keys::keys(t);
    let lease = u16::try_from(t.silence().as_secs() + t.way().as_secs() + 7).unwrap_or(u16::MAX);
    let level = if start == Start::Get { 2 } else { 1 };
    let port = keys::lock(t, ours, level, lease, 1)?;
    let asks_second = (start, probe) == (Start::Get, Probe::After) && t.rig_offers(Need::SecondPort);
    let has_second = asks_second && t.get(NODE, ours)?.num_ports() > 1;
    let began = t.now();
    match start {
        Start::Get => {
            t.get_once(WRONG, other)?;
            if has_second {
                t.ask_from(1, SECOND, t.rig_key())?;
            }
        }
        Start::TrapRepress => {
            t.repress(WRONG_REPRESS, other, &keys::bad_m_key_notice())?;
        }
        Start::Set => {
            let found = port.found().local_phy_errors();
            let locked = keys::protected(&port, ours, level, lease);
            let value = locked.change(|info| info.with_local_phy_errors(found ^ 1));
            t.set_once(WRONG_SET, &port, (other, 0), value)?;
        }
    }
    let at = if probe == Probe::Before {
        just_before(t, lease)
    } else {
        just_after(t, lease)
    };
    t.wait_until(began.after(at))?;
    t.get(PROBE, ours)?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>, start: Start, probe: Probe) -> Result<(), Gap> {
    if !keys::locked(t, f)? {
        return Ok(());
    }
    for label in [NODE, SECOND] {
        if t.has(label) {
            t.not_judged(label);
        }
    }
    let before: PortInfo = t.answer(BEFORE)?;
    let violation = match start {
        Start::Get => t.exchange(WRONG)?,
        Start::Set => t.exchange(WRONG_SET)?,
        Start::TrapRepress => t.exchange(WRONG_REPRESS)?,
    };
    // Another test covers the check itself. Here the check must have failed, otherwise no timer runs.
    keys::require_dropped(t, WRONG, violation)?;
    let seen: PortInfo = t.answer(PROBE)?;
    let (least, most) = elapsed(t, violation, t.exchange(PROBE)?)?;
    let lease = before.m_key_lease_period().duration().unwrap_or(Duration::MAX);
    let timing = timing(&before, &seen, least, most);
    let counted = seen_by_the_device(t, 1);
    if matches!(start, Start::TrapRepress) && verbatim_oracle::management::sends_no_traps(&before) && counted.is_err() {
        f.not_applicable = Some(keys::NO_TRAPS.into());
        return Ok(());
    }
    counted?;
    match probe {
        Probe::Before => {
            let result = not_expired(seen.protect_bits() == before.protect_bits(), most, lease);
            let expected = format!("{} until the lease period has passed", before.protect_bits());
            f.claim("C14-20", "M_KeyProtectBits")
                .by(violation)
                .on(PROBE)
                .saw(timing)
                .comes_to(expected, result);
        }
        Probe::After => {
            let result = if seen.protect_bits() == ProtectBits(0) {
                if least > lease {
                    Passed::Pass
                } else {
                    Passed::Inconclusive
                }
            } else if least >= lease + accuracy(lease) {
                Passed::Fail
            } else {
                Passed::Inconclusive
            };
            // A timer that never started looks like a timer that never expires, so both statements fail.
            for (statement, about) in [
                ("C14-17", "lease timer started by the failed check"),
                ("C14-20", "M_KeyProtectBits"),
            ] {
                f.claim(statement, about)
                    .by(violation)
                    .on(PROBE)
                    .saw(&timing)
                    .comes_to("0 once the lease period has passed", result);
            }
        }
    }
    f.same_fields("C14-20", t.exchange(PROBE)?, &["M_Key"], &before)?;
    Ok(())
}

/// Returns the time of a probe that arrives at least a second before the lease expires, even if the path and the
/// response are slow.
pub(super) fn just_before(t: &Tester<'_>, lease: u16) -> Duration {
    let lease = Duration::from_secs(lease.into());
    let margin = accuracy(lease) + 2 * t.way() + ANSWER;
    lease.saturating_sub(margin)
}

/// Returns the time of a probe that arrives at least a second after the lease expires.
pub(super) fn just_after(t: &Tester<'_>, lease: u16) -> Duration {
    let lease = Duration::from_secs(lease.into());
    lease + accuracy(lease) + 2 * t.way() + ANSWER
}

/// Describes the probe's protect bits and time.
pub(super) fn timing(before: &PortInfo, seen: &PortInfo, least: Duration, most: Duration) -> String {
    format!(
        "{} after {}..{}, lease period {}",
        seen.protect_bits(),
        duration_words(least),
        duration_words(most),
        before.m_key_lease_period()
    )
}

/// The times of the tests in which a right-key SMP follows half a lease period after the failed check.
pub(super) struct Halves {
    /// The lease period in seconds.
    pub(super) lease: u16,
    /// The seconds until the right-key SMP.
    pub(super) half: u64,
    /// The longest travel time in seconds, plus one.
    pub(super) slack: u64,
}

impl Halves {
    pub(super) fn of(t: &Tester<'_>) -> Self {
        let slack = t.way().as_secs() + 1;
        let half = t.silence().as_secs() + slack + 4;
        let lease = u16::try_from(2 * half).unwrap_or(u16::MAX);
        Self { lease, half, slack }
    }
}

/// Judges a port that must still be protected. A protected port passes if the longest possible time since the
/// failed check, `most`, is before the expiry. An unprotected port fails if `most` is before the expiry by at
/// least the tolerance of the lease period.
pub(super) fn not_expired(protected: bool, most: Duration, lease: Duration) -> Passed {
    match protected {
        true if most < lease => Passed::Pass,
        false if most + accuracy(lease) <= lease => Passed::Fail,
        _ => Passed::Inconclusive,
    }
}

/// Requires that the device's counter shows the failed check that starts the timer. If the packet was lost instead, the
/// timer never started, and the test cannot check it.
pub(super) fn seen_by_the_device(t: &Trace, violations: u16) -> Result<(), Gap> {
    let before: PortInfo = t.answer(BEFORE)?;
    let seen: PortInfo = t.answer(PROBE)?;
    let grown = seen.m_key_violations().wrapping_sub(before.m_key_violations());
    t.require(PROBE, "a failed check that the device counted", grown >= violations)
}

/// Returns the least and the greatest possible time between the device's receipt of two exchanges.
pub(super) fn elapsed(t: &Trace, first: &Exchange, second: &Exchange) -> Result<(Duration, Duration), Gap> {
    elapsed_between(t, &t.answer(BEFORE)?, first, second)
}

/// Returns the time as [`elapsed`] does, for a port whose PortInfo has another label.
pub(super) fn elapsed_between(
    t: &Trace,
    port: &PortInfo,
    first: &Exchange,
    second: &Exchange,
) -> Result<(Duration, Duration), Gap> {
    let answered = second.answer().ok_or(Gap::NoAnswer(second.number))?;
    // A port that responded BUSY at first may still have checked the key.
    let first_try = t.first_try(first);
    let slack = if t.begin.simulated {
        Duration::ZERO
    } else {
        t.way(port) + t.begin.host_bound
    };
    let least = second.sent.earliest.since(first.sent.latest.after(slack));
    let most = answered.at.latest.since(first_try.sent.earliest);
    Ok((least, t.begin.at_most(most)))
}
