//! Codes of the common header: classes, methods, attributes, status.
//!
//! Source: architecture chapters 13 and 14; OpenSM's `ib_types.h`.

use core::fmt;

use crate::value::{named, newtype};

named!(
    /// MADHeader:MgmtClass.
    MgmtClass(u8, 4) {
        0x01 SUBN_LID "Subn (LID routed)", 0x81 SUBN_DIRECTED "Subn (directed route)", 0x03 SUBN_ADM "SubnAdm",
        0x04 PERF "Perf", 0x05 BM "BM", 0x06 DEV_MGT "DevMgt", 0x07 COM_MGT "ComMgt", 0x08 SNMP "SNMP",
    }
);
named!(
    /// MADHeader:R and Method together: bit 7 is set in a response.
    Method(u8, 4) {
        0x01 GET "Get", 0x02 SET "Set", 0x81 GET_RESP "GetResp", 0x03 SEND "Send", 0x05 TRAP "Trap",
        0x06 REPORT "Report", 0x86 REPORT_RESP "ReportResp", 0x07 TRAP_REPRESS "TrapRepress",
        0x12 GET_TABLE "GetTable", 0x92 GET_TABLE_RESP "GetTableResp", 0x13 GET_TRACE_TABLE "GetTraceTable",
        0x14 GET_MULTI "GetMulti", 0x94 GET_MULTI_RESP "GetMultiResp", 0x15 DELETE "Delete", 0x95 DELETE_RESP "DeleteResp",
    }
);
named!(
    /// MADHeader:AttributeID, with the names of the subnet management classes.
    AttributeId(u16, 6) {
        0x0001 CLASS_PORT_INFO "ClassPortInfo", 0x0002 NOTICE "Notice", 0x0010 NODE_DESCRIPTION "NodeDescription",
        0x0011 NODE_INFO "NodeInfo", 0x0012 SWITCH_INFO "SwitchInfo", 0x0014 GUID_INFO "GUIDInfo",
        0x0015 PORT_INFO "PortInfo", 0x0016 P_KEY_TABLE "P_KeyTable", 0x0017 SL_TO_VL "SLtoVLMappingTable",
        0x0018 VL_ARBITRATION "VLArbitrationTable", 0x0019 LINEAR_FORWARDING "LinearForwardingTable",
        0x001A RANDOM_FORWARDING "RandomForwardingTable", 0x001B MULTICAST_FORWARDING "MulticastForwardingTable",
        0x001C LINK_SPEED_WIDTH_PAIRS "LinkSpeedWidthPairsTable",
        0x001D VENDOR_SPECIFIC_MADS "VendorSpecificMadsTable", 0x001E HIERARCHY_INFO "HierarchyInfo",
        0x0020 SM_INFO "SMInfo", 0x0030 VENDOR_DIAG "VendorDiag", 0x0031 LED_INFO "LedInfo",
        0x0032 CABLE_INFO "CableInfo", 0x0033 PORT_INFO_EXTENDED "PortInfoExtended",
    }
);

impl AttributeId {
    /// PortCounters of the performance class. SwitchInfo has the same number.
    pub const PORT_COUNTERS: Self = Self(0x0012);
    /// PortRcvErrorDetails of the performance class. PortInfo has the same number.
    pub const PORT_RCV_ERROR_DETAILS: Self = Self(0x0015);
}

/// The congestion control class (annex A10).
const CONGESTION: MgmtClass = MgmtClass(0x21);

/// Names of the attributes of classes other than subnet management, by class. These classes reuse the numbers of
/// subnet management attributes.
///
/// Source: OpenSM's `ib_types.h`, rdma-core's `umad_sm.h`, `umad_sa.h` and `mad.h`, Wireshark's packet-infiniband.
const OF_CLASS: &[(MgmtClass, &[(u16, &str)])] = &[
    (
        MgmtClass::SUBN_ADM,
        &[
            (0x0003, "InformInfo"),
            (0x0011, "NodeRecord"),
            (0x0012, "PortInfoRecord"),
            (0x0013, "SLtoVLMappingTableRecord"),
            (0x0014, "SwitchInfoRecord"),
            (0x0015, "LinearForwardingTableRecord"),
            (0x0016, "RandomForwardingTableRecord"),
            (0x0017, "MulticastForwardingTableRecord"),
            (0x0018, "SMInfoRecord"),
            (0x0019, "LinkSpeedWidthPairsTableRecord"),
            (0x0020, "LinkRecord"),
            (0x0030, "GuidInfoRecord"),
            (0x0031, "ServiceRecord"),
            (0x0033, "P_KeyTableRecord"),
            (0x0035, "PathRecord"),
            (0x0036, "VLArbitrationTableRecord"),
            (0x0038, "MCMemberRecord"),
            (0x0039, "TraceRecord"),
            (0x003A, "MultiPathRecord"),
            (0x003B, "ServiceAssociationRecord"),
            (0x003C, "HierarchyInfoRecord"),
            (0x003D, "CableInfoRecord"),
            (0x003E, "PortInfoExtendedRecord"),
            (0x00F3, "InformInfoRecord"),
        ],
    ),
    (
        MgmtClass::PERF,
        &[
            (0x0010, "PortSamplesControl"),
            (0x0011, "PortSamplesResult"),
            (0x0012, "PortCounters"),
            (0x0015, "PortRcvErrorDetails"),
            (0x0016, "PortXmitDiscardDetails"),
            (0x0017, "PortOpRcvCounters"),
            (0x0018, "PortFlowCtlCounters"),
            (0x0019, "PortVLOpPackets"),
            (0x001A, "PortVLOpData"),
            (0x001B, "PortVLXmitFlowCtlUpdateErrors"),
            (0x001C, "PortVLXmitWaitCounters"),
            (0x001D, "PortCountersExtended"),
            (0x001E, "PortSamplesResultExtended"),
            (0x0030, "SwPortVLCongestion"),
            (0x0031, "PortRcvConCtrl"),
            (0x0032, "PortSLRcvFECN"),
            (0x0033, "PortSLRcvBECN"),
            (0x0034, "PortXmitConCtrl"),
            (0x0035, "PortVLXmitTimeCong"),
            (0x0036, "PortXmitDataSL"),
            (0x0037, "PortRcvDataSL"),
        ],
    ),
    (MgmtClass::BM, &[(0x0010, "BKeyInfo")]),
    (
        CONGESTION,
        &[
            (0x0011, "CongestionInfo"),
            (0x0012, "CongestionKeyInfo"),
            (0x0013, "CongestionLog"),
            (0x0014, "SwitchCongestionSetting"),
            (0x0015, "SwitchPortCongestionSetting"),
            (0x0016, "CACongestionSetting"),
            (0x0017, "CongestionControlTable"),
            (0x0018, "TimeStamp"),
        ],
    ),
    (
        MgmtClass::DEV_MGT,
        &[
            (0x0010, "IOUnitInfo"),
            (0x0011, "IOControllerProfile"),
            (0x0012, "ServiceEntries"),
            (0x0020, "DiagnosticTimeout"),
            (0x0021, "PrepareToTest"),
            (0x0022, "TestDeviceOnce"),
            (0x0023, "TestDeviceLoop"),
            (0x0024, "DiagCode"),
        ],
    ),
    (
        MgmtClass::COM_MGT,
        &[
            (0x0010, "ConnectRequest"),
            (0x0011, "MsgRcptAck"),
            (0x0012, "ConnectReject"),
            (0x0013, "ConnectReply"),
            (0x0014, "ReadyToUse"),
            (0x0015, "DisconnectRequest"),
            (0x0016, "DisconnectReply"),
            (0x0017, "ServiceIDResReq"),
            (0x0018, "ServiceIDResReqResp"),
            (0x0019, "LoadAlternatePath"),
            (0x001A, "AlternatePathResponse"),
            (0x001B, "SuggestAlternatePath"),
            (0x001C, "SuggestAlternatePathResponse"),
        ],
    ),
];

impl AttributeId {
    /// Returns the attribute's name in `class`, or its number if the class has no name for it. ClassPortInfo and Notice
    /// have the same name in all classes.
    #[must_use]
    pub fn name_in(self, class: MgmtClass) -> String {
        let is_subnet = matches!(class, MgmtClass::SUBN_LID | MgmtClass::SUBN_DIRECTED);
        if is_subnet || matches!(self, Self::CLASS_PORT_INFO | Self::NOTICE) {
            return self.to_string();
        }
        let of_class = OF_CLASS.iter().find(|(known, _)| *known == class);
        let name = of_class.and_then(|(_, names)| names.iter().find(|(id, _)| *id == self.0));
        name.map_or_else(|| format!("{:#06x}", self.0), |(_, name)| (*name).into())
    }
}

impl Method {
    /// Returns whether the R bit is set.
    #[must_use]
    pub fn is_response(self) -> bool {
        self.0 & 0x80 != 0
    }
}

newtype!(
    /// MADHeader:Status without the direction bit, which a directed-route SMP carries in bit 15.
    Status(u16) legal |bits| matches!((bits >> 2) & 7, 0..=3 | 7)
);

impl Status {
    /// Success.
    pub const OK: Self = Self(0);
    /// Busy: the receiver discarded the request, and the sender may repeat it.
    pub const BUSY: Self = Self(0x0001);
    /// The base or class version is not supported.
    pub const BAD_VERSION: Self = Self(0x0004);
    /// The method is not supported.
    pub const METHOD_UNSUPPORTED: Self = Self(0x0008);
    /// The combination of method and attribute is not supported.
    pub const METHOD_ATTRIBUTE_UNSUPPORTED: Self = Self(0x000C);
    /// A value in the attribute or its modifier is invalid.
    pub const INVALID_FIELD: Self = Self(0x001C);
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match (self.0 >> 2) & 7 {
            0 if self.0 & 1 != 0 => "busy",
            0 if self.0 & 2 != 0 => "redirect",
            0 if self.0 == 0 => "success",
            0 => "class specific",
            1 => "bad version",
            2 => "method not supported",
            3 => "method/attribute combination not supported",
            7 => "invalid value in attribute or modifier",
            _ => "reserved code",
        };
        write!(f, "{:#06x} ({words})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_follows_the_class() {
        for (class, id, name) in [
            (MgmtClass::SUBN_LID, 0x0010, "NodeDescription"),
            (MgmtClass::SUBN_DIRECTED, 0x0015, "PortInfo"),
            (MgmtClass::SUBN_LID, 0x001C, "LinkSpeedWidthPairsTable"),
            (MgmtClass::SUBN_ADM, 0x0019, "LinkSpeedWidthPairsTableRecord"),
            (MgmtClass::SUBN_ADM, 0x003E, "PortInfoExtendedRecord"),
            (MgmtClass::PERF, 0x0035, "PortVLXmitTimeCong"),
            (MgmtClass(0x21), 0x0016, "CACongestionSetting"),
            (MgmtClass::COM_MGT, 0x001C, "SuggestAlternatePathResponse"),
            (MgmtClass::COM_MGT, 0x0010, "ConnectRequest"),
            (MgmtClass::COM_MGT, 0x0001, "ClassPortInfo"),
            (MgmtClass::COM_MGT, 0x0031, "0x0031"),
            (MgmtClass::SUBN_ADM, 0x0035, "PathRecord"),
            (MgmtClass::SUBN_ADM, 0x0031, "ServiceRecord"),
            (MgmtClass::SUBN_ADM, 0x0002, "Notice"),
            (MgmtClass::PERF, 0x0012, "PortCounters"),
            (MgmtClass::PERF, 0x001D, "PortCountersExtended"),
            (MgmtClass::BM, 0x0010, "BKeyInfo"),
            (MgmtClass(0x30), 0x0010, "0x0010"),
        ] {
            assert_eq!(AttributeId(id).name_in(class), name, "{class} {id:#06x}");
        }
    }
}
