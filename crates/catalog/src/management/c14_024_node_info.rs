//! `c14-024-node-info` (C14_024_03): NodeInfo is legal, agrees with other attributes, and is read-only.
//!
//! Reading: the page compares all ports. The rig reaches one port, so the test compares NodeInfo with PortInfo and
//! GUIDInfo. The port refuses a Set with 0x000C and changes nothing; one Set alters all components. False alarm: none
//! known.

use verbatim_record::{Findings, Gap, Label, Legal, Trace};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::values::{Hex16, Hex32, NodeType};
use verbatim_wire::{Guid, GuidInfo, Layout, NodeInfo, PortInfo, Status};

const PORT: Label<PortInfo> = Label::new("PortInfo");
const GUIDS: Label<GuidInfo> = Label::new("GUIDInfo, block 0");
const FOUND: Label<NodeInfo> = Label::new("as found");
const SET: Label<NodeInfo> = Label::new("set every component to another value");
const AFTER: Label<NodeInfo> = Label::new("after the Set");

pub(super) static TEST: Test = Test {
    id: "c14-024-node-info",
    aliases: &["C14_024_03"],
    revision: 1,
    about: "NodeInfo holds legal values that agree with PortInfo and GUIDInfo; a Set is refused with 0x000C and \
        changes nothing.",
    reading: "Only the port on the rig's route is judged. One Set changes all components.",
    statements: &["C14-24", "C14-27", "C13-24"],
    needs: &[Need::Mad],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let key = t.rig_key();
    t.get(PORT, key)?;
    t.ask_at(GUIDS, key, 0)?;
    let node = t.guard(FOUND, key)?;
    let altered = node.quiet().change(|n| {
        n.with_base_version(n.base_version() ^ 2)
            .with_class_version(n.class_version() ^ 2)
            .with_num_ports(n.num_ports() ^ 4)
            .with_system_image_guid(Guid(n.system_image_guid().0 ^ 0xFF))
            .with_node_guid(Guid(n.node_guid().0 ^ 0xFF))
            .with_port_guid(Guid(n.port_guid().0 ^ 0xFF))
            .with_partition_cap(n.partition_cap() ^ 0xFF)
            .with_device_id(Hex16(n.device_id().0 ^ 0xFF))
            .with_revision(Hex32(n.revision().0 ^ 0xFF))
            .with_vendor_id(Hex32(n.vendor_id().0 ^ 0xFF))
    });
    t.set_with(SET, &node, (key, 0), altered)?;
    t.get(AFTER, key)?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let port: PortInfo = t.answer(PORT)?;
    let found: NodeInfo = t.answer(FOUND)?;
    let exchange = t.exchange(FOUND)?;
    let versions_and_kind = [
        ("BaseVersion", Legal::Is(1)),
        ("ClassVersion", Legal::Is(1)),
        ("NodeType", Legal::Within(1, 3)),
        ("NumPorts", Legal::AtLeast(1)),
    ];
    f.legal("C14-24", exchange, &found, &versions_and_kind);
    let (local, ports) = (found.local_port_num(), found.num_ports());
    let least = u8::from(found.node_type() != NodeType::SWITCH);
    f.claim("C14-24", "LocalPortNum").by(exchange).saw(local).must(
        format!("{least} to NumPorts = {ports}"),
        (least..=ports).contains(&local),
    );
    f.claim("C14-24", "LocalPortNum").by(exchange).saw(local).must(
        format!("{}, as PortInfo says", port.local_port_num()),
        local == port.local_port_num(),
    );
    let partitions_and_names = [
        ("PartitionCap", Legal::AtLeast(1)),
        ("NodeGUID", Legal::NotZero),
        ("PortGUID", Legal::NotZero),
    ];
    f.legal("C14-24", exchange, &found, &partitions_and_names);
    let reserved = found.is_zero_in("Reserved320");
    f.claim("C14-24", "Reserved320")
        .by(exchange)
        .saw(if reserved { "0" } else { "not 0" })
        .must("0", reserved);
    let guids = t.exchange(GUIDS)?;
    if guids.answer().is_some_and(|answer| answer.mad.status() == Status::OK) {
        let first = t.answered::<GuidInfo>(guids)?.guid(0);
        f.claim("C14-24", "PortGUID")
            .by_all([exchange, guids])
            .saw(found.port_guid())
            .must(format!("{first}, as GUIDInfo says"), first == found.port_guid());
    }
    f.status("C13-24", t.exchange(SET)?, &[Status::METHOD_ATTRIBUTE_UNSUPPORTED]);
    let fields: Vec<&'static str> = NodeInfo::FIELDS.iter().map(|field| field.name).collect();
    f.same_fields("C14-27", t.exchange(AFTER)?, &fields, &found)?;
    Ok(())
}
