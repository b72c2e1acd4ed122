//! GUIDInfo, P_KeyTable, SLtoVLMappingTable, VLArbitrationTable and the forwarding tables. A MAD carries one block.

use super::Attribute;
use crate::codes::AttributeId;
use crate::layout::layout;
use crate::value::Reserved;
use crate::values::{Guid, Hex16, PKey};

layout! {
    /// GUIDInfo: a block of 8 GUIDs (architecture 14.2.5.5). AttributeModifier: the block number.
    pub struct GuidInfo[64] "GUIDInfo" {
        /// A GUID of the block.
        guid, with_guid: Guid = "GUIDBlock" @ 0, 64, [8; 64];
    }
}

impl Attribute for GuidInfo {
    const ID: AttributeId = AttributeId::GUID_INFO;
}

layout! {
    /// P_KeyTable: a block of 32 P_Keys (architecture 14.2.5.7). AttributeModifier: the low half is the block number,
    /// the high half is the port of a switch.
    pub struct PKeyTable[64] "P_KeyTable" {
        /// A P_Key of the block.
        p_key, with_p_key: PKey = "P_KeyTableBlock" @ 0, 16, [32; 16];
    }
}

impl Attribute for PKeyTable {
    const ID: AttributeId = AttributeId::P_KEY_TABLE;
}

layout! {
    /// SLtoVLMappingTable: 16 VLs of 4 bits (architecture 14.2.5.8). AttributeModifier, on a switch: input and output
    /// port.
    pub struct SlToVlMappingTable[64] "SLtoVLMappingTable" {
        /// The VL of a service level; the port drops packets of an SL with VL 15.
        vl, with_vl: u8 = "SLtoVL" @ 0, 4, [16; 4];
        /// Reserved.
        reserved_64, with_reserved_64: Reserved = "Reserved64" @ 64, 64, [7; 64];
    }
}

impl Attribute for SlToVlMappingTable {
    const ID: AttributeId = AttributeId::SL_TO_VL;
}

layout! {
    /// VLArbitrationTable: a block of 32 entries (architecture 14.2.5.9).
    ///
    /// AttributeModifier: the high half selects the part (1 and 2 low priority; 3 and 4 high priority). The low half is
    /// the output port of a switch.
    pub struct VlArbitrationTable[64] "VLArbitrationTable" {
        /// Reserved bits of an entry.
        reserved, with_reserved: Reserved = "Reserved" @ 0, 4, [32; 16];
        /// The VL of an entry.
        vl, with_vl: u8 = "VL" @ 4, 4, [32; 16];
        /// The weight of an entry, in units of 64 bytes; the port skips an entry with weight 0.
        weight, with_weight: u8 = "Weight" @ 8, 8, [32; 16];
    }
}

impl Attribute for VlArbitrationTable {
    const ID: AttributeId = AttributeId::VL_ARBITRATION;
}

layout! {
    /// LinearForwardingTable: a block of 64 ports (architecture 14.2.5.10). AttributeModifier: the block number.
    pub struct LinearForwardingTable[64] "LinearForwardingTable" {
        /// The port of a LID; the switch drops packets to a LID with port 255.
        port, with_port: u8 = "Port" @ 0, 8, [64; 8];
    }
}

impl Attribute for LinearForwardingTable {
    const ID: AttributeId = AttributeId::LINEAR_FORWARDING;
}

layout! {
    /// MulticastForwardingTable: a block of 32 port masks (architecture 14.2.5.12). AttributeModifier: block number and
    /// position.
    pub struct MulticastForwardingTable[64] "MulticastForwardingTable" {
        /// The ports of a multicast LID, one bit each.
        port_mask, with_port_mask: Hex16 = "PortMask" @ 0, 16, [32; 16];
    }
}

impl Attribute for MulticastForwardingTable {
    const ID: AttributeId = AttributeId::MULTICAST_FORWARDING;
}
