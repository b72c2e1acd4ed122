//! `c14-016-get-protect-N` (C14_016_Get): what a Get with another M_Key is given at each protect level.
//!
//! A correct port answers it at level 0, answers it with the key hidden at level 1, and drops and counts it at
//! levels 2 and 3. Reading: the public page runs 2 "or" 3, we run both; its "violations == 1" is a difference; the
//! key is random, and four other keys are tried: a random one, two that differ from it in one bit, and 0. A key that is not kept
//! fails C14-24 and ends the judgement. False alarm: an SM of somebody else that sends wrong keys meanwhile.

use verbatim_record::{Findings, Gap, Label, Passed, Trace};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::{Attribute, MKey, NodeInfo, PortInfo};

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

const fn test(id: &'static str, about: &'static str, level: u8) -> Test {
    Test {
        id,
        aliases: &["C14_016_Get"],
        revision: 1,
        about,
        reading: READING,
        statements: &["C14-16", "C14-24", "C14-26", "C14-29"],
        needs: &[Need::Mad],
        parameters: &[],
        procedure: match level {
            0 => procedure::<0>,
            1 => procedure::<1>,
            2 => procedure::<2>,
            _ => procedure::<3>,
        },
        judge: match level {
            0 => judge::<0>,
            1 => judge::<1>,
            2 => judge::<2>,
            _ => judge::<3>,
        },
    }
}

/// Level 0.
pub(super) static PROTECT_0: Test = test(
    "c14-016-get-protect-0",
    "At protect level 0 a Get with another M_Key is answered, the key shown.",
    0,
);
/// Level 1.
pub(super) static PROTECT_1: Test = test(
    "c14-016-get-protect-1",
    "At protect level 1 a Get with another M_Key is answered, the key hidden.",
    1,
);
/// Level 2.
pub(super) static PROTECT_2: Test = test(
    "c14-016-get-protect-2",
    "At protect level 2 a Get with another M_Key is dropped and counted.",
    2,
);
/// Level 3.
pub(super) static PROTECT_3: Test = test(
    "c14-016-get-protect-3",
    "At protect level 3 a Get with another M_Key is dropped and counted.",
    3,
);

fn procedure<const LEVEL: u8>(t: &mut Tester<'_>) -> Step {
    let (ours, others) = keys::keys(t);
    let lease = t.longer_than_this_test();
    keys::lock(t, ours, LEVEL, lease, 5)?;
    t.get(NODE, ours)?;
    for (label, other) in WRONG.iter().zip(others) {
        get::<LEVEL, _>(t, *label, other)?;
    }
    get::<LEVEL, _>(t, WRONG_NODE, others[0])?;
    t.get(AFTER, ours)?; // also the proof that the DUT was there to answer
    Ok(())
}

/// A wrong-key Get: once where it is a violation, three tries where it must be answered.
fn get<const LEVEL: u8, A: Attribute>(t: &mut Tester<'_>, label: Label<A>, key: MKey) -> Step {
    if LEVEL >= 2 {
        t.get_once(label, key)?
    } else {
        t.ask_at(label, key, 0)?
    };
    Ok(())
}

fn judge<const LEVEL: u8>(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    if !keys::locked(t, f)? {
        return Ok(());
    }
    let before: PortInfo = t.answer(BEFORE)?;
    for label in WRONG {
        let (key, _) = t.asked(label)?;
        t.require(label, "a key that is not the port's", key != before.m_key())?;
        let exchange = t.exchange(label)?;
        if LEVEL >= 2 {
            f.silent("C14-16", exchange);
        } else if f.status("C14-16", exchange, &[verbatim_wire::Status::OK]) {
            let seen: PortInfo = t.answered(exchange)?;
            let shown = if LEVEL == 0 { before.m_key() } else { MKey(0) };
            f.equal("C14-16", label, "M_Key as shown to a wrong key", (shown, seen.m_key()));
            f.equal(
                "C14-16",
                label,
                "M_KeyProtectBits as shown to a wrong key",
                (before.protect_bits(), seen.protect_bits()),
            );
        }
    }
    let node = t.answer(NODE)?;
    let exchange = t.exchange(WRONG_NODE)?;
    if LEVEL >= 2 {
        f.silent("C14-16", exchange);
    } else if f.status("C14-16", exchange, &[verbatim_wire::Status::OK]) {
        let same = t.answered::<NodeInfo>(exchange)? == node;
        let words = (
            "the same as with the right key".into(),
            if same { "the same" } else { "another" }.into(),
        );
        f.check(
            "C14-16",
            &[exchange],
            "NodeInfo",
            words,
            if same { Passed::Pass } else { Passed::Fail },
        );
    }
    keys::violations(t, f, if LEVEL >= 2 { WRONG.len() + 1 } else { 0 })
}
