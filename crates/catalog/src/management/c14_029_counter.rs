//! `c14-029-counter`: M_KeyViolations does not change when it is read, counts many violations, and stops at 0xFFFF. A
//! Set of 0 clears the counter from any value.
//!
//! Reading: VL 15 may lose packets of a burst. The test therefore sends at most as many packets at once as the
//! port counted in a first burst. On hardware a count below the number sent is still inconclusive. The port must
//! then count three more violations, each sent alone, or stay at 0xFFFF; one of the three may be lost. Reads in
//! between must never show a smaller value. `violations` exceeds 0xFFFF on a simulated rig, and 255 on hardware,
//! where up to 64 outstanding requests take the time of proven silence. False alarm: another SM that sends
//! wrong keys or resets the counter during the test.

use core::time::Duration;

use verbatim_record::{Findings, Gap, Label, Passed, Trace};
use verbatim_tester::{HANDLED, Need, Parameter, Step, Test, Tester};
use verbatim_wire::{Attribute, PortInfo};

use crate::management::keys::{self, BEFORE};

const AGAIN: Label<PortInfo> = Label::new("right key, read again");
const BURST: Label<PortInfo> = Label::new("wrong key, many times");
const MANY: Label<PortInfo> = Label::new("right key, after many violations");
/// Three violations, of which a fabric may lose one.
const MORE: [Label<PortInfo>; 3] = [
    Label::new("wrong key, once more"),
    Label::new("wrong key, twice more"),
    Label::new("wrong key, three times more"),
];
const LAST: Label<PortInfo> = Label::new("right key, after one more violation");
const CLEAR: Label<PortInfo> = Label::new("set M_KeyViolations to 0");
const CLEARED: Label<PortInfo> = Label::new("right key, after that");

/// The number of violations between two reads of the counter. Each read also stops the lease timer.
const PART: u64 = 2048;

pub(super) static TEST: Test = Test {
    id: "c14-029-counter",
    aliases: &[],
    // Revision 4 waits for the silences of more requests together.
    revision: 4,
    about: "M_KeyViolations does not change when it is read, counts beyond 255, stops at 0xFFFF, and is cleared by a \
        Set to 0.",
    reading: "A burst may lose packets on hardware; there, three more violations decide, each sent alone.",
    statements: &["C14-29", "C14-24", "C14-26"],
    needs: &[Need::Mad],
    parameters: &[Parameter {
        name: "violations",
        about: "wrong-key Gets sent in bursts before the single one",
        range: (1, 100_000),
        simulated: 65_540,
        default: 300,
    }],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let (ours, [other, ..]) = keys::keys(t);
    let count = t.parameter("violations");
    // In the worst case the window holds a single request, and each request takes the time of proven silence. The lease
    // must outlast a part.
    let lease = t.longer_than(usize::try_from(count.min(PART)).unwrap_or(usize::MAX));
    let port = keys::lock_with_room(t, (ours, other), 2, lease, 1)?;
    t.get(AGAIN, ours)?;
    let mut left = count;
    while left > 0 {
        let part = left.min(PART);
        let wrong = vec![(PortInfo::ID, 0, other); usize::try_from(part).unwrap_or(0)];
        t.provoke_soon(BURST, &wrong)?;
        t.wait_out(Duration::ZERO)?;
        t.get(MANY, ours)?;
        left -= part;
    }
    for label in MORE {
        t.get_once(label, other)?;
    }
    t.get(LAST, ours)?;
    // A Set of 0 must work from any value.
    let cleared = keys::protected(&port, ours, 2, lease).change(|info| info.with_m_key_violations(0));
    t.set(CLEAR, &port, cleared)?;
    t.get(CLEARED, ours)?;
    Ok(())
}

/// Describes the violations that a busy port may or may not have counted.
fn or_more(busy: usize) -> String {
    if busy == 0 {
        String::new()
    } else {
        format!(", and up to {busy} that found the port busy")
    }
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    t.not_judged(HANDLED);
    if !keys::locked(t, f)? {
        return Ok(());
    }
    let before: PortInfo = t.answer(BEFORE)?;
    let key = before.m_key();
    let again: PortInfo = t.answer(AGAIN)?;
    let (before, again) = (before.m_key_violations(), again.m_key_violations());
    let twice = match again == before {
        true => Passed::Pass,
        false if t.begin.shared_subnet => Passed::Inconclusive,
        false => Passed::Fail,
    };
    f.claim("C14-29", "M_KeyViolations read twice")
        .on(AGAIN)
        .saw(again)
        .comes_to(before.to_string(), twice);
    let sent = t.each(BURST).filter(|exchange| !exchange.is_busy()).count();
    let last_read = t.each(MANY).last().ok_or(Gap::Missing(MANY.name))?;
    let busy = t.busy_with_another_key(key, t.exchange(AGAIN)?, last_read);
    let mut many = again;
    for exchange in t
        .each(MANY)
        .filter(|exchange| exchange.answer().is_some() && !exchange.is_busy())
    {
        let read = t.answered::<PortInfo>(exchange)?.m_key_violations();
        // A lost packet cannot decrease the counter.
        if read < many && !t.begin.shared_subnet {
            f.claim("C14-29", "M_KeyViolations after more violations")
                .by(exchange)
                .saw(read)
                .comes_to(format!("{many} or more"), Passed::Fail);
        }
        many = read;
    }
    let wanted = (usize::from(again) + sent).min(0xFFFF);
    let result = match (wanted..=(wanted + busy).min(0xFFFF)).contains(&usize::from(many)) {
        true => Passed::Pass,
        false if t.begin.simulated => Passed::Fail,
        false => Passed::Inconclusive,
    };
    let expected = format!("{wanted}: {again} + {sent} violations, at most 0xFFFF{}", or_more(busy));
    f.claim("C14-29", "M_KeyViolations after many violations")
        .on(MANY)
        .saw(many)
        .comes_to(expected, result);
    for label in MORE {
        keys::require_dropped(t, label, t.exchange(label)?)?;
    }
    t.not_judged(CLEAR);
    let cleared: PortInfo = t.answer(CLEARED)?;
    let result = match cleared.m_key_violations() {
        0 => Passed::Pass,
        // Other nodes of the subnet may have sent wrong keys after the Set.
        _ if t.begin.shared_subnet => Passed::Inconclusive,
        _ => Passed::Fail,
    };
    f.claim("C14-29", "M_KeyViolations after a Set to 0")
        .on(CLEARED)
        .saw(cleared.m_key_violations())
        .comes_to("0", result);
    let last: PortInfo = t.answer(LAST)?;
    let last = last.m_key_violations();
    let wanted = many.saturating_add(3);
    let busy = t.busy_with_another_key(key, last_read, t.exchange(LAST)?);
    let counted = last.saturating_sub(wanted);
    let result = match wanted.checked_sub(last) {
        None if usize::from(counted) <= busy => Passed::Pass,
        Some(0) => Passed::Pass,
        Some(1) if !t.begin.simulated => Passed::Inconclusive,
        _ if t.begin.shared_subnet => Passed::Inconclusive,
        _ => Passed::Fail,
    };
    let expected = format!("{wanted}: {many} + 3 violations, at most 0xFFFF{}", or_more(busy));
    f.claim("C14-29", "M_KeyViolations after three more")
        .on(MANY)
        .on(LAST)
        .saw(last)
        .comes_to(expected, result);
    Ok(())
}
