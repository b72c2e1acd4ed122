//! Unmodified OpenSM and infiniband-diags manage and read the device through the kernel. Their output must agree with
//! our own reader, field by field.

use std::collections::BTreeMap;

use verbatim_lab::VibLab;

use crate::vib::lab::{managed, ran, read, text};

/// Returns the output of our reader. The key is `Attribute[modifier].Field`; the value is the field's numbers.
fn ours(lab: &VibLab) -> BTreeMap<String, Vec<u64>> {
    let line = |line: &String| {
        let (name, values) = line.split_once(" = ").unwrap();
        let values = values.split(' ').map(number).collect::<Option<Vec<u64>>>();
        Some((name.to_owned(), values?))
    };
    read(lab).iter().filter_map(line).collect()
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Returns the number for the words that infiniband-diags show.
fn in_words(name: &str, words: &str) -> Option<u64> {
    let bits = |all: &[&str]| {
        let known = words
            .split(" or ")
            .map(|word| all.iter().position(|known| *known == word));
        known.map(|place| Some(1 << place?)).sum::<Option<u64>>()
    };
    let place = |all: &[&str]| all.iter().position(|known| *known == words).map(|place| place as u64);
    match name {
        "NodeType" => place(&["", "Channel Adapter", "Switch", "Router"]),
        "LinkWidthEnabled" | "LinkWidthSupported" | "LinkWidthActive" => bits(&["1X", "4X", "8X", "12X", "2X"]),
        "LinkSpeedEnabled" | "LinkSpeedSupported" | "LinkSpeedActive" => bits(&["2.5 Gbps", "5.0 Gbps", "10.0 Gbps"]),
        "LinkSpeedExtEnabled" | "LinkSpeedExtSupported" | "LinkSpeedExtActive" => {
            bits(&["14.0625 Gbps", "25.78125 Gbps", "53.125 Gbps"])
        }
        "LinkState" => place(&["", "Down", "Initialize", "Armed", "Active"]),
        "PhysLinkState" => place(&[
            "",
            "Sleep",
            "Polling",
            "Disabled",
            "PortConfigurationTraining",
            "LinkUp",
        ]),
        "LinkDownDefState" => place(&["", "Sleep", "Polling"]),
        "VLCap" | "OperVLs" => place(&["", "VL0", "VL0-1", "VL0-3", "VL0-7", "VL0-14"]),
        "NeighborMTU" | "MtuCap" => place(&["", "256", "512", "1024", "2048", "4096"]),
        _ => None,
    }
}

/// Pairs of infiniband-diags' name of a field and our name.
type Names = &'static [(&'static str, &'static str)];

const NODE_INFO: Names = &[
    ("BaseVers", "BaseVersion"),
    ("ClassVers", "ClassVersion"),
    ("NodeType", "NodeType"),
    ("NumPorts", "NumPorts"),
    ("SystemGuid", "SystemImageGUID"),
    ("Guid", "NodeGUID"),
    ("PortGuid", "PortGUID"),
    ("PartCap", "PartitionCap"),
    ("DevId", "DeviceID"),
    ("Revision", "Revision"),
    ("LocalPort", "LocalPortNum"),
    ("VendorId", "VendorID"),
];

/// Fields of PortInfo, without the M_Key, which smpquery does not show.
const PORT_INFO: Names = &[
    ("GidPrefix", "GidPrefix"),
    ("Lid", "LID"),
    ("SMLid", "MasterSMLID"),
    ("CapMask", "CapabilityMask"),
    ("DiagCode", "DiagCode"),
    ("MkeyLeasePeriod", "M_KeyLeasePeriod"),
    ("LocalPort", "LocalPortNum"),
    ("LinkWidthEnabled", "LinkWidthEnabled"),
    ("LinkWidthSupported", "LinkWidthSupported"),
    ("LinkWidthActive", "LinkWidthActive"),
    ("LinkSpeedSupported", "LinkSpeedSupported"),
    ("LinkState", "PortState"),
    ("PhysLinkState", "PortPhysicalState"),
    ("LinkDownDefState", "LinkDownDefaultState"),
    ("ProtectBits", "M_KeyProtectBits"),
    ("LMC", "LMC"),
    ("LinkSpeedActive", "LinkSpeedActive"),
    ("LinkSpeedEnabled", "LinkSpeedEnabled"),
    ("NeighborMTU", "NeighborMTU"),
    ("SMSL", "MasterSMSL"),
    ("VLCap", "VLCap"),
    ("InitType", "InitType"),
    ("VLHighLimit", "VLHighLimit"),
    ("VLArbHighCap", "VLArbitrationHighCap"),
    ("VLArbLowCap", "VLArbitrationLowCap"),
    ("InitReply", "InitTypeReply"),
    ("MtuCap", "MTUCap"),
    ("VLStallCount", "VLStallCount"),
    ("HoqLife", "HOQLife"),
    ("OperVLs", "OperationalVLs"),
    ("PartEnforceInb", "PartitionEnforcementInbound"),
    ("PartEnforceOutb", "PartitionEnforcementOutbound"),
    ("FilterRawInb", "FilterRawInbound"),
    ("FilterRawOutb", "FilterRawOutbound"),
    ("MkeyViolations", "M_KeyViolations"),
    ("PkeyViolations", "P_KeyViolations"),
    ("QkeyViolations", "Q_KeyViolations"),
    ("GuidCap", "GUIDCap"),
    ("ClientReregister", "ClientReregister"),
    ("McastPkeyTrapSuppressionEnabled", "McastPkeyTrapSuppressionEnabled"),
    ("SubnetTimeout", "SubnetTimeOut"),
    ("RespTimeVal", "RespTimeValue"),
    ("LocalPhysErr", "LocalPhyErrors"),
    ("OverrunErr", "OverrunErrors"),
    ("MaxCreditHint", "MaxCreditHint"),
    ("RoundTrip", "LinkRoundTripLatency"),
    ("CapabilityMask2", "CapabilityMask2"),
    ("LinkSpeedExtActive", "LinkSpeedExtActive"),
    ("LinkSpeedExtSupported", "LinkSpeedExtSupported"),
    ("LinkSpeedExtEnabled", "LinkSpeedExtEnabled"),
];

const PORT_COUNTERS: Names = &[
    ("PortSelect", "PortSelect"),
    ("CounterSelect", "CounterSelect"),
    ("SymbolErrorCounter", "SymbolErrorCounter"),
    ("LinkErrorRecoveryCounter", "LinkErrorRecoveryCounter"),
    ("LinkDownedCounter", "LinkDownedCounter"),
    ("PortRcvErrors", "PortRcvErrors"),
    ("PortRcvRemotePhysicalErrors", "PortRcvRemotePhysicalErrors"),
    ("PortRcvSwitchRelayErrors", "PortRcvSwitchRelayErrors"),
    ("PortXmitDiscards", "PortXmitDiscards"),
    ("PortXmitConstraintErrors", "PortXmitConstraintErrors"),
    ("PortRcvConstraintErrors", "PortRcvConstraintErrors"),
    ("CounterSelect2", "CounterSelect2"),
    ("LocalLinkIntegrityErrors", "LocalLinkIntegrityErrors"),
    ("ExcessiveBufferOverrunErrors", "ExcessiveBufferOverrunErrors"),
    ("QP1Dropped", "QP1Dropped"),
    ("VL15Dropped", "VL15Dropped"),
    ("PortXmitData", "PortXmitData"),
    ("PortRcvData", "PortRcvData"),
    ("PortXmitPkts", "PortXmitPkts"),
    ("PortRcvPkts", "PortRcvPkts"),
    ("PortXmitWait", "PortXmitWait"),
];

/// Parses the lines `Name:.....value` of infiniband-diags' output.
fn theirs(text: &str) -> Vec<(&str, &str)> {
    let lines = text.lines().filter(|line| !line.starts_with(['#', '\t', ' ']));
    lines
        .filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name, value.trim_start_matches('.').trim()))
        })
        .collect()
}

/// Compares the fields of an attribute in a tool's output with our reader's output. The tool must show every field of
/// `names`, and no field outside `names` and `not_compared`.
fn compare(lab: &VibLab, command: &str, attribute: &str, names: Names, not_compared: &[&str]) {
    let (ours, said) = (ours(lab), text(lab, command));
    let theirs = theirs(&said);
    for (name, value) in &theirs {
        if not_compared.contains(name) {
            continue;
        }
        let field = names.iter().find(|(known, _)| known == name);
        let (_, field) = field.unwrap_or_else(|| panic!("{command}: {name:?} is not in the list"));
        let seen = in_words(name, value).or_else(|| number(value));
        let key = format!("{attribute}.{field}");
        let read = ours.get(&key).unwrap_or_else(|| panic!("our reader has no {key}"));
        assert_eq!(
            seen.map(|seen| vec![seen]).as_ref(),
            Some(read),
            "{command}: {name} {value:?}"
        );
    }
    for (name, _) in names {
        assert!(
            theirs.iter().any(|(seen, _)| seen == name),
            "{command} shows no {name}: {said}"
        );
    }
}

/// Returns the numbers after the last colon of the lines that begin with `begins`.
fn row(text: &str, begins: &str) -> Vec<u64> {
    let lines = text.lines().filter(|line| line.trim_start().starts_with(begins));
    let values = lines.filter_map(|line| Some(line.rsplit_once(':')?.1));
    values
        .flat_map(|values| values.split(['|', ' ']))
        .filter_map(number)
        .collect()
}

#[test]
fn opensm_activates_device() {
    managed(|lab| {
        let said = text(lab, "smpquery -D portinfo 0,1");
        let port: BTreeMap<_, _> = theirs(&said).into_iter().collect();
        assert_eq!((port["LinkState"], port["SMLid"]), ("Active", "1"), "{said}");
        let host = text(lab, "ibstat vib0 1");
        assert!(host.contains("State: Active") && host.contains("SM lid: 1"), "{host}");
        // Query the assigned LID with a GMP.
        text(lab, &format!("perfquery {} 1", port["Lid"]));
    });
}

#[test]
fn smpquery_and_perfquery_fields_agree() {
    managed(|lab| {
        compare(lab, "smpquery -D nodeinfo 0,1", "NodeInfo[0]", NODE_INFO, &[]);
        compare(lab, "smpquery -D portinfo 0,1", "PortInfo[0]", PORT_INFO, &["Mkey"]);
        compare(lab, "smpquery portinfo 2", "PortInfo[0]", PORT_INFO, &["Mkey"]);
        // Leave out the traffic counters, because they also count the packets that read them. If the port's
        // CapabilityMask lacks QP1Dropped, perfquery shows VL15Dropped as QP1Dropped; `libibmad_agrees` compares the
        // field's offset with libibmad itself.
        let others = [
            "PortXmitData",
            "PortRcvData",
            "PortXmitPkts",
            "PortRcvPkts",
            "QP1Dropped",
        ];
        compare(lab, "perfquery 2 1", "PortCounters[0]", PORT_COUNTERS, &others);
    });
}

#[test]
fn smpquery_tables_agree() {
    managed(|lab| {
        let ours = ours(lab);
        let block = |said: String| -> Vec<u64> {
            let lines = said
                .lines()
                .filter_map(|line| Some(line.split_once(": ")?.1.to_owned()));
            lines
                .flat_map(|line| line.split(' ').filter_map(number).collect::<Vec<_>>())
                .collect()
        };
        let keys = block(text(lab, "smpquery -D pkeys 0,1 1"));
        assert_eq!(keys[..32], ours["P_KeyTable[0].P_KeyTableBlock"]);
        let guids = block(text(lab, "smpquery -D guidinfo 0,1"));
        assert_eq!(guids[..8], ours["GUIDInfo[0].GUIDBlock"]);
        let lanes = text(lab, "smpquery -D sl2vl 0,1");
        assert_eq!(row(&lanes, "ports:"), ours["SLtoVLMappingTable[0].SLtoVL"], "{lanes}");
        let arbitration = text(lab, "smpquery -D vlarb 0,1");
        for (rows, field) in [("VL", "VL"), ("WEIGHT", "Weight")] {
            // smpquery shows the low-priority table, then the high-priority table, each in two parts and only with the
            // entries that the port has.
            let table = |first: u32, cap: &str| {
                let parts = [first, first + 1].map(|part| format!("VLArbitrationTable[{}].{field}", part << 16));
                let entries = parts.into_iter().flat_map(|part| ours[&part].clone());
                let most = ours[&format!("PortInfo[0].{cap}")][0] as usize;
                entries.take(most).collect::<Vec<u64>>()
            };
            let read = [table(1, "VLArbitrationLowCap"), table(3, "VLArbitrationHighCap")].concat();
            assert_eq!(row(&arbitration, rows), read, "{arbitration}");
        }
        let name = ours["NodeDescription[0].NodeString"]
            .iter()
            .map(|&byte| byte as u8 as char);
        let name: String = name.take_while(|&letter| letter != '\0').collect();
        let said = text(lab, "smpquery -D nodedesc 0,1");
        assert!(said.trim_end().ends_with(&format!(".{name}")), "{said}, {name}");
    });
}

#[test]
fn ibnetdiscover_and_saquery_agree() {
    managed(|lab| {
        let ours = ours(lab);
        let of = |field: &str| ours[&format!("NodeInfo[0].{field}")][0];
        let lid = ours["PortInfo[0].LID"][0];
        let said = text(lab, "ibnetdiscover");
        let node = format!("Ca\t{} \"H-{:016x}\"", of("NumPorts"), of("NodeGUID"));
        let port = format!(
            "[{}]({:x}) \t\"H-0002c90000002000\"[1]",
            of("LocalPortNum"),
            of("PortGUID")
        );
        for words in [
            &node,
            &port,
            &format!("devid={:#x}", of("DeviceID")),
            &format!("# lid {lid} lmc 0"),
        ] {
            assert!(said.contains(words), "{words:?} is not in {said}");
        }
        // Read OpenSM's record of the node.
        let said = text(lab, &format!("saquery NR {lid}"));
        for (name, field) in [
            ("num_ports", "NumPorts"),
            ("sys_guid", "SystemImageGUID"),
            ("node_guid", "NodeGUID"),
            ("port_guid", "PortGUID"),
            ("partition_cap", "PartitionCap"),
            ("device_id", "DeviceID"),
            ("revision", "Revision"),
            ("port_num", "LocalPortNum"),
            ("vendor_id", "VendorID"),
        ] {
            let line = said
                .lines()
                .find(|line| line.trim_start().starts_with(&format!("{name}.")));
            let value = line.and_then(|line| number(line.rsplit('.').next()?));
            assert_eq!(value, Some(of(field)), "{name}: {said}");
        }
        let (status, said) = ran(lab, "ibroute -D 0,1");
        assert!(status != 0 && said.contains("not a switch"), "{said}");
    });
}

#[test]
fn no_test_blames_device_for_opensm() {
    managed(|lab| {
        let (_, said) = ran(
            lab,
            "verbatim run --rig vib 'c14-024-port-info-*' 'c14-016-*-protect-0'",
        );
        assert!(!said.contains("FAIL "), "{said}");
        assert!(
            said.contains("NOT_APPLICABLE c14-016-set-protect-0"),
            "the key is read and taken off there: {said}"
        );
    });
}
