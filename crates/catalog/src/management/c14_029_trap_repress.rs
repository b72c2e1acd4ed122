//! `c14-029-trap-repress`: a TrapRepress with a wrong M_Key is a violation at every protect level, including level 0.
//!
//! A conforming port counts the violation. No public test covers this behavior. A TrapRepress never gets a
//! response. Reading: a port that sends no traps may discard a TrapRepress without checking its key. Nothing
//! proves that a TrapRepress arrived, so the test sends each key three times, of which a fabric may lose one. The
//! wrong keys include 0, and keys that differ in one bit of either half. False alarm: another SM that sends wrong
//! keys or resets the counter during the test.

use core::time::Duration;

use verbatim_record::{Findings, Gap, Label, TRIES, Trace};
use verbatim_tester::{HANDLED, Need, Step, Test, Tester};
use verbatim_wire::{Notice, PortInfo};

use crate::management::keys::{self, AFTER, BEFORE};

const REPRESS: Label<Notice> = Label::new("wrong key, TrapRepress");

pub(super) static TEST: Test = Test {
    id: "c14-029-trap-repress",
    aliases: &[],
    // Revision 4 waits for all silences together.
    revision: 4,
    about: "A TrapRepress with another M_Key is counted as a violation, at level 0 too.",
    reading: "Judged at level 0, where a wrong-key Get is no violation.",
    statements: &["C14-29", "C14-16", "C14-24", "C14-26"],
    needs: &[Need::Mad],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let (ours, others) = keys::keys(t);
    let lease = t.longer_than_this_test();
    let each = u16::try_from(TRIES).unwrap_or(u16::MAX);
    keys::lock(t, ours, 0, lease, each * others.len() as u16)?;
    for other in others {
        for _ in 0..TRIES {
            t.repress_soon(REPRESS, other, &keys::bad_m_key_notice())?;
        }
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
    let before: PortInfo = t.answer(BEFORE)?;
    for exchange in t.each(REPRESS) {
        let key = exchange.request.m_key();
        t.require(REPRESS, "a key that is not the port's", key != before.m_key())?;
        f.silent("C14-16", exchange);
    }
    let after: PortInfo = t.answer(AFTER)?;
    if verbatim_oracle::management::sends_no_traps(&before) && after.m_key_violations() == before.m_key_violations() {
        f.not_applicable = Some(keys::NO_TRAPS.into());
        return Ok(());
    }
    keys::violations(t, f, t.each(REPRESS).count())
}
