//! `c14-024-violation-counters` (C14_024_06_CA_02): a Set of 0 clears the violation counters.
//!
//! A wrong-key Set increments M_KeyViolations. A second Set writes non-zero values to all three counters; their values
//! after this Set are only an observation. A third Set writes 0, and the counters must then be 0. Reading: the effect
//! of a non-zero value is undefined, as far as known; reference agents ignore it, and a device that stores it conforms
//! too. The test does not increment P_KeyViolations and Q_KeyViolations, so it judges whether their original values
//! become 0, and allows for increments by other nodes. False alarm: none known.

use verbatim_record::{Exchange, Findings, Gap, Label, Passed, Trace};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::PortInfo;

use crate::management::keys::{self, AFTER, BEFORE, FOUND};

const WRONG: Label<PortInfo> = Label::new("wrong key, set LocalPhyErrors");
const COUNTED: Label<PortInfo> = Label::new("right key, after a violation");
const WRITE: Label<PortInfo> = Label::new("right key, set the counters to other values");
const WRITTEN: Label<PortInfo> = Label::new("right key, after setting other values");
const CLEAR: Label<PortInfo> = Label::new("right key, set the counters to 0");

/// The amount by which the written value differs from the counter: more than other nodes can add during the test.
const FAR: u16 = 0x1000;

pub(super) static TEST: Test = Test {
    id: "c14-024-violation-counters",
    aliases: &["C14_024_06_CA_02"],
    revision: 2,
    about: "A Set of 0 zeroes the violation counters of PortInfo.",
    reading: "The effect of a Set to another value is an observation. P_KeyViolations and Q_KeyViolations are judged \
        from the values found.",
    statements: &["C14-24", "C14-26"],
    needs: &[Need::Mad],
    parameters: &[],
    procedure,
    judge,
};

/// Returns a value that differs from the counter by [`FAR`], and is neither 0 nor 0xFFFF.
fn other(counter: u16) -> u16 {
    if counter < 0x8000 { counter + FAR } else { counter - FAR }
}

fn procedure(t: &mut Tester<'_>) -> Step {
    let (ours, others) = keys::keys(t);
    let lease = t.longer_than_this_test();
    let port = keys::lock(t, ours, 0, lease, 1)?;
    let locked = keys::protected(&port, ours, 0, lease);
    let threshold = port.found().local_phy_errors();
    let wrong = locked.change(|info| info.with_local_phy_errors(threshold ^ 1));
    t.set_once(WRONG, &port, (others[0], 0), wrong)?;
    let counted = t.get(COUNTED, ours)?;
    let written = locked.change(|info| {
        info.with_m_key_violations(other(counted.m_key_violations()))
            .with_p_key_violations(other(counted.p_key_violations()))
            .with_q_key_violations(other(counted.q_key_violations()))
    });
    t.set(WRITE, &port, written)?;
    t.get(WRITTEN, ours)?;
    let cleared = locked.change(|info| {
        info.with_m_key_violations(0)
            .with_p_key_violations(0)
            .with_q_key_violations(0)
    });
    t.set(CLEAR, &port, cleared)?;
    t.get(AFTER, ours)?;
    Ok(())
}

/// A function that returns a counter.
type Counter = fn(&PortInfo) -> u16;

const COUNTERS: [(&str, Counter); 3] = [
    ("M_KeyViolations", PortInfo::m_key_violations),
    ("P_KeyViolations", PortInfo::p_key_violations),
    ("Q_KeyViolations", PortInfo::q_key_violations),
];

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    if !keys::locked(t, f)? {
        return Ok(());
    }
    let found: PortInfo = t.answer(FOUND)?;
    let before: PortInfo = t.answer(BEFORE)?;
    let counted: PortInfo = t.answer(COUNTED)?;
    let wrong = t.exchange(WRONG)?; // other tests check that the port dropped it
    if counted.m_key_violations() == before.m_key_violations() {
        f.observe(
            "the port did not count the wrong-key Set; tests of C14-29 judge that",
            &[wrong],
        );
    }
    for (set, read) in [(WRITE, WRITTEN), (CLEAR, AFTER)] {
        keys::obeyed(t, f, "C14-26", (&found, set), (read, &keys::LOCKED))?;
    }
    let written: PortInfo = t.answer(WRITTEN)?;
    let cleared: PortInfo = t.answer(AFTER)?;
    let stayed = [t.exchange(COUNTED)?, t.exchange(WRITE)?, t.exchange(WRITTEN)?];
    let zeroed = [t.exchange(WRITTEN)?, t.exchange(CLEAR)?, t.exchange(AFTER)?];
    for (name, of) in COUNTERS {
        if of(&counted) != of(&written) {
            let wanted = of(&t.asked(WRITE)?.1);
            f.observe_ambiguous(
                format!(
                    "{name}: {} before a Set to {wanted}, {} after it",
                    of(&counted),
                    of(&written)
                ),
                &stayed,
            );
        }
        is_zero(t, f, &zeroed, name, of(&written), of(&cleared));
    }
    Ok(())
}

/// Checks that a counter is 0 after a Set of 0. A smaller value than before is inconclusive, because other nodes may
/// have incremented the counter after the Set. On a shared subnet, any value above 0 is inconclusive. Any node may send
/// packets with a wrong P_Key or Q_Key, so on hardware these two counters fail only with an unchanged value above 0.
fn is_zero(t: &Trace, f: &mut Findings<'_>, evidence: &[&Exchange], name: &str, before: u16, after: u16) {
    let by_others = !t.begin.simulated && name != "M_KeyViolations" && (after != before || before == 0);
    let result = match after {
        0 => Passed::Pass,
        _ if after < before || by_others || t.begin.shared_subnet => Passed::Inconclusive,
        _ => Passed::Fail,
    };
    f.claim("C14-24", format!("{name} after a Set of 0"))
        .by_all(evidence.iter().copied())
        .saw(after)
        .comes_to(0, result);
}
