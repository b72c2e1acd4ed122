//! PortInfo: the state, capabilities and settings of a port.

use super::Attribute;
use crate::codes::AttributeId;
use crate::layout::layout;
use crate::value::Reserved;
use crate::values::{
    CapabilityMask, Hex16, Hex64, LeasePeriod, Lid, LinkDownDefault, LinkSpeedExt, LinkSpeeds, LinkWidths, MKey, Mtu,
    PhysState, PortState, ProtectBits, RespTime, SubnetTimeout, VlCap,
};

layout! {
    /// PortInfo, 64 bytes (architecture 14.2.5.6). AttributeModifier: 0 selects the receiving port, any other value is
    /// a port number.
    pub struct PortInfo[64] "PortInfo" {
        /// M_Key: the key that an SMP must carry; with 0 the port checks no key. Read-write.
        m_key, with_m_key: MKey = "M_Key" @ 0, 64;
        /// GidPrefix. Read-write.
        gid_prefix, with_gid_prefix: Hex64 = "GidPrefix" @ 64, 64;
        /// LID: the port's base LID. Read-write.
        lid, with_lid: Lid = "LID" @ 128, 16;
        /// MasterSMLID: the destination LID of traps. Read-write.
        master_sm_lid, with_master_sm_lid: Lid = "MasterSMLID" @ 144, 16;
        /// CapabilityMask. Read-only.
        capability_mask, with_capability_mask: CapabilityMask = "CapabilityMask" @ 160, 32;
        /// DiagCode. Read-only.
        diag_code, with_diag_code: Hex16 = "DiagCode" @ 192, 16;
        /// M_KeyLeasePeriod in seconds. Read-write.
        m_key_lease_period, with_m_key_lease_period: LeasePeriod = "M_KeyLeasePeriod" @ 208, 16;
        /// LocalPortNum: the port that received the SMP. Read-only.
        local_port_num, with_local_port_num: u8 = "LocalPortNum" @ 224, 8;
        /// LinkWidthEnabled; 0 in a Set changes nothing. Read-write.
        link_width_enabled, with_link_width_enabled: LinkWidths = "LinkWidthEnabled" @ 232, 8;
        /// LinkWidthSupported. Read-only.
        link_width_supported, with_link_width_supported: LinkWidths = "LinkWidthSupported" @ 240, 8;
        /// LinkWidthActive. Read-only.
        link_width_active, with_link_width_active: LinkWidths = "LinkWidthActive" @ 248, 8;
        /// LinkSpeedSupported. Read-only.
        link_speed_supported, with_link_speed_supported: LinkSpeeds = "LinkSpeedSupported" @ 256, 4;
        /// PortState; 0 in a Set changes nothing. Read-write.
        port_state, with_port_state: PortState = "PortState" @ 260, 4;
        /// PortPhysicalState; 0 in a Set changes nothing. Read-write.
        port_physical_state, with_port_physical_state: PhysState = "PortPhysicalState" @ 264, 4;
        /// LinkDownDefaultState; 0 in a Set changes nothing. Read-write.
        link_down_default_state, with_link_down_default_state: LinkDownDefault = "LinkDownDefaultState" @ 268, 4;
        /// M_KeyProtectBits. Read-write.
        protect_bits, with_protect_bits: ProtectBits = "M_KeyProtectBits" @ 272, 2;
        /// Reserved.
        reserved_274, with_reserved_274: Reserved = "Reserved274" @ 274, 3;
        /// LMC: the port has 2^LMC LIDs, from the base LID on. Read-write.
        lmc, with_lmc: u8 = "LMC" @ 277, 3;
        /// LinkSpeedActive. Read-only.
        link_speed_active, with_link_speed_active: LinkSpeeds = "LinkSpeedActive" @ 280, 4;
        /// LinkSpeedEnabled; 0 in a Set changes nothing. Read-write.
        link_speed_enabled, with_link_speed_enabled: LinkSpeeds = "LinkSpeedEnabled" @ 284, 4;
        /// NeighborMTU. Read-write.
        neighbor_mtu, with_neighbor_mtu: Mtu = "NeighborMTU" @ 288, 4;
        /// MasterSMSL. Read-write.
        master_sm_sl, with_master_sm_sl: u8 = "MasterSMSL" @ 292, 4;
        /// VLCap: the data VLs that the port supports. Read-only.
        vl_cap, with_vl_cap: VlCap = "VLCap" @ 296, 4;
        /// InitType. Read-write.
        init_type, with_init_type: u8 = "InitType" @ 300, 4;
        /// VLHighLimit. Read-write.
        vl_high_limit, with_vl_high_limit: u8 = "VLHighLimit" @ 304, 8;
        /// VLArbitrationHighCap: number of entries of the high-priority table. Read-only.
        vl_arbitration_high_cap, with_vl_arbitration_high_cap: u8 = "VLArbitrationHighCap" @ 312, 8;
        /// VLArbitrationLowCap: number of entries of the low-priority table. Read-only.
        vl_arbitration_low_cap, with_vl_arbitration_low_cap: u8 = "VLArbitrationLowCap" @ 320, 8;
        /// InitTypeReply. Read-only or read-write, depending on the revision of the architecture.
        init_type_reply, with_init_type_reply: u8 = "InitTypeReply" @ 328, 4;
        /// MTUCap: the largest payload that the port supports. Read-only.
        mtu_cap, with_mtu_cap: Mtu = "MTUCap" @ 332, 4;
        /// VLStallCount: switches only. Read-write.
        vl_stall_count, with_vl_stall_count: u8 = "VLStallCount" @ 336, 3;
        /// HOQLife: switches only. Read-write.
        hoq_life, with_hoq_life: u8 = "HOQLife" @ 339, 5;
        /// OperationalVLs; 0 in a Set changes nothing. Read-write.
        operational_vls, with_operational_vls: VlCap = "OperationalVLs" @ 344, 4;
        /// PartitionEnforcementInbound: switches only. Read-write.
        partition_enforcement_inbound, with_partition_enforcement_inbound: bool = "PartitionEnforcementInbound" @ 348, 1;
        /// PartitionEnforcementOutbound: switches only. Read-write.
        partition_enforcement_outbound, with_partition_enforcement_outbound: bool = "PartitionEnforcementOutbound" @ 349, 1;
        /// FilterRawInbound: switches only. Read-write.
        filter_raw_inbound, with_filter_raw_inbound: bool = "FilterRawInbound" @ 350, 1;
        /// FilterRawOutbound: switches only. Read-write.
        filter_raw_outbound, with_filter_raw_outbound: bool = "FilterRawOutbound" @ 351, 1;
        /// M_KeyViolations; only a Set of 0 changes it.
        m_key_violations, with_m_key_violations: u16 = "M_KeyViolations" @ 352, 16;
        /// P_KeyViolations; only a Set of 0 changes it.
        p_key_violations, with_p_key_violations: u16 = "P_KeyViolations" @ 368, 16;
        /// Q_KeyViolations; only a Set of 0 changes it.
        q_key_violations, with_q_key_violations: u16 = "Q_KeyViolations" @ 384, 16;
        /// GUIDCap: number of entries of the GUIDInfo table. Read-only.
        guid_cap, with_guid_cap: u8 = "GUIDCap" @ 400, 8;
        /// ClientReregister: asks the clients of the port to register anew with the subnet administrator. Write-only.
        client_reregister, with_client_reregister: bool = "ClientReregister" @ 408, 1;
        /// McastPkeyTrapSuppressionEnabled. Read-write.
        mcast_pkey_trap_suppression, with_mcast_pkey_trap_suppression: u8 = "McastPkeyTrapSuppressionEnabled" @ 409, 2;
        /// SubnetTimeOut: 4.096 us * 2^value. Read-write.
        subnet_timeout, with_subnet_timeout: SubnetTimeout = "SubnetTimeOut" @ 411, 5;
        /// Reserved.
        reserved_416, with_reserved_416: Reserved = "Reserved416" @ 416, 3;
        /// RespTimeValue: 4.096 us * 2^value. Read-only.
        resp_time_value, with_resp_time_value: RespTime = "RespTimeValue" @ 419, 5;
        /// LocalPhyErrors: threshold of symbol errors. Read-write.
        local_phy_errors, with_local_phy_errors: u8 = "LocalPhyErrors" @ 424, 4;
        /// OverrunErrors: threshold of buffer overruns. Read-write.
        overrun_errors, with_overrun_errors: u8 = "OverrunErrors" @ 428, 4;
        /// MaxCreditHint. Read-only.
        max_credit_hint, with_max_credit_hint: Hex16 = "MaxCreditHint" @ 432, 16;
        /// Reserved.
        reserved_448, with_reserved_448: Reserved = "Reserved448" @ 448, 1;
        /// LinkSpeedExtActive2: XDR. Read-only.
        link_speed_ext_active_2, with_link_speed_ext_active_2: u8 = "LinkSpeedExtActive2" @ 449, 2;
        /// LinkSpeedExtSupported2: XDR. Read-only.
        link_speed_ext_supported_2, with_link_speed_ext_supported_2: u8 = "LinkSpeedExtSupported2" @ 451, 2;
        /// LinkSpeedExtEnabled2: XDR. Read-write.
        link_speed_ext_enabled_2, with_link_speed_ext_enabled_2: u8 = "LinkSpeedExtEnabled2" @ 453, 3;
        /// LinkRoundTripLatency. Read-only.
        link_round_trip_latency, with_link_round_trip_latency: u32 = "LinkRoundTripLatency" @ 456, 24;
        /// CapabilityMask2. Read-only.
        capability_mask_2, with_capability_mask_2: Hex16 = "CapabilityMask2" @ 480, 16;
        /// LinkSpeedExtActive. Read-only.
        link_speed_ext_active, with_link_speed_ext_active: LinkSpeedExt = "LinkSpeedExtActive" @ 496, 4;
        /// LinkSpeedExtSupported. Read-only.
        link_speed_ext_supported, with_link_speed_ext_supported: LinkSpeedExt = "LinkSpeedExtSupported" @ 500, 4;
        /// Reserved.
        reserved_504, with_reserved_504: Reserved = "Reserved504" @ 504, 3;
        /// LinkSpeedExtEnabled; 0 in a Set changes nothing. Read-write.
        link_speed_ext_enabled, with_link_speed_ext_enabled: LinkSpeedExt = "LinkSpeedExtEnabled" @ 507, 5;
    }
}

impl Attribute for PortInfo {
    const ID: AttributeId = AttributeId::PORT_INFO;
}

impl PortInfo {
    /// Names of the counters of violations.
    pub const VIOLATIONS: &'static [&'static str] = &["M_KeyViolations", "P_KeyViolations", "Q_KeyViolations"];
    /// Names of the fields that the port or its link changes without a Set.
    pub const MOVED_BY_PORT: &'static [&'static str] = &[
        "PortState",
        "PortPhysicalState",
        "LinkWidthActive",
        "LinkSpeedActive",
        "LinkSpeedExtActive",
        "LinkSpeedExtActive2",
        "DiagCode",
        "ClientReregister",
        "InitTypeReply",
        "MaxCreditHint",
        "LinkRoundTripLatency",
        "LocalPortNum",
    ];
}
