//! The switch's subnet management agent (architecture 14.2): the attributes that a subnet manager reads and sets to
//! bring a subnet up. The switch is not a device under test, so the agent stores the M_Key without checking it.

use verbatim_wire::values::{Guid, LinkSpeeds, LinkWidths, NodeType, PhysState, PortState, VlCap};
use verbatim_wire::{
    AttributeId, Layout, Lid, Mad, Method, Mtu, NodeInfo, PKey, PKeyTable, PortInfo, Status, SwitchInfo,
};

use crate::fabric::PORTS;

const GUID: Guid = Guid(0x0002_c900_0000_3000);
/// Number of entries of the linear forwarding table. A block of the table has [`BLOCK`] entries.
const LIDS: usize = 1024;
const BLOCK: usize = 64;
/// Port number of a LID that is not forwarded.
const NOWHERE: u8 = 255;

pub(crate) struct Agent {
    info: SwitchInfo,
    /// Port 0, which is the switch itself, then the other ports.
    ports: Vec<PortInfo>,
    p_keys: PKeyTable,
    forwarding: [u8; LIDS],
}

impl Agent {
    pub(crate) fn new() -> Self {
        let port = |number: u8| {
            let is_own = number == 0;
            PortInfo::default()
                .with_link_width_enabled(LinkWidths(3))
                .with_link_width_supported(LinkWidths(3))
                .with_link_width_active(LinkWidths(2))
                .with_link_speed_supported(LinkSpeeds(7))
                .with_link_speed_enabled(LinkSpeeds(7))
                .with_link_speed_active(LinkSpeeds(4))
                .with_port_state(if is_own {
                    PortState::ACTIVE
                } else {
                    PortState::INITIALIZE
                })
                .with_port_physical_state(PhysState::LINK_UP)
                .with_neighbor_mtu(Mtu::B4096)
                .with_mtu_cap(Mtu::B4096)
                .with_vl_cap(VlCap(1))
                .with_operational_vls(VlCap(1))
                .with_guid_cap(u8::from(is_own))
        };
        Self {
            info: SwitchInfo::default()
                .with_linear_fdb_cap(LIDS as u16)
                .with_partition_enforcement_cap(1)
                .with_life_time_value(18),
            ports: (0..=PORTS).map(port).collect(),
            p_keys: PKeyTable::default().with_p_key(0, PKey(0xFFFF)),
            forwarding: [NOWHERE; LIDS],
        }
    }

    /// Returns the LID of port 0.
    pub(crate) fn lid(&self) -> Lid {
        self.ports[0].lid()
    }

    /// Returns the port to which the table forwards a LID.
    pub(crate) fn forward(&self, lid: Lid) -> Option<u8> {
        let out = *self.forwarding.get(usize::from(lid.0))?;
        (1..=PORTS).contains(&out).then_some(out)
    }

    /// Returns the response to a Get or Set that arrived at port `from`, or `None` for other methods.
    pub(crate) fn answer(&mut self, request: &Mad, from: u8) -> Option<Mad> {
        let is_set = match request.method() {
            Method::GET => false,
            Method::SET => true,
            _ => return None,
        };
        let answer = request.with_method(Method::GET_RESP);
        Some(match self.serve(request, is_set, from) {
            Some(data) => answer.with_data(&data).with_status(Status::OK),
            None => answer.with_status(Status::METHOD_ATTRIBUTE_UNSUPPORTED),
        })
    }

    fn serve(&mut self, request: &Mad, is_set: bool, from: u8) -> Option<Vec<u8>> {
        let modifier = request.modifier() as usize;
        match request.attribute_id() {
            AttributeId::NODE_INFO if !is_set => {
                let info = NodeInfo::default()
                    .with_base_version(1)
                    .with_class_version(1)
                    .with_node_type(NodeType::SWITCH)
                    .with_num_ports(PORTS)
                    .with_system_image_guid(GUID)
                    .with_node_guid(GUID)
                    .with_port_guid(GUID)
                    .with_partition_cap(32)
                    .with_local_port_num(from);
                Some(info.bytes().to_vec())
            }
            AttributeId::NODE_DESCRIPTION if !is_set => {
                let mut name = b"verbatim lab switch".to_vec();
                name.resize(64, 0);
                Some(name)
            }
            AttributeId::SWITCH_INFO => {
                if is_set {
                    let asked: SwitchInfo = request.attribute();
                    self.info = self
                        .info
                        .with_linear_fdb_top(asked.linear_fdb_top())
                        .with_default_port(asked.default_port())
                        .with_life_time_value(asked.life_time_value());
                }
                Some(self.info.bytes().to_vec())
            }
            AttributeId::PORT_INFO => {
                let number = modifier & 0xFF;
                let port = self.ports.get_mut(number)?;
                if is_set {
                    *port = set(port, number != 0, &request.attribute());
                }
                // In the PortInfo of every port, LocalPortNum is the port at which the request arrived.
                Some(port.with_local_port_num(from).bytes().to_vec())
            }
            AttributeId::GUID_INFO if !is_set => {
                let mut block = GUID.0.to_be_bytes().to_vec();
                block.resize(64, 0);
                Some(block)
            }
            AttributeId::P_KEY_TABLE if modifier & 0xFFFF == 0 => {
                if is_set {
                    self.p_keys = request.attribute();
                }
                Some(self.p_keys.bytes().to_vec())
            }
            AttributeId::LINEAR_FORWARDING => {
                let block = self.forwarding.chunks_exact_mut(BLOCK).nth(modifier)?;
                if is_set {
                    block.copy_from_slice(request.data().get(..BLOCK)?);
                }
                Some(block.to_vec())
            }
            _ => None,
        }
    }
}

/// Returns a port's PortInfo after a Set of the fields that a subnet manager writes. The link never goes down, so a Set
/// can only change the state to Armed or Active.
fn set(port: &PortInfo, has_link: bool, asked: &PortInfo) -> PortInfo {
    let state = match asked.port_state() {
        PortState::ARMED | PortState::ACTIVE if has_link => asked.port_state(),
        _ => port.port_state(),
    };
    port.with_m_key(asked.m_key())
        .with_gid_prefix(asked.gid_prefix())
        .with_lid(asked.lid())
        .with_master_sm_lid(asked.master_sm_lid())
        .with_master_sm_sl(asked.master_sm_sl())
        .with_m_key_lease_period(asked.m_key_lease_period())
        .with_protect_bits(asked.protect_bits())
        .with_neighbor_mtu(asked.neighbor_mtu())
        .with_hoq_life(asked.hoq_life())
        .with_vl_stall_count(asked.vl_stall_count())
        .with_subnet_timeout(asked.subnet_timeout())
        .with_local_phy_errors(asked.local_phy_errors())
        .with_overrun_errors(asked.overrun_errors())
        .with_port_state(state)
}
