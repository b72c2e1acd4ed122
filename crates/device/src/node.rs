//! NodeInfo, NodeDescription, LedInfo and SMInfo (architecture 14.2.5.2, 14.2.5.3, 14.2.5.13, 14.2.5.15).

use verbatim_wire::values::{Hex16, Hex32, NodeType};
use verbatim_wire::{Guid, Layout, LedInfo, NodeDescription, NodeInfo, Reserved, Status};

use crate::agent::{Agent, Reply};
use crate::defect::Defect;
use crate::profile::Profile;

/// State of the node, as opposed to state of a port.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) num_ports: u8,
    pub(crate) description: [u8; 64],
    /// The initial description. A defective device returns it at its other ports.
    pub(crate) found_description: [u8; 64],
    /// The value that a defective device stores for a Set of NodeInfo.
    overwritten: Option<[u8; 64]>,
}

impl Node {
    pub(crate) fn new(profile: &Profile) -> Self {
        let mut description = [0; 64];
        description.copy_from_slice(NodeDescription::of(&profile.node_description).bytes());
        Self {
            num_ports: profile.num_ports.clamp(1, 254),
            description,
            found_description: description,
            overwritten: None,
        }
    }
}

impl Agent<'_> {
    /// Returns NodeInfo as the receiving port reports it.
    pub(crate) fn node_info(&self) -> [u8; 64] {
        if let Some(written) = self.node.overwritten {
            return written;
        }
        let (profile, faults, port) = (self.profile, self.faults, &self.ports[self.at]);
        let per_port = |guid: Guid, defect| {
            let other = faults.has(defect) && port.number > 1;
            Guid(guid.0.wrapping_add(if other { 1 << 32 } else { 0 }))
        };
        let node_guid = per_port(profile.node_guid, Defect::NodeInfoNodeGuidPerPort);
        let system = per_port(profile.system_image_guid, Defect::NodeInfoSystemImageGuidPerPort);
        let node_type = if faults.has(Defect::NodeInfoWrongNodeType) {
            NodeType::SWITCH
        } else {
            NodeType::CHANNEL_ADAPTER
        };
        let local_port = if faults.has(Defect::NodeInfoLocalPortNumWrong) {
            port.number.wrapping_add(1)
        } else {
            port.number
        };
        let info = NodeInfo::default()
            .with_base_version(1)
            .with_class_version(1)
            .with_node_type(node_type)
            .with_num_ports(self.node.num_ports)
            .with_system_image_guid(system)
            .with_node_guid(node_guid)
            .with_port_guid(port.guid())
            .with_partition_cap(profile.partition_cap.max(1))
            .with_device_id(Hex16(profile.device_id))
            .with_revision(Hex32(profile.revision))
            .with_local_port_num(local_port)
            .with_vendor_id(Hex32(profile.vendor_id));
        let info = if faults.has(Defect::NodeInfoReservedNotZero) {
            info.with_reserved_320(2, Reserved(1))
        } else {
            info
        };
        let mut bytes = [0; 64];
        bytes.copy_from_slice(info.bytes());
        bytes
    }

    /// Serves a Set of NodeInfo. NodeInfo is read-only, so a conforming device refuses the Set.
    pub(crate) fn set_node_info(&mut self, data: &[u8; 64]) -> Reply {
        if self.faults.has(Defect::NodeInfoWritable) {
            self.node.overwritten = Some(*data);
        }
        if self.faults.has(Defect::NodeInfoSetAccepted) {
            return Reply::ok(&self.node_info());
        }
        self.unsupported()
    }

    /// Serves a Set of NodeDescription, which is read-only without CapabilityMask2:IsSetNodeDescriptionSupported.
    pub(crate) fn set_node_description(&mut self, data: &[u8; 64]) -> Reply {
        if self.profile.can_set_node_description() {
            self.node.description = *data;
            if self.faults.has(Defect::NodeDescriptionLastByteLost) {
                self.node.description[63] = 0;
            }
            return Reply::ok(&self.node.description);
        }
        if self.faults.has(Defect::NodeDescriptionWritable) {
            self.node.description = *data;
        }
        if self.faults.has(Defect::NodeDescriptionSetAccepted) {
            return Reply::ok(&self.node.description);
        }
        self.unsupported()
    }

    /// Returns LedInfo of the receiving port.
    pub(crate) fn get_led_info(&mut self) -> Reply {
        let spoiled = Reserved(self.faults.has(Defect::LedInfoReservedNotZero).into());
        let info = LedInfo::default().with_led_mask(self.port().led);
        Reply::ok(info.with_reserved_1(spoiled).bytes())
    }

    pub(crate) fn set_led_info(&mut self, data: &[u8; 64]) -> Reply {
        self.port().led = LedInfo::from_bytes(data).led_mask();
        self.get_led_info()
    }

    /// Refuses SMInfo, because this node has no subnet manager.
    pub(crate) fn sm_info(&self) -> Reply {
        let refusal = self.unsupported();
        if refusal.status != Status::METHOD_ATTRIBUTE_UNSUPPORTED {
            return refusal;
        }
        Reply::refused(self.profile.choices.absent_attribute())
    }
}
