//! What NodeInfo and PortInfo may hold at all, whoever asks and whatever was Set.
//!
//! Source: architecture 14.2.5.3, 14.2.5.6. A field that a capability mask says is not there is reserved, and shown as 0.
//! What a subnet manager writes is judged from Armed on, what a link comes to from Initialize on; what a switch's port 0
//! may leave out is left open.

use std::collections::{BTreeMap, BTreeSet};

use verbatim_record::{Exchange, Legal, Trace};
use verbatim_wire::values::{CapabilityMask, NodeType};
use verbatim_wire::{AttributeId, Layout, Method, NodeInfo, PhysState, PortInfo, PortState, Status};

use super::access::{EXTENDED_SPEEDS, KNOWS_EXTENDED_SPEEDS};
use super::port::Broken;
use crate::registry::Rule;

const OF_NODE: [(&str, Legal); 7] = [
    ("BaseVersion", Legal::Is(1)),
    ("ClassVersion", Legal::Is(1)),
    ("NodeType", Legal::Within(1, 3)),
    ("NumPorts", Legal::AtLeast(1)),
    ("PartitionCap", Legal::AtLeast(1)),
    ("NodeGUID", Legal::NotZero),
    ("PortGUID", Legal::NotZero),
];
const OF_PORT: [(&str, Legal); 8] = [
    ("PortState", Legal::Within(1, 4)),
    ("PortPhysicalState", Legal::Within(1, 7)),
    ("LinkDownDefaultState", Legal::Within(1, 2)),
    ("LinkWidthSupported", Legal::NotZero),
    ("MTUCap", Legal::Within(1, 5)),
    ("VLCap", Legal::Within(1, 5)),
    ("GUIDCap", Legal::AtLeast(1)),
    ("LocalPortNum", Legal::AtLeast(1)),
];
/// What a link shows otherwise for a moment, while it is trained anew.
const OF_THE_LINK: [&str; 4] = [
    "PortPhysicalState",
    "LinkWidthActive",
    "LinkSpeedActive",
    "LinkSpeedExtActive",
];
const EXTENDED: [&str; 3] = ["LinkSpeedExtActive", "LinkSpeedExtSupported", "LinkSpeedExtEnabled"];

/// Looks at every answer that shows one of the two.
pub(super) fn judge<'t>(
    exchanges: impl Iterator<Item = &'t Exchange> + Clone,
    is_other_port: impl Fn(&Exchange) -> bool,
    simulated: bool,
    broken: &mut Vec<Broken>,
    asked: &mut BTreeMap<&'static str, u64>,
) {
    let shown = exchanges.filter_map(|exchange| {
        let answer = exchange.answer().filter(|answer| answer.mad.status() == Status::OK)?;
        matches!(exchange.request.method(), Method::GET | Method::SET).then_some((exchange, answer.mad))
    });
    let node = |mad: &verbatim_wire::Mad| (mad.attribute_id() == AttributeId::NODE_INFO).then(|| mad.attribute());
    let kind = shown.clone().find_map(|(_, mad)| node(&mad));
    let is_switch = kind.is_some_and(|node: NodeInfo| node.node_type() == NodeType::SWITCH);
    for (exchange, mad) in shown {
        let wrong = match mad.attribute_id() {
            AttributeId::NODE_INFO => of_node(&mad.attribute()),
            // It may be of another kind, as Ethernet is.
            AttributeId::PORT_INFO if is_other_port(exchange) => continue,
            AttributeId::PORT_INFO if !is_switch => of_port(&mad.attribute(), exchange.request.modifier()),
            _ => continue,
        };
        *asked.entry(Rule::Legal.name()).or_default() += 1;
        broken.extend(wrong.into_iter().map(|(name, expected, seen)| Broken {
            rule: Rule::Legal,
            about: format!("{} {name}", mad.attribute_id()),
            expected,
            seen,
            exchanges: vec![exchange.number],
            excusable: !simulated && OF_THE_LINK.contains(&name),
            given: None,
        }));
    }
    // What the next answer shows again is no moment in which the link came up anew.
    let of_link: Vec<(String, String)> = broken.iter().map(|of| (of.about.clone(), of.seen.clone())).collect();
    for of in broken.iter_mut().filter(|of| of.rule == Rule::Legal) {
        let same = (of.about.clone(), of.seen.clone());
        of.excusable &= of_link.iter().filter(|other| **other == same).count() < 2;
    }
}

/// The label of what is read before every test of management.
const BEFORE: &str = "before the test";
/// The tests in which a device fails whose NodeInfo or PortInfo is found with an illegal field.
const HOMES: [(AttributeId, &str); 2] = [
    (AttributeId::NODE_INFO, "c14-024-node-info"),
    (AttributeId::PORT_INFO, "c14-024-port-info-legal"),
];

/// The test that fails the device for a field which was illegal in the first answer already, and is so throughout: one
/// fault is one finding. `None`: this test, or something in it has made it so.
pub(super) fn judged_in(trace: &Trace, all: &[Broken], broken: &Broken) -> Option<&'static str> {
    if broken.rule != Rule::Legal {
        return None;
    }
    let exchange = |number: &u32| trace.exchanges.get(*number as usize - 1);
    let here = broken.exchanges.first().and_then(exchange)?;
    let id = here.request.attribute_id();
    let (_, home) = HOMES.iter().find(|(of, _)| *of == id)?;
    let is_same =
        |other: &&Broken| other.rule == broken.rule && other.about == broken.about && other.seen == broken.seen;
    let same: Vec<u32> = all
        .iter()
        .filter(is_same)
        .flat_map(|other| other.exchanges.clone())
        .collect();
    let shown = trace.exchanges.iter().filter(|exchange| {
        let status = exchange.answer().map(|answer| answer.mad.status());
        exchange.request.attribute_id() == id && exchange.port == here.port && status == Some(Status::OK)
    });
    let mut modifiers = BTreeSet::new();
    // As it is found, of each port that the test asks about, and as every test asks for it.
    let mut found = shown.filter(|exchange| modifiers.insert(exchange.request.modifier()));
    let is_static = found.any(|exchange| {
        let is_everywhere = &*exchange.label == BEFORE || exchange.port == 0 && exchange.request.modifier() == 0;
        is_everywhere && exchange.request.method() == Method::GET && same.contains(&exchange.number)
    });
    (is_static && trace.begin.test != *home).then_some(*home)
}

/// A field, what it may be, what it is.
type Wrong = (&'static str, String, String);

/// The fields that hold what they may not.
fn not_legal<A: Layout>(shown: &A, legal: &[(&'static str, Legal)]) -> Vec<Wrong> {
    let wrong = legal.iter().filter_map(|(name, legal)| {
        let field = A::field(name);
        let holds = legal.holds(field.bits(shown.bytes(), 0));
        (!holds).then(|| (*name, legal.to_string(), field.words(shown.bytes())))
    });
    wrong.collect()
}

fn of_node(node: &NodeInfo) -> Vec<Wrong> {
    let mut wrong = not_legal(node, &OF_NODE);
    let least = u64::from(node.node_type() != NodeType::SWITCH);
    wrong.extend(not_legal(
        node,
        &[("LocalPortNum", Legal::Within(least, node.num_ports().into()))],
    ));
    wrong
}

/// Whether the speed of the link is an extended one, which is shown to who knows of them alone.
fn is_hidden(port: &PortInfo, modifier: u32) -> bool {
    let has_extended = port.capability_mask().has(EXTENDED_SPEEDS);
    let may_hide = has_extended && modifier & KNOWS_EXTENDED_SPEEDS == 0 && port.link_speed_active().0 == 0;
    may_hide || port.link_speed_ext_active().0 != 0 || port.link_speed_ext_active_2() != 0
}

fn of_port(port: &PortInfo, modifier: u32) -> Vec<Wrong> {
    let mut wrong = not_legal(port, &OF_PORT);
    let mut more = |legal: &[(&'static str, Legal)]| wrong.extend(not_legal(port, legal));
    let has = |capability| port.capability_mask().has(capability);
    if !has(EXTENDED_SPEEDS) {
        more(&EXTENDED.map(|name| (name, Legal::Is(0))));
    }
    if !has(CapabilityMask::MASK2) {
        more(&[("CapabilityMask2", Legal::Is(0))]);
    }
    let state = port.port_state();
    if state >= PortState::ARMED {
        more(&[
            ("NeighborMTU", Legal::Within(1, port.mtu_cap().0.into())),
            ("OperationalVLs", Legal::Within(1, port.vl_cap().0.into())),
        ]);
    }
    if state >= PortState::INITIALIZE {
        let mut one_of = |name: &'static str, active: u8, supported: u8| {
            if !active.is_power_of_two() || active & supported == 0 {
                let words = PortInfo::field(name).words(port.bytes());
                wrong.push((name, format!("one of those supported ({supported:#x})"), words));
            }
        };
        one_of(
            "LinkWidthActive",
            port.link_width_active().0,
            port.link_width_supported().0,
        );
        let extended = port.link_speed_ext_active().0;
        if extended != 0 && has(EXTENDED_SPEEDS) {
            one_of("LinkSpeedExtActive", extended, port.link_speed_ext_supported().0);
        } else if !is_hidden(port, modifier) {
            one_of(
                "LinkSpeedActive",
                port.link_speed_active().0,
                port.link_speed_supported().0,
            );
        }
        let physical = port.port_physical_state();
        if !matches!(physical, PhysState::LINK_UP | PhysState::ERROR_RECOVERY) {
            let expected = format!("LinkUp or LinkErrorRecovery in state {state}");
            wrong.push(("PortPhysicalState", expected, physical.to_string()));
        }
    }
    wrong
}
