//! `c14-024-node-type`: the NodeType agrees with the node's attributes.
//!
//! Only switches have SwitchInfo: a node with NodeType switch returns it, and any other node refuses it with 0x000C.
//! Reading: there is no public page; C14_024_03 and C14_024_04 name the attributes. The test cannot distinguish a
//! router from a channel adapter. False alarm: none known.

use verbatim_record::{Findings, Gap, Label, Passed, Trace};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::values::NodeType;
use verbatim_wire::{Status, SwitchInfo};

use crate::management::adapter::NODE;

const SWITCH: Label<SwitchInfo> = Label::new("SwitchInfo");

pub(super) static TEST: Test = Test {
    id: "c14-024-node-type",
    aliases: &[],
    revision: 2,
    about: "A node whose NodeType is switch answers Get(SwitchInfo); any other node refuses it with 0x000C.",
    reading: "This test cannot distinguish a router from a channel adapter.",
    statements: &["C14-24", "C13-24"],
    needs: &[Need::Mad],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let key = t.rig_key();
    t.get(NODE, key)?;
    t.ask_at(SWITCH, key, 0)?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let kind = t.answer(NODE)?.node_type();
    let switch = t.exchange(SWITCH)?;
    if kind != NodeType::SWITCH {
        f.status(
            "C13-24",
            switch,
            &[Status::METHOD_ATTRIBUTE_UNSUPPORTED, Status::METHOD_UNSUPPORTED],
        );
        return Ok(());
    }
    let (result, seen) = match switch.answer() {
        Some(answer) if answer.mad.status() == Status::OK => (Passed::Pass, "SwitchInfo".to_string()),
        Some(answer) => (Passed::Fail, format!("status {}", answer.mad.status())),
        None if switch.is_silent(&t.begin) => (f.silence_of(switch), "no answer".into()),
        None => (
            Passed::Inconclusive,
            "no answer, and the wait was too short to prove it".into(),
        ),
    };
    f.claim("C14-24", "NodeType")
        .on(NODE)
        .by(switch)
        .saw(seen)
        .comes_to("a switch answers SwitchInfo", result);
    Ok(())
}
