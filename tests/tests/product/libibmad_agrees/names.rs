//! libibmad's names of our fields, and the fields that only one side knows.

use verbatim_wire::{
    DrSmp, Field, Gmp, GuidInfo, Layout, LinearForwardingTable, MadHeader, MulticastForwardingTable, NodeDescription,
    NodeInfo, Notice, PortCounters, PortInfo, PortRcvErrorDetails, SlToVlMappingTable, SmInfo, SwitchInfo,
    VlArbitrationTable,
};

/// One of our layouts and the oracle's attribute for it.
pub(crate) struct Subject {
    /// The oracle's name of the attribute.
    pub(crate) attribute: &'static str,
    pub(crate) object: &'static str,
    pub(crate) size: usize,
    pub(crate) fields: &'static [Field],
    /// Pairs of libibmad's field and our bits.
    pub(crate) pairs: &'static [(&'static str, Ours)],
    /// Our fields that are not compared with any of libibmad's, each with the reason.
    pub(crate) ours_alone: &'static [(&'static str, &'static str)],
}

/// Our bits that a field of libibmad covers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ours {
    /// All elements of a field, in order.
    Field(&'static str),
    /// One element.
    Element(&'static str, usize),
    /// `width` bits after the first `skip` bits of a field with one element.
    Bits(&'static str, usize, usize),
    /// All bytes of the object.
    Object,
}

impl Ours {
    pub(crate) fn field(self) -> Option<&'static str> {
        match self {
            Self::Field(name) | Self::Element(name, _) | Self::Bits(name, ..) => Some(name),
            Self::Object => None,
        }
    }
}

const fn subject<L: Layout>(
    attribute: &'static str,
    pairs: &'static [(&'static str, Ours)],
    ours_alone: &'static [(&'static str, &'static str)],
) -> Subject {
    Subject {
        attribute,
        object: L::NAME,
        size: L::SIZE,
        fields: L::FIELDS,
        pairs,
        ours_alone,
    }
}

use Ours::{Bits, Element, Field as F, Object};

pub(crate) const SUBJECTS: &[Subject] = &[
    subject::<MadHeader>("mad", MAD_HEADER, &[]),
    subject::<DrSmp>("mad", DR_SMP, &[("SMPData", ELSEWHERE)]),
    subject::<Gmp>("mad", &[("IB_GS_DATA_F", F("Data"))], &[("MADHeader", ELSEWHERE)]),
    subject::<NodeDescription>("nodedesc", &[("IB_NODE_DESC_F", Object)], &[]),
    subject::<NodeInfo>("nodeinfo", NODE_INFO, &[]),
    subject::<SwitchInfo>("switchinfo", SWITCH_INFO, &[]),
    subject::<GuidInfo>("guidinfo", GUID_INFO, &[]),
    subject::<PortInfo>(
        "portinfo",
        PORT_INFO,
        &[
            ("LinkSpeedExtActive2", UNKNOWN),
            ("LinkSpeedExtSupported2", UNKNOWN),
            ("LinkSpeedExtEnabled2", UNKNOWN),
        ],
    ),
    subject::<SlToVlMappingTable>("slvl", &[("IB_SLTOVL_MAPPING_TABLE_F", F("SLtoVL"))], &[]),
    subject::<VlArbitrationTable>("vlarb", &[("IB_VL_ARBITRATION_TABLE_F", Object)], &[]),
    subject::<LinearForwardingTable>("linearforwardingtable", &[("IB_LINEAR_FORW_TBL_F", F("Port"))], &[]),
    subject::<MulticastForwardingTable>(
        "multicastforwardingtable",
        &[("IB_MULTICAST_FORW_TBL_F", F("PortMask"))],
        &[],
    ),
    subject::<SmInfo>("sminfo", SM_INFO, &[]),
    subject::<Notice>("notice", NOTICE, &[]),
    subject::<PortCounters>("portcounters", PORT_COUNTERS, &[("QP1Dropped", MISPLACED)]),
    subject::<PortRcvErrorDetails>("portrcverrordetails", PORT_RCV_ERROR_DETAILS, &[]),
];

/// Fields of libibmad that are not compared, each with the reason.
pub(crate) const THEIRS_ALONE: &[(&str, &str)] = &[
    ("IB_NOTICE_DATA_LID_F", INSIDE_DETAILS),
    ("IB_NOTICE_DATA_144_LID_F", INSIDE_DETAILS),
    ("IB_NOTICE_DATA_144_CAPMASK_F", INSIDE_DETAILS),
    ("IB_PC_QP1_DROP_F", MISPLACED),
];

const INSIDE_DETAILS: &str = "stands for bits of IB_NOTICE_DATA_DETAILS_F, which is compared";
const UNKNOWN: &str = "libibmad 44 does not know it";
const ELSEWHERE: &str = "compared as another object";
const MISPLACED: &str = "libibmad 44 reads and writes it 16 bits too late, where VL15Dropped is: its table gives an \
    offset in wire order where it should be in order of the host's words; OpenSM's ib_port_counters_t has it \
    where we do";

const MAD_HEADER: &[(&str, Ours)] = &[
    ("IB_MAD_BASEVER_F", F("BaseVersion")),
    ("IB_MAD_MGMTCLASS_F", F("MgmtClass")),
    ("IB_MAD_CLASSVER_F", F("ClassVersion")),
    ("IB_MAD_RESPONSE_F", Bits("R_Method", 0, 1)),
    ("IB_MAD_METHOD_F", Bits("R_Method", 1, 7)),
    ("IB_MAD_STATUS_F", F("Status")),
    ("IB_DRSMP_HOPPTR_F", Bits("ClassSpecific", 0, 8)),
    ("IB_DRSMP_HOPCNT_F", Bits("ClassSpecific", 8, 8)),
    ("IB_MAD_TRID_F", F("TransactionID")),
    ("IB_MAD_ATTRID_F", F("AttributeID")),
    ("IB_MAD_ATTRMOD_F", F("AttributeModifier")),
];

const DR_SMP: &[(&str, Ours)] = &[
    ("IB_MAD_BASEVER_F", F("BaseVersion")),
    ("IB_MAD_MGMTCLASS_F", F("MgmtClass")),
    ("IB_MAD_CLASSVER_F", F("ClassVersion")),
    ("IB_MAD_RESPONSE_F", Bits("R_Method", 0, 1)),
    ("IB_MAD_METHOD_F", Bits("R_Method", 1, 7)),
    ("IB_DRSMP_DIRECTION_F", F("D")),
    ("IB_DRSMP_STATUS_F", F("Status")),
    ("IB_DRSMP_HOPPTR_F", F("HopPointer")),
    ("IB_DRSMP_HOPCNT_F", F("HopCount")),
    ("IB_MAD_TRID_F", F("TransactionID")),
    ("IB_MAD_ATTRID_F", F("AttributeID")),
    ("IB_MAD_ATTRMOD_F", F("AttributeModifier")),
    ("IB_MAD_MKEY_F", F("M_Key")),
    ("IB_DRSMP_DRSLID_F", F("DrSLID")),
    ("IB_DRSMP_DRDLID_F", F("DrDLID")),
    ("IB_DRSMP_PATH_F", F("InitialPath")),
    ("IB_DRSMP_RPATH_F", F("ReturnPath")),
];

const NODE_INFO: &[(&str, Ours)] = &[
    ("IB_NODE_BASE_VERS_F", F("BaseVersion")),
    ("IB_NODE_CLASS_VERS_F", F("ClassVersion")),
    ("IB_NODE_TYPE_F", F("NodeType")),
    ("IB_NODE_NPORTS_F", F("NumPorts")),
    ("IB_NODE_SYSTEM_GUID_F", F("SystemImageGUID")),
    ("IB_NODE_GUID_F", F("NodeGUID")),
    ("IB_NODE_PORT_GUID_F", F("PortGUID")),
    ("IB_NODE_PARTITION_CAP_F", F("PartitionCap")),
    ("IB_NODE_DEVID_F", F("DeviceID")),
    ("IB_NODE_REVISION_F", F("Revision")),
    ("IB_NODE_LOCAL_PORT_F", F("LocalPortNum")),
    ("IB_NODE_VENDORID_F", F("VendorID")),
];

const SWITCH_INFO: &[(&str, Ours)] = &[
    ("IB_SW_LINEAR_FDB_CAP_F", F("LinearFDBCap")),
    ("IB_SW_RANDOM_FDB_CAP_F", F("RandomFDBCap")),
    ("IB_SW_MCAST_FDB_CAP_F", F("MulticastFDBCap")),
    ("IB_SW_LINEAR_FDB_TOP_F", F("LinearFDBTop")),
    ("IB_SW_DEF_PORT_F", F("DefaultPort")),
    ("IB_SW_DEF_MCAST_PRIM_F", F("DefaultMulticastPrimaryPort")),
    ("IB_SW_DEF_MCAST_NOT_PRIM_F", F("DefaultMulticastNotPrimaryPort")),
    ("IB_SW_LIFE_TIME_F", F("LifeTimeValue")),
    ("IB_SW_STATE_CHANGE_F", F("PortStateChange")),
    ("IB_SW_OPT_SLTOVL_MAPPING_F", F("OptimizedSLtoVLMappingProgramming")),
    ("IB_SW_LIDS_PER_PORT_F", F("LIDsPerPort")),
    ("IB_SW_PARTITION_ENFORCE_CAP_F", F("PartitionEnforcementCap")),
    ("IB_SW_PARTITION_ENF_INB_F", F("InboundEnforcementCap")),
    ("IB_SW_PARTITION_ENF_OUTB_F", F("OutboundEnforcementCap")),
    ("IB_SW_FILTER_RAW_INB_F", F("FilterRawInboundCap")),
    ("IB_SW_FILTER_RAW_OUTB_F", F("FilterRawOutboundCap")),
    ("IB_SW_ENHANCED_PORT0_F", F("EnhancedPort0")),
    ("IB_SW_MCAST_FDB_TOP_F", F("MulticastFDBTop")),
];

const GUID_INFO: &[(&str, Ours)] = &[
    ("IB_GI_GUID0_F", Element("GUIDBlock", 0)),
    ("IB_GI_GUID1_F", Element("GUIDBlock", 1)),
    ("IB_GI_GUID2_F", Element("GUIDBlock", 2)),
    ("IB_GI_GUID3_F", Element("GUIDBlock", 3)),
    ("IB_GI_GUID4_F", Element("GUIDBlock", 4)),
    ("IB_GI_GUID5_F", Element("GUIDBlock", 5)),
    ("IB_GI_GUID6_F", Element("GUIDBlock", 6)),
    ("IB_GI_GUID7_F", Element("GUIDBlock", 7)),
];

const PORT_INFO: &[(&str, Ours)] = &[
    ("IB_PORT_MKEY_F", F("M_Key")),
    ("IB_PORT_GID_PREFIX_F", F("GidPrefix")),
    ("IB_PORT_LID_F", F("LID")),
    ("IB_PORT_SMLID_F", F("MasterSMLID")),
    ("IB_PORT_CAPMASK_F", F("CapabilityMask")),
    ("IB_PORT_DIAG_F", F("DiagCode")),
    ("IB_PORT_MKEY_LEASE_F", F("M_KeyLeasePeriod")),
    ("IB_PORT_LOCAL_PORT_F", F("LocalPortNum")),
    ("IB_PORT_LINK_WIDTH_ENABLED_F", F("LinkWidthEnabled")),
    ("IB_PORT_LINK_WIDTH_SUPPORTED_F", F("LinkWidthSupported")),
    ("IB_PORT_LINK_WIDTH_ACTIVE_F", F("LinkWidthActive")),
    ("IB_PORT_LINK_SPEED_SUPPORTED_F", F("LinkSpeedSupported")),
    ("IB_PORT_STATE_F", F("PortState")),
    ("IB_PORT_PHYS_STATE_F", F("PortPhysicalState")),
    ("IB_PORT_LINK_DOWN_DEF_F", F("LinkDownDefaultState")),
    ("IB_PORT_MKEY_PROT_BITS_F", F("M_KeyProtectBits")),
    ("IB_PORT_LMC_F", F("LMC")),
    ("IB_PORT_LINK_SPEED_ACTIVE_F", F("LinkSpeedActive")),
    ("IB_PORT_LINK_SPEED_ENABLED_F", F("LinkSpeedEnabled")),
    ("IB_PORT_NEIGHBOR_MTU_F", F("NeighborMTU")),
    ("IB_PORT_SMSL_F", F("MasterSMSL")),
    ("IB_PORT_VL_CAP_F", F("VLCap")),
    ("IB_PORT_INIT_TYPE_F", F("InitType")),
    ("IB_PORT_VL_HIGH_LIMIT_F", F("VLHighLimit")),
    ("IB_PORT_VL_ARBITRATION_HIGH_CAP_F", F("VLArbitrationHighCap")),
    ("IB_PORT_VL_ARBITRATION_LOW_CAP_F", F("VLArbitrationLowCap")),
    ("IB_PORT_INIT_TYPE_REPLY_F", F("InitTypeReply")),
    ("IB_PORT_MTU_CAP_F", F("MTUCap")),
    ("IB_PORT_VL_STALL_COUNT_F", F("VLStallCount")),
    ("IB_PORT_HOQ_LIFE_F", F("HOQLife")),
    ("IB_PORT_OPER_VLS_F", F("OperationalVLs")),
    ("IB_PORT_PART_EN_INB_F", F("PartitionEnforcementInbound")),
    ("IB_PORT_PART_EN_OUTB_F", F("PartitionEnforcementOutbound")),
    ("IB_PORT_FILTER_RAW_INB_F", F("FilterRawInbound")),
    ("IB_PORT_FILTER_RAW_OUTB_F", F("FilterRawOutbound")),
    ("IB_PORT_MKEY_VIOL_F", F("M_KeyViolations")),
    ("IB_PORT_PKEY_VIOL_F", F("P_KeyViolations")),
    ("IB_PORT_QKEY_VIOL_F", F("Q_KeyViolations")),
    ("IB_PORT_GUID_CAP_F", F("GUIDCap")),
    ("IB_PORT_CLIENT_REREG_F", F("ClientReregister")),
    ("IB_PORT_MCAST_PKEY_SUPR_ENAB_F", F("McastPkeyTrapSuppressionEnabled")),
    ("IB_PORT_SUBN_TIMEOUT_F", F("SubnetTimeOut")),
    ("IB_PORT_RESP_TIME_VAL_F", F("RespTimeValue")),
    ("IB_PORT_LOCAL_PHYS_ERR_F", F("LocalPhyErrors")),
    ("IB_PORT_OVERRUN_ERR_F", F("OverrunErrors")),
    ("IB_PORT_MAX_CREDIT_HINT_F", F("MaxCreditHint")),
    ("IB_PORT_LINK_ROUND_TRIP_F", F("LinkRoundTripLatency")),
    ("IB_PORT_CAPMASK2_F", F("CapabilityMask2")),
    ("IB_PORT_LINK_SPEED_EXT_ACTIVE_F", F("LinkSpeedExtActive")),
    ("IB_PORT_LINK_SPEED_EXT_SUPPORTED_F", F("LinkSpeedExtSupported")),
    ("IB_PORT_LINK_SPEED_EXT_ENABLED_F", F("LinkSpeedExtEnabled")),
];

const SM_INFO: &[(&str, Ours)] = &[
    ("IB_SMINFO_GUID_F", F("GUID")),
    ("IB_SMINFO_KEY_F", F("SM_Key")),
    ("IB_SMINFO_ACT_F", F("ActCount")),
    ("IB_SMINFO_PRIO_F", F("Priority")),
    ("IB_SMINFO_STATE_F", F("SMState")),
];

const NOTICE: &[(&str, Ours)] = &[
    ("IB_NOTICE_IS_GENERIC_F", F("IsGeneric")),
    ("IB_NOTICE_TYPE_F", F("Type")),
    ("IB_NOTICE_PRODUCER_F", F("ProducerTypeVendorID")),
    ("IB_NOTICE_TRAP_NUMBER_F", F("TrapNumberDeviceID")),
    ("IB_NOTICE_ISSUER_LID_F", F("IssuerLID")),
    ("IB_NOTICE_TOGGLE_F", F("NoticeToggle")),
    ("IB_NOTICE_COUNT_F", F("NoticeCount")),
    ("IB_NOTICE_DATA_DETAILS_F", F("DataDetails")),
];

const PORT_COUNTERS: &[(&str, Ours)] = &[
    ("IB_PC_PORT_SELECT_F", F("PortSelect")),
    ("IB_PC_COUNTER_SELECT_F", F("CounterSelect")),
    ("IB_PC_ERR_SYM_F", F("SymbolErrorCounter")),
    ("IB_PC_LINK_RECOVERS_F", F("LinkErrorRecoveryCounter")),
    ("IB_PC_LINK_DOWNED_F", F("LinkDownedCounter")),
    ("IB_PC_ERR_RCV_F", F("PortRcvErrors")),
    ("IB_PC_ERR_PHYSRCV_F", F("PortRcvRemotePhysicalErrors")),
    ("IB_PC_ERR_SWITCH_REL_F", F("PortRcvSwitchRelayErrors")),
    ("IB_PC_XMT_DISCARDS_F", F("PortXmitDiscards")),
    ("IB_PC_ERR_XMTCONSTR_F", F("PortXmitConstraintErrors")),
    ("IB_PC_ERR_RCVCONSTR_F", F("PortRcvConstraintErrors")),
    ("IB_PC_COUNTER_SELECT2_F", F("CounterSelect2")),
    ("IB_PC_ERR_LOCALINTEG_F", F("LocalLinkIntegrityErrors")),
    ("IB_PC_ERR_EXCESS_OVR_F", F("ExcessiveBufferOverrunErrors")),
    ("IB_PC_VL15_DROPPED_F", F("VL15Dropped")),
    ("IB_PC_XMT_BYTES_F", F("PortXmitData")),
    ("IB_PC_RCV_BYTES_F", F("PortRcvData")),
    ("IB_PC_XMT_PKTS_F", F("PortXmitPkts")),
    ("IB_PC_RCV_PKTS_F", F("PortRcvPkts")),
    ("IB_PC_XMT_WAIT_F", F("PortXmitWait")),
];

const PORT_RCV_ERROR_DETAILS: &[(&str, Ours)] = &[
    ("IB_PC_PORT_SELECT_F", F("PortSelect")),
    ("IB_PC_COUNTER_SELECT_F", F("CounterSelect")),
    ("IB_PC_RCV_LOCAL_PHY_ERR_F", F("PortLocalPhysicalErrors")),
    ("IB_PC_RCV_MALFORMED_PKT_ERR_F", F("PortMalformedPktErrors")),
    ("IB_PC_RCV_BUF_OVR_ERR_F", F("PortBufferOverrunErrors")),
    ("IB_PC_RCV_DLID_MAP_ERR_F", F("PortDLIDMappingErrors")),
    ("IB_PC_RCV_VL_MAP_ERR_F", F("PortVLMappingErrors")),
    ("IB_PC_RCV_LOOPING_ERR_F", F("PortLoopingErrors")),
];
