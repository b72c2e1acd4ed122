//! NodeDescription, NodeInfo, SwitchInfo, SMInfo.

use super::Attribute;
use crate::codes::AttributeId;
use crate::layout::{Layout, layout};
use crate::value::Reserved;
use crate::values::{Guid, Hex16, Hex32, Hex64, NodeType, SmState};

layout! {
    /// NodeDescription: 64 bytes of UTF-8 text (architecture 14.2.5.2).
    pub struct NodeDescription[64] "NodeDescription" {
        /// One byte of NodeString.
        octet, with_octet: u8 text = "NodeString" @ 0, 8, [64; 8];
    }
}

impl NodeDescription {
    /// Returns the description with this text, cut after 64 bytes.
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self::from_bytes(text.as_bytes())
    }
}

impl Attribute for NodeDescription {
    const ID: AttributeId = AttributeId::NODE_DESCRIPTION;
}

layout! {
    /// NodeInfo, 40 bytes and 24 reserved (architecture 14.2.5.3). All fields are read-only.
    pub struct NodeInfo[64] "NodeInfo" {
        /// BaseVersion: the MAD version that the node supports.
        base_version, with_base_version: u8 = "BaseVersion" @ 0, 8;
        /// ClassVersion: the version of the subnet management class that the node supports.
        class_version, with_class_version: u8 = "ClassVersion" @ 8, 8;
        /// NodeType.
        node_type, with_node_type: NodeType = "NodeType" @ 16, 8;
        /// NumPorts: number of physical ports of the node.
        num_ports, with_num_ports: u8 = "NumPorts" @ 24, 8;
        /// SystemImageGUID.
        system_image_guid, with_system_image_guid: Guid = "SystemImageGUID" @ 32, 64;
        /// NodeGUID.
        node_guid, with_node_guid: Guid = "NodeGUID" @ 96, 64;
        /// PortGUID of the port that received the SMP.
        port_guid, with_port_guid: Guid = "PortGUID" @ 160, 64;
        /// PartitionCap: number of entries of the P_KeyTable.
        partition_cap, with_partition_cap: u16 = "PartitionCap" @ 224, 16;
        /// DeviceID.
        device_id, with_device_id: Hex16 = "DeviceID" @ 240, 16;
        /// Revision.
        revision, with_revision: Hex32 = "Revision" @ 256, 32;
        /// LocalPortNum: the port that received the SMP.
        local_port_num, with_local_port_num: u8 = "LocalPortNum" @ 288, 8;
        /// VendorID: the vendor's OUI.
        vendor_id, with_vendor_id: Hex32 = "VendorID" @ 296, 24;
        /// Reserved.
        reserved_320, with_reserved_320: Reserved = "Reserved320" @ 320, 64, [3; 64];
    }
}

impl Attribute for NodeInfo {
    const ID: AttributeId = AttributeId::NODE_INFO;
}

layout! {
    /// SwitchInfo, 20 bytes and 44 reserved (architecture 14.2.5.4).
    pub struct SwitchInfo[64] "SwitchInfo" {
        /// LinearFDBCap. Read-only.
        linear_fdb_cap, with_linear_fdb_cap: u16 = "LinearFDBCap" @ 0, 16;
        /// RandomFDBCap. Read-only.
        random_fdb_cap, with_random_fdb_cap: u16 = "RandomFDBCap" @ 16, 16;
        /// MulticastFDBCap. Read-only.
        multicast_fdb_cap, with_multicast_fdb_cap: u16 = "MulticastFDBCap" @ 32, 16;
        /// LinearFDBTop. Read-write.
        linear_fdb_top, with_linear_fdb_top: u16 = "LinearFDBTop" @ 48, 16;
        /// DefaultPort. Read-write.
        default_port, with_default_port: u8 = "DefaultPort" @ 64, 8;
        /// DefaultMulticastPrimaryPort. Read-write.
        default_multicast_primary_port, with_default_multicast_primary_port: u8 = "DefaultMulticastPrimaryPort" @ 72, 8;
        /// DefaultMulticastNotPrimaryPort. Read-write.
        default_multicast_not_primary_port, with_default_multicast_not_primary_port: u8 = "DefaultMulticastNotPrimaryPort" @ 80, 8;
        /// LifeTimeValue: 4.096 us * 2^value. Read-write.
        life_time_value, with_life_time_value: u8 = "LifeTimeValue" @ 88, 5;
        /// PortStateChange; a Set of 1 clears it.
        port_state_change, with_port_state_change: bool = "PortStateChange" @ 93, 1;
        /// OptimizedSLtoVLMappingProgramming. Read-write.
        optimized_sl_to_vl, with_optimized_sl_to_vl: u8 = "OptimizedSLtoVLMappingProgramming" @ 94, 2;
        /// LIDsPerPort. Read-only.
        lids_per_port, with_lids_per_port: u16 = "LIDsPerPort" @ 96, 16;
        /// PartitionEnforcementCap. Read-only.
        partition_enforcement_cap, with_partition_enforcement_cap: u16 = "PartitionEnforcementCap" @ 112, 16;
        /// InboundEnforcementCap. Read-only.
        inbound_enforcement_cap, with_inbound_enforcement_cap: bool = "InboundEnforcementCap" @ 128, 1;
        /// OutboundEnforcementCap. Read-only.
        outbound_enforcement_cap, with_outbound_enforcement_cap: bool = "OutboundEnforcementCap" @ 129, 1;
        /// FilterRawInboundCap. Read-only.
        filter_raw_inbound_cap, with_filter_raw_inbound_cap: bool = "FilterRawInboundCap" @ 130, 1;
        /// FilterRawOutboundCap. Read-only.
        filter_raw_outbound_cap, with_filter_raw_outbound_cap: bool = "FilterRawOutboundCap" @ 131, 1;
        /// EnhancedPort0. Read-only.
        enhanced_port_0, with_enhanced_port_0: bool = "EnhancedPort0" @ 132, 1;
        /// Reserved.
        reserved_133, with_reserved_133: Reserved = "Reserved133" @ 133, 11;
        /// MulticastFDBTop. Read-write.
        multicast_fdb_top, with_multicast_fdb_top: Hex16 = "MulticastFDBTop" @ 144, 16;
        /// Reserved.
        reserved_160, with_reserved_160: Reserved = "Reserved160" @ 160, 32, [11; 32];
    }
}

impl Attribute for SwitchInfo {
    const ID: AttributeId = AttributeId::SWITCH_INFO;
}

layout! {
    /// SMInfo, 21 bytes and 43 reserved (architecture 14.2.5.13).
    pub struct SmInfo[64] "SMInfo" {
        /// GUID of the SM's port.
        guid, with_guid: Guid = "GUID" @ 0, 64;
        /// SM_Key.
        sm_key, with_sm_key: Hex64 = "SM_Key" @ 64, 64;
        /// ActCount: the SM increments it while it is active.
        act_count, with_act_count: u32 = "ActCount" @ 128, 32;
        /// Priority: 0 lowest, 15 highest.
        priority, with_priority: u8 = "Priority" @ 160, 4;
        /// SMState.
        sm_state, with_sm_state: SmState = "SMState" @ 164, 4;
        /// Reserved.
        reserved_168, with_reserved_168: Reserved = "Reserved168" @ 168, 8, [43; 8];
    }
}

layout! {
    /// LedInfo, 4 bytes and 60 reserved (architecture 14.2.5.15): the locator LED of the receiving port.
    pub struct LedInfo[64] "LedInfo" {
        /// LedMask: set if the LED is on. Read-write.
        led_mask, with_led_mask: bool = "LedMask" @ 0, 1;
        /// Reserved.
        reserved_1, with_reserved_1: Reserved = "Reserved1" @ 1, 31;
        /// Reserved.
        reserved_32, with_reserved_32: Reserved = "Reserved32" @ 32, 32, [15; 32];
    }
}

impl Attribute for LedInfo {
    const ID: AttributeId = AttributeId::LED_INFO;
}

impl Attribute for SmInfo {
    const ID: AttributeId = AttributeId::SM_INFO;
}
