//! `c14-016-key-bits`: the M_Key check covers all 64 bits.
//!
//! At protect level 2 the test sends a Get, then a Set, with each of the 64 keys that differ in one bit. The port must
//! drop and count all of them, and store nothing. The test then sets another key; the port must also drop a Get with
//! the former key. Reading: the Sets try to change LocalPhyErrors. Many requests are outstanding at once, up to the
//! number that the port counted in a first burst. VL 15 may lose requests, so on hardware a lower count is
//! inconclusive. False alarm: another SM that sends wrong keys during the test.

use core::time::Duration;

use verbatim_record::{Exchange, Findings, Gap, Label, Passed, Trace};
use verbatim_tester::{HANDLED, Need, Step, Test, Tester};
use verbatim_wire::{AnyAttribute, AttributeId, MKey, PortInfo};

use crate::management::keys::{self, AFTER, BEFORE};

const GETS: Label<AnyAttribute> = Label::new("Gets with a key that is one bit off");
const SETS: Label<PortInfo> = Label::new("Sets with a key that is one bit off");
const LOCK_AGAIN: Label<PortInfo> = Label::new("set another key");
const FORMER: Label<PortInfo> = Label::new("Get with the key of before");
const LAST: Label<PortInfo> = Label::new("the other key, at the end");
/// The number of keys that differ in one bit.
const BITS: u16 = 64;

pub(super) static TEST: Test = Test {
    id: "c14-016-key-bits",
    aliases: &[],
    // Revision 4 waits for all silences together.
    revision: 4,
    about: "At protect level 2 a Get or Set whose M_Key is wrong in any one bit is dropped and counted.",
    reading: "The Sets would change LocalPhyErrors. On hardware a count below the number of violations is \
        inconclusive, since a burst may lose packets.",
    statements: &["C14-16", "C14-24", "C14-26", "C14-29"],
    needs: &[Need::Mad],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let (ours, [other, ..]) = keys::keys(t);
    let lease = t.longer_than(2 * usize::from(BITS));
    let port = keys::lock_with_room(t, (ours, other), 2, lease, 2 * BITS)?;
    let off: Vec<MKey> = (0..BITS).map(|bit| MKey(ours.0 ^ (1 << bit))).collect();
    let gets: Vec<_> = off.iter().map(|key| (AttributeId::PORT_INFO, 0, *key)).collect();
    t.provoke_soon(GETS, &gets)?;
    let threshold = port.found().local_phy_errors();
    let value = keys::protected(&port, ours, 2, lease).change(|info| info.with_local_phy_errors(threshold ^ 1));
    t.provoke_by_set_soon(SETS, &port, 0, value, &off)?;
    t.wait_out(Duration::ZERO)?;
    t.get(AFTER, ours)?;
    // The replaced key is now a wrong key.
    t.set(LOCK_AGAIN, &port, keys::protected(&port, other, 2, lease))?;
    t.get_once(FORMER, ours)?;
    t.get(LAST, other)?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    t.not_judged(HANDLED);
    if !keys::locked(t, f)? {
        return Ok(());
    }
    let before: PortInfo = t.answer(BEFORE)?;
    dropped(t, f, before.m_key(), "Gets", t.each(GETS));
    dropped(t, f, before.m_key(), "Sets", t.each(SETS));
    f.same_fields("C14-16", t.exchange(AFTER)?, &["LocalPhyErrors"], &before)?;
    keys::counted(t, f, usize::from(2 * BITS), usize::from(2 * BITS))?;
    t.not_judged(LOCK_AGAIN);
    t.exchange(LAST)?;
    keys::require_dropped(t, FORMER, t.exchange(FORMER)?)
}

/// Checks that none of the exchanges got a response. The check names the wrong bits of the answered exchanges.
fn dropped<'t>(
    t: &Trace,
    f: &mut Findings<'_>,
    key: MKey,
    method: &str,
    exchanges: impl Iterator<Item = &'t Exchange>,
) {
    let (silent, rest): (Vec<_>, Vec<_>) = exchanges.partition(|exchange| exchange.is_silent(&t.begin));
    let answered: Vec<_> = rest
        .into_iter()
        .filter(|exchange| exchange.response().is_some() && !exchange.is_busy())
        .collect();
    let bits = answered
        .iter()
        .map(|of| (of.request.m_key().0 ^ key.0).trailing_zeros().to_string());
    let bits: Vec<_> = bits.collect();
    let result = match (answered.is_empty(), silent.len()) {
        (false, _) => Passed::Fail,
        (true, silent) if silent == usize::from(BITS) => Passed::Pass,
        _ => Passed::Inconclusive,
    };
    let seen = if bits.is_empty() {
        format!("{} dropped", silent.len())
    } else {
        format!("answers to keys that differ in bit {}", bits.join(", "))
    };
    f.claim("C14-16", format!("{method} with a key that is one bit off"))
        .by_all(answered)
        .saw(seen)
        .comes_to(format!("{BITS} dropped"), result);
}
