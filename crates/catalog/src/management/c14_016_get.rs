//! `c14-016-get-protect-N` (C14_016_Get): the response to a Get with a wrong M_Key at each protect level.
//!
//! A conforming port responds at level 0, and responds with the key hidden at level 1. It drops and counts the Get at
//! levels 2 and 3. Reading: the public page runs level 2 "or" 3; this test runs both. The test reads the page's
//! "violations == 1" as an increase by 1. The right key is random. The test tries four wrong keys: a random key, two
//! keys that differ from the right key in one bit, and 0. If the port does not store the right key, C14-24 fails and
//! the test ends. False alarm: another SM that sends wrong keys during the test.

use core::time::Duration;

use verbatim_record::{Findings, Gap, Label, Trace};
use verbatim_tester::{HANDLED, Judge, Need, Procedure, Step, Test, Tester};
use verbatim_wire::{Attribute, MKey, NodeInfo, PortInfo, Status};

use crate::management::keys::{self, AFTER, BEFORE, NODE};

const WRONG: [Label<PortInfo>; 4] = [
    Label::new("wrong key"),
    Label::new("wrong key, high half"),
    Label::new("wrong key, low half"),
    Label::new("wrong key, 0"),
];
const WRONG_NODE: Label<NodeInfo> = Label::new("wrong key, NodeInfo");

const READING: &str = "Levels 2 and 3 are separate runs. Violations are judged as a difference. Four wrong keys: one \
    random, two that differ from the right one in a single bit, and 0. No answer is proven by the rule of silence, and \
    by a right-key Get afterwards.";

const fn test(id: &'static str, about: &'static str, procedure: Procedure, judge: Judge) -> Test {
    Test {
        id,
        aliases: &["C14_016_Get"],
        // Revision 2 waits for all silences together.
        revision: 2,
        about,
        reading: READING,
        statements: &["C14-16", "C14-24", "C14-26", "C14-29"],
        needs: &[Need::Mad],
        parameters: &[],
        procedure,
        judge,
    }
}

/// At this level another SM can read the key and may legally remove it, so the test needs its own subnet.
pub(super) static PROTECT_0: Test = Test {
    needs: &[Need::Mad, Need::OwnSubnet],
    ..test(
        "c14-016-get-protect-0",
        "At protect level 0 a Get with another M_Key is answered, the key shown.",
        |t| procedure(t, 0),
        |t, f| judge(t, f, 0),
    )
};
pub(super) static PROTECT_1: Test = test(
    "c14-016-get-protect-1",
    "At protect level 1 a Get with another M_Key is answered, the key hidden.",
    |t| procedure(t, 1),
    |t, f| judge(t, f, 1),
);
pub(super) static PROTECT_2: Test = test(
    "c14-016-get-protect-2",
    "At protect level 2 a Get with another M_Key is dropped and counted.",
    |t| procedure(t, 2),
    |t, f| judge(t, f, 2),
);
pub(super) static PROTECT_3: Test = test(
    "c14-016-get-protect-3",
    "At protect level 3 a Get with another M_Key is dropped and counted.",
    |t| procedure(t, 3),
    |t, f| judge(t, f, 3),
);

fn procedure(t: &mut Tester<'_>, level: u8) -> Step {
    let (ours, others) = keys::keys(t);
    let lease = t.longer_than_this_test();
    keys::lock(t, ours, level, lease, 5)?;
    t.get(NODE, ours)?;
    for (label, other) in WRONG.iter().zip(others) {
        get(t, *label, other, level)?;
    }
    get(t, WRONG_NODE, others[0], level)?;
    t.wait_out(Duration::ZERO)?;
    t.get(AFTER, ours)?; // also proves that the DUT was still able to respond
    Ok(())
}

/// Sends a wrong-key Get: once if it is a violation, with up to three tries if the port must respond. Does not wait for
/// the silence after a violation.
fn get<A: Attribute>(t: &mut Tester<'_>, label: Label<A>, key: MKey, level: u8) -> Step {
    if level >= 2 {
        t.provoke_soon(label, &[(A::ID, 0, key)])
    } else {
        t.ask_at(label, key, 0).map(|_| ())
    }
}

fn judge(t: &Trace, f: &mut Findings<'_>, level: u8) -> Result<(), Gap> {
    t.not_judged(HANDLED);
    if !keys::locked(t, f)? {
        return Ok(());
    }
    let before: PortInfo = t.answer(BEFORE)?;
    for label in WRONG {
        let (key, _) = t.asked(label)?;
        t.require(label, "a key that is not the port's", key != before.m_key())?;
        let exchange = t.exchange(label)?;
        if level >= 2 {
            f.silent("C14-16", exchange);
        } else if f.status("C14-16", exchange, &[Status::OK]) {
            let seen: PortInfo = t.answered(exchange)?;
            f.claim("C14-16", "M_Key as shown to a wrong key")
                .by(exchange)
                .saw(seen.m_key())
                .is(if level == 0 { before.m_key() } else { MKey(0) });
            f.claim("C14-16", "M_KeyProtectBits as shown to a wrong key")
                .by(exchange)
                .saw(seen.protect_bits())
                .is(before.protect_bits());
        }
    }
    let node = t.answer(NODE)?;
    let exchange = t.exchange(WRONG_NODE)?;
    if level >= 2 {
        f.silent("C14-16", exchange);
    } else if f.status("C14-16", exchange, &[Status::OK]) {
        let same = t.answered::<NodeInfo>(exchange)? == node;
        f.claim("C14-16", "NodeInfo")
            .by(exchange)
            .saw(if same { "the same" } else { "another" })
            .must("the same as with the right key", same);
    }
    keys::violations(t, f, if level >= 2 { WRONG.len() + 1 } else { 0 })
}
