//! Legal values of NodeInfo and PortInfo, for any request and after any Set.
//!
//! Source: architecture 14.2.5.3, 14.2.5.6. A field that a capability mask declares absent is reserved, and shown as 0.
//! Fields that a subnet manager writes are checked from state Armed on. Fields that the link determines are checked
//! from state Initialize on. Fields that a switch's port 0 may omit are left open.

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
/// Fields that may have other values for a moment while the link trains.
const OF_THE_LINK: [&str; 4] = [
    "PortPhysicalState",
    "LinkWidthActive",
    "LinkSpeedActive",
    "LinkSpeedExtActive",
];
const EXTENDED: [&str; 3] = ["LinkSpeedExtActive", "LinkSpeedExtSupported", "LinkSpeedExtEnabled"];

/// Checks every response that shows NodeInfo or PortInfo.
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
            // Another port may be of another kind, such as Ethernet.
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
    // If two responses show the same illegal value, the value is not due to a link that comes up: drop the excuse.
    let of_link: Vec<(String, String)> = broken.iter().map(|of| (of.about.clone(), of.seen.clone())).collect();
    for of in broken.iter_mut().filter(|of| of.rule == Rule::Legal) {
        let same = (of.about.clone(), of.seen.clone());
        of.excusable &= of_link.iter().filter(|other| **other == same).count() < 2;
    }
}

/// Label of the exchanges before every management test.
const BEFORE: &str = "before the test";
/// Attributes, each with the test that reports its illegal fields.
const HOMES: [(AttributeId, &str); 2] = [
    (AttributeId::NODE_INFO, "c14-024-node-info"),
    (AttributeId::PORT_INFO, "c14-024-port-info-legal"),
];

/// Returns the other test that reports this illegal field, so that one fault makes one finding. Returns `None` if
/// the current test reports the field. Also returns `None` if the first response was legal, because the current
/// test then caused the value.
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
    // Only the first response for each AttributeModifier counts.
    let mut found = shown.filter(|exchange| modifiers.insert(exchange.request.modifier()));
    let is_static = found.any(|exchange| {
        let is_everywhere = &*exchange.label == BEFORE || exchange.port == 0 && exchange.request.modifier() == 0;
        is_everywhere && exchange.request.method() == Method::GET && same.contains(&exchange.number)
    });
    (is_static && trace.begin.test != *home).then_some(*home)
}

/// Field, legal values and seen value.
type Wrong = (&'static str, String, String);

/// Returns the fields with illegal values.
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

/// Returns whether the link has, or may have, an extended speed. A port shows extended speeds only to a requester that
/// knows them.
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
                wrong.push((name, format!("1 bit of the supported set {supported:#x}"), words));
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
