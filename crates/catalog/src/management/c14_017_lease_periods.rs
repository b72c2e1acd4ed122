//! `c14-017-lease-periods`: the lease timer runs for exactly M_KeyLeasePeriod, and uses all 16 bits of it.
//!
//! For each of three periods the test locks the port, and a wrong-key Get starts the timer. A right-key Get a
//! second before the expiry stops the timer; the port must still be protected. Another wrong-key Get restarts the
//! timer. A right-key Get a second after the expiry must show protect bits 0. Reading: as in
//! `c14-017-lease-expires`. The test leaves out periods longer than `longest_s`, and reports the omission. False
//! alarm: another SM whose sweep stops the timer; the test runs only on rigs without another SM.

use core::time::Duration;

use verbatim_oracle::management::accuracy;
use verbatim_record::{Exchange, Findings, Gap, Label, Passed, Trace, duration_words};
use verbatim_tester::{Need, Parameter, Step, Test, Tester};
use verbatim_wire::values::ProtectBits;
use verbatim_wire::{NodeInfo, PortInfo};

use super::c14_017_lease::{elapsed_between, just_after, just_before, not_expired};
use crate::management::keys::{self, LOCKED};

/// The labels of one period.
struct Period {
    seconds: u16,
    set: Label<PortInfo>,
    before: Label<PortInfo>,
    starts: Label<NodeInfo>,
    early: Label<PortInfo>,
    again: Label<NodeInfo>,
    late: Label<PortInfo>,
}

/// Periods that need more than 8 bits, more than 12 bits, and all bits.
const PERIODS: [Period; 3] = [
    Period {
        seconds: 300,
        set: Label::new("set a lease of 300 s"),
        before: Label::new("300 s, before"),
        starts: Label::new("300 s, wrong key"),
        early: Label::new("300 s, right key a second before the end"),
        again: Label::new("300 s, wrong key again"),
        late: Label::new("300 s, right key a second after the end"),
    },
    Period {
        seconds: 4660,
        set: Label::new("set a lease of 4660 s"),
        before: Label::new("4660 s, before"),
        starts: Label::new("4660 s, wrong key"),
        early: Label::new("4660 s, right key a second before the end"),
        again: Label::new("4660 s, wrong key again"),
        late: Label::new("4660 s, right key a second after the end"),
    },
    Period {
        seconds: 65_535,
        set: Label::new("set a lease of 65535 s"),
        before: Label::new("65535 s, before"),
        starts: Label::new("65535 s, wrong key"),
        early: Label::new("65535 s, right key a second before the end"),
        again: Label::new("65535 s, wrong key again"),
        late: Label::new("65535 s, right key a second after the end"),
    },
];

pub(super) static TEST: Test = Test {
    id: "c14-017-lease-periods",
    aliases: &[],
    revision: 1,
    about: "Leases of 300, 4660 and 65535 s last that long: protected a second before the end, open a second after it.",
    reading: "Periods longer than longest_s are left out. A probe whose time span contains the expiry is inconclusive.",
    statements: &["C14-20", "C14-24", "C14-26"],
    needs: &[Need::Mad, Need::OwnSubnet],
    parameters: &[Parameter {
        name: "longest_s",
        about: "the longest lease period that is tried, in seconds",
        range: (300, 65_535),
        simulated: 65_535,
        default: 300,
    }],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let (ours, [other, ..]) = keys::keys(t);
    let longest = t.parameter("longest_s");
    let rig_key = t.rig_key();
    let port = t.guard(keys::FOUND, rig_key)?;
    for period in PERIODS.iter().filter(|period| u64::from(period.seconds) <= longest) {
        t.set(period.set, &port, keys::protected(&port, ours, 2, period.seconds))?;
        let shown = t.get(period.before, t.key())?;
        // A port without LID or SM may refuse the Set. Without a stored lease period there is no expiry to wait for.
        if (shown.m_key(), shown.m_key_lease_period().0) != (ours, period.seconds) {
            return Ok(());
        }
        let began = t.now();
        t.get_once(period.starts, other)?;
        t.wait_until(began.after(just_before(t, period.seconds)))?;
        t.get(period.early, ours)?;
        let began = t.now();
        t.get_once(period.again, other)?;
        t.wait_until(began.after(just_after(t, period.seconds)))?;
        t.get(period.late, ours)?;
    }
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let found: PortInfo = t.answer(keys::FOUND)?;
    let longest = t.parameter("longest_s").unwrap_or_default();
    for period in &PERIODS {
        if u64::from(period.seconds) > longest {
            f.observe(
                format!(
                    "a lease of {} s was not tried: it is longer than longest_s",
                    period.seconds
                ),
                &[],
            );
            continue;
        }
        keys::obeyed(t, f, "C14-26", (&found, period.set), (period.before, &LOCKED))?;
        let read = t.exchange(period.before)?;
        let (_, wanted) = t.asked(period.set)?;
        if !f.same_fields("C14-24", read, &LOCKED, &wanted)? {
            return Ok(());
        }
        let before: PortInfo = t.answer(period.before)?;
        let lease = Duration::from_secs(period.seconds.into());
        let mut last = before;
        for (start, probe) in [(period.starts, period.early), (period.again, period.late)] {
            let (start, probe) = (t.exchange(start)?, t.exchange(probe)?);
            t.require(period.starts, "a wrong key that was dropped", start.answer().is_none())?;
            let seen: PortInfo = t.answered(probe)?;
            let (least, most) = elapsed_between(t, &before, start, probe)?;
            let is_early = *probe.label == *period.early.name;
            // A lost packet starts no timer, so the device's counter must show the failed check. A busy port may have
            // counted each try's wrong key.
            let counted = seen.m_key_violations().wrapping_sub(last.m_key_violations());
            t.require(period.early, "a failed check that the device counted", counted >= 1)?;
            last = seen;
            let (expected, result) = if is_early {
                let protected = seen.protect_bits() == before.protect_bits();
                (before.protect_bits(), not_expired(protected, most, lease))
            } else {
                (ProtectBits(0), expired(&seen, least, lease))
            };
            let about = format!("M_KeyProtectBits, lease of {} s", period.seconds);
            claim(f, about, (start, probe), (&seen, least, most), expected, result);
        }
    }
    Ok(())
}

/// Judges a port whose lease must have expired.
fn expired(seen: &PortInfo, least: Duration, lease: Duration) -> Passed {
    match seen.protect_bits() == ProtectBits(0) {
        true if least > lease => Passed::Pass,
        false if least >= lease + accuracy(lease) => Passed::Fail,
        _ => Passed::Inconclusive,
    }
}

fn claim(
    f: &mut Findings<'_>,
    about: String,
    (start, probe): (&Exchange, &Exchange),
    (seen, least, most): (&PortInfo, Duration, Duration),
    expected: ProtectBits,
    result: Passed,
) {
    let timing = format!(
        "{} after {}..{}",
        seen.protect_bits(),
        duration_words(least),
        duration_words(most)
    );
    f.claim("C14-20", about)
        .by_all([start, probe])
        .saw(timing)
        .comes_to(expected, result);
}
