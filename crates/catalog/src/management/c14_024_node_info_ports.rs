//! `c14-024-node-info-ports` (C14_024_03): all ports of a node return the same NodeInfo.
//!
//! The public page compares all ports; the rig needs cables to two of them. NodeGUID, SystemImageGUID and all other
//! fields are equal at both ports, except PortGUID and LocalPortNum, which differ. Reading: if the second port returns
//! another NodeGUID and another SystemImageGUID, its cable may lead to another node, so the cause is RIG. The second
//! port's M_Key may differ from the key in the rig file, so a missing response decides nothing. False alarm: a cable to
//! the second node of a device that is one system with two nodes.

use verbatim_record::{Findings, Gap, Label, Passed, Trace};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::{Layout, NodeInfo, Status};

use crate::management::adapter::{self, NODE};

const SECOND: Label<NodeInfo> = Label::new("NodeInfo, through the second port");

pub(super) static TEST: Test = Test {
    id: "c14-024-node-info-ports",
    aliases: &["C14_024_03"],
    revision: 1,
    about: "NodeInfo is the same at two ports of a node, except PortGUID and LocalPortNum, which differ.",
    reading: "Another NodeGUID together with another SystemImageGUID may be another node: inconclusive, cause RIG.",
    statements: &["C14-24"],
    needs: &[Need::Mad, Need::SecondPort],
    parameters: &[],
    procedure,
    judge,
};

/// The fields that are equal at all ports of a node.
const OF_THE_NODE: [&str; 9] = [
    "BaseVersion",
    "ClassVersion",
    "NodeType",
    "NumPorts",
    "SystemImageGUID",
    "NodeGUID",
    "DeviceID",
    "Revision",
    "VendorID",
];

fn procedure(t: &mut Tester<'_>) -> Step {
    let key = t.rig_key();
    let node = t.get(NODE, key)?;
    if adapter::is_adapter(&node) && node.num_ports() > 1 {
        t.ask_from(1, SECOND, key)?;
    }
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let Some(node) = adapter::adapter(t, f)? else {
        return Ok(());
    };
    if node.num_ports() < 2 {
        f.not_applicable = Some("the node has one port".into());
        return Ok(());
    }
    let (first, second) = (t.exchange(NODE)?, t.exchange(SECOND)?);
    let answered = second.answer().is_some_and(|answer| answer.mad.status() == Status::OK);
    let other: NodeInfo = if answered { t.answer(SECOND)? } else { node };
    let elsewhere = other.node_guid() != node.node_guid() && other.system_image_guid() != node.system_image_guid();
    if !answered || elsewhere {
        let seen = if answered {
            format!("node {}, system {}", other.node_guid(), other.system_image_guid())
        } else {
            "no NodeInfo".into()
        };
        let expected = format!("node {}, system {}", node.node_guid(), node.system_image_guid());
        f.claim("C14-24", "the node at the second cable")
            .by_all([first, second])
            .saw(seen)
            .comes_to(expected, Passed::Inconclusive);
        return Ok(());
    }
    f.same_fields("C14-24", second, &OF_THE_NODE, &node)?;
    for name in ["PortGUID", "LocalPortNum"] {
        let at = |of: &NodeInfo| NodeInfo::field(name).words(of.bytes());
        f.claim("C14-24", name)
            .by_all([first, second])
            .saw(at(&other))
            .must(format!("different from {}", at(&node)), at(&node) != at(&other));
    }
    Ok(())
}
