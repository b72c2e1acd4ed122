//! Wireshark's names of our fields, the fields that Wireshark does not show, and Wireshark's mistakes.

/// tshark's names of the fields of one of our layouts.
///
/// By default, tshark's name is a prefix and our name in lower case. `others` and `not_shown` list the exceptions.
#[derive(Debug)]
pub(crate) struct Names {
    /// Our name of the layout.
    pub(crate) object: &'static str,
    /// The prefix of tshark's names.
    pub(crate) prefix: &'static str,
    /// Our field, tshark's full name, and the part of our value that tshark shows.
    pub(crate) others: &'static [(&'static str, &'static str, Part)],
    /// Our fields that tshark 4.0 does not show, each with the reason.
    pub(crate) not_shown: &'static [(&'static str, &'static str)],
}

/// The part of our field that a field of tshark shows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    /// All elements.
    All,
    /// In each element, `width` bits from bit `shift` up.
    Bits { shift: u32, width: u32 },
    /// Every second element, starting with this element.
    EverySecond(usize),
    /// This number of elements, from the first.
    First(usize),
}

impl Part {
    pub(crate) fn of(self, elements: &[u64]) -> Vec<u64> {
        match self {
            Self::All => elements.to_vec(),
            Self::Bits { shift, width } => elements
                .iter()
                .map(|bits| (bits >> shift) & ((1 << width) - 1))
                .collect(),
            Self::EverySecond(from) => elements[from..].iter().step_by(2).copied().collect(),
            Self::First(count) => elements[..count].to_vec(),
        }
    }
}

const NO_NAME: &str = "no field of its own in tshark 4.0";
const SHOWN_AS_BYTES: &str = "tshark shows the bytes that the fields of another object stand for";

pub(crate) const LRH: Names = Names {
    object: "LRH",
    prefix: "infiniband.lrh.",
    others: &[
        ("Reserved12", "infiniband.lrh.reserved2", Part::All),
        ("Reserved32", "infiniband.lrh.reserved5", Part::All),
    ],
    not_shown: &[],
};
pub(crate) const GRH: Names = Names {
    object: "GRH",
    prefix: "infiniband.grh.",
    others: &[],
    not_shown: &[],
};
pub(crate) const BTH: Names = Names {
    object: "BTH",
    prefix: "infiniband.bth.",
    others: &[("Reserved65", "infiniband.bth.reserved7", Part::All)],
    not_shown: &[("FECN", NO_NAME), ("BECN", NO_NAME)],
};
pub(crate) const DETH: Names = Names {
    object: "DETH",
    prefix: "infiniband.deth.",
    others: &[],
    not_shown: &[],
};
pub(crate) const MAD_HEADER: Names = Names {
    object: "MADHeader",
    prefix: "infiniband.mad.",
    others: &[("R_Method", "infiniband.mad.method", Part::All)],
    not_shown: &[],
};
pub(crate) const LID_SMP: Names = Names {
    object: "SMP (LID routed)",
    prefix: "infiniband.smplid.",
    others: &[("M_Key", "infiniband.smplid.mkey", Part::All)],
    not_shown: &[("MADHeader", SHOWN_AS_BYTES), ("SMPData", SHOWN_AS_BYTES)],
};
pub(crate) const DR_SMP: Names = Names {
    object: "SMP (directed route)",
    prefix: "infiniband.smpdirected.",
    others: &[
        ("BaseVersion", "infiniband.mad.baseversion", Part::All),
        ("MgmtClass", "infiniband.mad.mgmtclass", Part::All),
        ("ClassVersion", "infiniband.mad.classversion", Part::All),
        ("R_Method", "infiniband.mad.method", Part::All),
        ("TransactionID", "infiniband.mad.transactionid", Part::All),
        ("AttributeID", "infiniband.mad.attributeid", Part::All),
        ("AttributeModifier", "infiniband.mad.attributemodifier", Part::All),
        ("M_Key", "infiniband.smplid.mkey", Part::All),
    ],
    not_shown: &[
        ("D", "shown as 0 whatever it is"),
        ("Status", "shown with the D bit in it"),
        ("SMPData", SHOWN_AS_BYTES),
    ],
};
pub(crate) const GMP: Names = Names {
    object: "GMP",
    prefix: "infiniband.mad.",
    others: &[],
    not_shown: &[("MADHeader", SHOWN_AS_BYTES), ("Data", SHOWN_AS_BYTES)],
};

pub(crate) const ATTRIBUTES: &[Names] = &[
    Names {
        object: "NodeDescription",
        prefix: "infiniband.nodedescription.",
        others: &[],
        not_shown: &[],
    },
    Names {
        object: "NodeInfo",
        prefix: "infiniband.nodeinfo.",
        others: &[],
        not_shown: &[],
    },
    Names {
        object: "SwitchInfo",
        prefix: "infiniband.switchinfo.",
        others: &[("EnhancedPort0", "infiniband.switchinfo.enhancedportzero", Part::All)],
        not_shown: &[("MulticastFDBTop", NO_NAME)],
    },
    Names {
        object: "GUIDInfo",
        prefix: "infiniband.switchinfo.",
        others: &[("GUIDBlock", "infiniband.switchinfo.guid", Part::All)],
        not_shown: &[],
    },
    Names {
        object: "PortInfo",
        prefix: "infiniband.portinfo.",
        others: &[("GidPrefix", "infiniband.portinfo.guid", Part::All)],
        not_shown: &[
            ("McastPkeyTrapSuppressionEnabled", NO_NAME),
            ("LinkSpeedExtActive2", NO_NAME),
            ("LinkSpeedExtSupported2", NO_NAME),
            ("LinkSpeedExtEnabled2", NO_NAME),
            ("CapabilityMask2", NO_NAME),
            ("LinkSpeedExtActive", NO_NAME),
            ("LinkSpeedExtSupported", NO_NAME),
            ("LinkSpeedExtEnabled", NO_NAME),
        ],
    },
    Names {
        object: "P_KeyTable",
        prefix: "infiniband.p_keytable.",
        others: &[
            (
                "P_KeyTableBlock",
                "infiniband.p_keytable.membershiptype",
                Part::Bits { shift: 15, width: 1 },
            ),
            (
                "P_KeyTableBlock",
                "infiniband.p_keytable.p_keybase",
                Part::Bits { shift: 0, width: 15 },
            ),
        ],
        not_shown: &[],
    },
    Names {
        object: "SLtoVLMappingTable",
        prefix: "infiniband.sltovlmappingtable.",
        others: &[
            (
                "SLtoVL",
                "infiniband.sltovlmappingtable.sltovlhighbits",
                Part::EverySecond(0),
            ),
            (
                "SLtoVL",
                "infiniband.sltovlmappingtable.sltovllowbits",
                Part::EverySecond(1),
            ),
        ],
        not_shown: &[],
    },
    Names {
        object: "VLArbitrationTable",
        prefix: "infiniband.vlarbitrationtable.",
        others: &[],
        not_shown: &[],
    },
    Names {
        object: "LinearForwardingTable",
        prefix: "infiniband.linearforwardingtable.",
        others: &[],
        not_shown: &[],
    },
    Names {
        object: "MulticastForwardingTable",
        prefix: "infiniband.multicastforwardingtable.",
        // tshark 4.0 stops after 16 of the 32 entries of a block.
        others: &[(
            "PortMask",
            "infiniband.multicastforwardingtable.portmask",
            Part::First(16),
        )],
        not_shown: &[],
    },
    Names {
        object: "SMInfo",
        prefix: "infiniband.sminfo.",
        others: &[],
        not_shown: &[],
    },
    Names {
        object: "Notice",
        prefix: "infiniband.notice.",
        others: &[],
        not_shown: &[],
    },
    Names {
        object: "PortCounters",
        prefix: "infiniband.portcounters.",
        others: &[],
        not_shown: &[
            ("CounterSelect2", NO_NAME),
            ("QP1Dropped", NO_NAME),
            ("PortXmitWait", NO_NAME),
        ],
    },
    Names {
        object: "PortRcvErrorDetails",
        prefix: "infiniband.portrcverrordetails.",
        others: &[],
        not_shown: &[
            ("PortSelect", NO_NAME),
            ("CounterSelect", NO_NAME),
            ("PortLocalPhysicalErrors", NO_NAME),
            ("PortMalformedPktErrors", NO_NAME),
            ("PortBufferOverrunErrors", NO_NAME),
            ("PortDLIDMappingErrors", NO_NAME),
            ("PortVLMappingErrors", NO_NAME),
            ("PortLoopingErrors", NO_NAME),
        ],
    },
];

/// Details of the traps 256, 257, 258, 259.
pub(crate) const TRAPS: [Names; 4] = [
    Names {
        object: "Trap 256, bad M_Key",
        prefix: "infiniband.trap.",
        others: &[],
        not_shown: &[],
    },
    BAD_KEY,
    BAD_KEY,
    Names {
        object: "Trap 259, bad P_Key at a switch's external port",
        prefix: "infiniband.trap.",
        others: &[],
        not_shown: &[],
    },
];
const BAD_KEY: Names = Names {
    object: "Trap 257 or 258, bad P_Key or Q_Key",
    prefix: "infiniband.trap.",
    others: &[],
    not_shown: &[],
};

/// The trap that tshark 4.0 treats as malformed. tshark decodes DataValid and SWLIDADDR, of 16 bits each, as IPv6
/// addresses ("Trying to fetch an IPv6 address with length 2"), and shows no later field.
pub(crate) const MALFORMED_TRAP: u16 = 259;

/// Attributes after which tshark 4.0 parses at a wrong offset and shows no CRCs.
pub(crate) const WITHOUT_CRCS: &[&str] = &["PortCounters"];

/// CapabilityMask bits with other names in tshark: tshark's name and ours.
pub(crate) const CAPABILITIES: &[(&str, &str)] = &[("clientregistration", "clientreregistration")];
