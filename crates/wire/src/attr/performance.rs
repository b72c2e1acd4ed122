//! ClassPortInfo, PortCounters and PortRcvErrorDetails of the performance class.

use super::Attribute;
use crate::codes::AttributeId;
use crate::layout::layout;
use crate::value::Reserved;
use crate::values::{Hex8, Hex16, Hex32, RespTime};

layout! {
    /// ClassPortInfo of the performance class, 72 bytes of 192 (architecture 13.4.8.1). The bytes after RespTimeValue
    /// (redirection and traps) form one field, `rest`.
    pub struct ClassPortInfo[192] "ClassPortInfo" {
        /// BaseVersion.
        base_version, with_base_version: u8 = "BaseVersion" @ 0, 8;
        /// ClassVersion.
        class_version, with_class_version: u8 = "ClassVersion" @ 8, 8;
        /// CapabilityMask of the class.
        capability_mask, with_capability_mask: Hex16 = "CapabilityMask" @ 16, 16;
        /// CapabilityMask2 of the class, 27 bits.
        capability_mask_2, with_capability_mask_2: Hex32 = "CapabilityMask2" @ 32, 27;
        /// RespTimeValue of the class.
        resp_time_value, with_resp_time_value: RespTime = "RespTimeValue" @ 59, 5;
        /// Redirection and traps.
        rest, with_rest: Hex32 = "Redirection and traps" @ 64, 32, [46; 32];
    }
}

impl Attribute for ClassPortInfo {
    const ID: AttributeId = AttributeId::CLASS_PORT_INFO;
    const PERFORMANCE: bool = true;
}

layout! {
    /// PortCounters, 44 bytes of 192 (architecture 16.1.3.5).
    pub struct PortCounters[192] "PortCounters" {
        /// Reserved.
        reserved_0, with_reserved_0: Reserved = "Reserved0" @ 0, 8;
        /// PortSelect: the port of these counters.
        port_select, with_port_select: u8 = "PortSelect" @ 8, 8;
        /// CounterSelect: the counters that a Set writes.
        counter_select, with_counter_select: Hex16 = "CounterSelect" @ 16, 16;
        /// SymbolErrorCounter.
        symbol_error_counter, with_symbol_error_counter: u16 = "SymbolErrorCounter" @ 32, 16;
        /// LinkErrorRecoveryCounter.
        link_error_recovery_counter, with_link_error_recovery_counter: u8 = "LinkErrorRecoveryCounter" @ 48, 8;
        /// LinkDownedCounter.
        link_downed_counter, with_link_downed_counter: u8 = "LinkDownedCounter" @ 56, 8;
        /// PortRcvErrors.
        port_rcv_errors, with_port_rcv_errors: u16 = "PortRcvErrors" @ 64, 16;
        /// PortRcvRemotePhysicalErrors.
        port_rcv_remote_physical_errors, with_port_rcv_remote_physical_errors: u16 = "PortRcvRemotePhysicalErrors" @ 80, 16;
        /// PortRcvSwitchRelayErrors.
        port_rcv_switch_relay_errors, with_port_rcv_switch_relay_errors: u16 = "PortRcvSwitchRelayErrors" @ 96, 16;
        /// PortXmitDiscards.
        port_xmit_discards, with_port_xmit_discards: u16 = "PortXmitDiscards" @ 112, 16;
        /// PortXmitConstraintErrors.
        port_xmit_constraint_errors, with_port_xmit_constraint_errors: u8 = "PortXmitConstraintErrors" @ 128, 8;
        /// PortRcvConstraintErrors.
        port_rcv_constraint_errors, with_port_rcv_constraint_errors: u8 = "PortRcvConstraintErrors" @ 136, 8;
        /// CounterSelect2: the further counters that a Set writes.
        counter_select_2, with_counter_select_2: Hex8 = "CounterSelect2" @ 144, 8;
        /// LocalLinkIntegrityErrors.
        local_link_integrity_errors, with_local_link_integrity_errors: u8 = "LocalLinkIntegrityErrors" @ 152, 4;
        /// ExcessiveBufferOverrunErrors.
        excessive_buffer_overrun_errors, with_excessive_buffer_overrun_errors: u8 = "ExcessiveBufferOverrunErrors" @ 156, 4;
        /// QP1Dropped.
        qp1_dropped, with_qp1_dropped: u16 = "QP1Dropped" @ 160, 16;
        /// VL15Dropped.
        vl15_dropped, with_vl15_dropped: u16 = "VL15Dropped" @ 176, 16;
        /// PortXmitData in units of 4 bytes.
        port_xmit_data, with_port_xmit_data: u32 = "PortXmitData" @ 192, 32;
        /// PortRcvData in units of 4 bytes.
        port_rcv_data, with_port_rcv_data: u32 = "PortRcvData" @ 224, 32;
        /// PortXmitPkts.
        port_xmit_pkts, with_port_xmit_pkts: u32 = "PortXmitPkts" @ 256, 32;
        /// PortRcvPkts.
        port_rcv_pkts, with_port_rcv_pkts: u32 = "PortRcvPkts" @ 288, 32;
        /// PortXmitWait in ticks.
        port_xmit_wait, with_port_xmit_wait: u32 = "PortXmitWait" @ 320, 32;
        /// Reserved.
        reserved_352, with_reserved_352: Reserved = "Reserved352" @ 352, 32, [37; 32];
    }
}

impl Attribute for PortCounters {
    const ID: AttributeId = AttributeId::PORT_COUNTERS;
    const PERFORMANCE: bool = true;
}

layout! {
    /// PortRcvErrorDetails, 16 bytes of 192 (architecture 16.1.4.1).
    pub struct PortRcvErrorDetails[192] "PortRcvErrorDetails" {
        /// Reserved.
        reserved_0, with_reserved_0: Reserved = "Reserved0" @ 0, 8;
        /// PortSelect: the port of these counters.
        port_select, with_port_select: u8 = "PortSelect" @ 8, 8;
        /// CounterSelect: the counters that a Set writes.
        counter_select, with_counter_select: Hex16 = "CounterSelect" @ 16, 16;
        /// PortLocalPhysicalErrors.
        port_local_physical_errors, with_port_local_physical_errors: u16 = "PortLocalPhysicalErrors" @ 32, 16;
        /// PortMalformedPktErrors.
        port_malformed_pkt_errors, with_port_malformed_pkt_errors: u16 = "PortMalformedPktErrors" @ 48, 16;
        /// PortBufferOverrunErrors.
        port_buffer_overrun_errors, with_port_buffer_overrun_errors: u16 = "PortBufferOverrunErrors" @ 64, 16;
        /// PortDLIDMappingErrors.
        port_dlid_mapping_errors, with_port_dlid_mapping_errors: u16 = "PortDLIDMappingErrors" @ 80, 16;
        /// PortVLMappingErrors.
        port_vl_mapping_errors, with_port_vl_mapping_errors: u16 = "PortVLMappingErrors" @ 96, 16;
        /// PortLoopingErrors.
        port_looping_errors, with_port_looping_errors: u16 = "PortLoopingErrors" @ 112, 16;
        /// Reserved.
        reserved_128, with_reserved_128: Reserved = "Reserved128" @ 128, 64, [22; 64];
    }
}

impl Attribute for PortRcvErrorDetails {
    const ID: AttributeId = AttributeId::PORT_RCV_ERROR_DETAILS;
    const PERFORMANCE: bool = true;
}
