//! The performance management agent: ClassPortInfo, PortCounters and PortRcvErrorDetails (architecture 16.1.3, 16.1.4).

use verbatim_wire::values::Hex16;
use verbatim_wire::{
    AttributeId, ClassPortInfo, Layout, Mad, Method, PortCounters, PortRcvErrorDetails, RespTime, Status,
};

use crate::defect::{Defect, Faults};
use crate::port::Port;
use crate::profile::Profile;

/// Length of the packet of a MAD in units of 4 bytes: LRH, BTH, DETH, the MAD of 256 bytes, ICRC.
const PACKET_DWORDS: u32 = 72;
/// Names of the PortCounters fields that CounterSelect selects, bit 0 first.
const SELECTED: [&str; 16] = [
    "SymbolErrorCounter",
    "LinkErrorRecoveryCounter",
    "LinkDownedCounter",
    "PortRcvErrors",
    "PortRcvRemotePhysicalErrors",
    "PortRcvSwitchRelayErrors",
    "PortXmitDiscards",
    "PortXmitConstraintErrors",
    "PortRcvConstraintErrors",
    "LocalLinkIntegrityErrors",
    "ExcessiveBufferOverrunErrors",
    "VL15Dropped",
    "PortXmitData",
    "PortRcvData",
    "PortXmitPkts",
    "PortRcvPkts",
];
/// The optional counters among `SELECTED`.
const TRAFFIC: [&str; 4] = ["PortXmitData", "PortRcvData", "PortXmitPkts", "PortRcvPkts"];
/// Names of the PortRcvErrorDetails fields that CounterSelect selects, bit 0 first.
const SELECTED_DETAILS: [&str; 6] = [
    "PortLocalPhysicalErrors",
    "PortMalformedPktErrors",
    "PortBufferOverrunErrors",
    "PortDLIDMappingErrors",
    "PortVLMappingErrors",
    "PortLoopingErrors",
];

/// Returns the response to a request of the performance class. `at` is the index of the receiving port, from 0.
pub(crate) fn serve(
    ports: &mut [Port],
    at: usize,
    (profile, faults): (&Profile, &Faults),
    request: &Mad,
) -> Option<Mad> {
    let method = request.method();
    if method.is_response() || request.header().base_version() != 1 {
        return None;
    }
    if matches!(method, Method::TRAP | Method::REPORT | Method::TRAP_REPRESS) {
        return None;
    }
    if profile.choices.counts_traffic {
        let counters = &mut ports[at].counters;
        *counters = counters
            .with_port_rcv_pkts(counters.port_rcv_pkts().saturating_add(1))
            .with_port_rcv_data(counters.port_rcv_data().saturating_add(PACKET_DWORDS));
    }

    if profile.choices.performance_elsewhere && matches!(method, Method::GET | Method::SET) {
        return Some(redirection(request, faults));
    }
    let (status, data) = match (method, request.attribute_id()) {
        _ if request.header().class_version() != 1 && !faults.has(Defect::PerformanceVersionIgnored) => {
            (Status::BAD_VERSION, None)
        }
        (Method::GET, AttributeId::CLASS_PORT_INFO) => (Status::OK, Some(class_port_info(faults))),
        (Method::GET | Method::SET, AttributeId::PORT_COUNTERS) => port_counters(ports, (profile, faults), request),
        (Method::GET | Method::SET, AttributeId::PORT_RCV_ERROR_DETAILS) if profile.rcv_error_details => {
            error_details(ports, faults, request)
        }
        (Method::GET | Method::SET, _) => (unsupported_attribute(faults), None),
        _ => (Status::METHOD_UNSUPPORTED, None),
    };

    if profile.choices.counts_traffic {
        let counters = &mut ports[at].counters;
        *counters = counters
            .with_port_xmit_pkts(counters.port_xmit_pkts().saturating_add(1))
            .with_port_xmit_data(counters.port_xmit_data().saturating_add(PACKET_DWORDS));
    }
    let mut answer = request.with_method(Method::GET_RESP).with_status(status);
    if faults.has(Defect::PerformanceResponseVersion2) {
        answer.bytes_mut()[2] = 2;
    }
    if faults.has(Defect::PerformanceResponseReservedSet) {
        answer.bytes_mut()[19] = 1;
    }
    if faults.has(Defect::PerformanceResponseDataReservedSet) {
        answer.bytes_mut()[40] = 1;
    }
    Some(match data {
        Some(data) => answer.with_data(&data),
        None => answer,
    })
}

fn unsupported_attribute(faults: &Faults) -> Status {
    if faults.has(Defect::UnsupportedAttributeAccepted) {
        Status::OK
    } else {
        Status::METHOD_ATTRIBUTE_UNSUPPORTED
    }
}

/// ClassPortInfo:CapabilityMask of the performance class: PortXmitWait is supported.
const XMIT_WAIT: u16 = 1 << 12;
/// ClassPortInfo:CapabilityMask of the performance class: PortSelect 0xFF selects all ports.
const ALL_PORT_SELECT: u16 = 1 << 8;

fn class_port_info(faults: &Faults) -> [u8; 192] {
    let version = 1 + u8::from(faults.has(Defect::PerformanceClassVersion2));
    let all_ports = if faults.has(Defect::AllPortSelectClaimed) {
        ALL_PORT_SELECT
    } else {
        0
    };
    let info = ClassPortInfo::default()
        .with_base_version(1)
        .with_class_version(version)
        .with_capability_mask(Hex16(XMIT_WAIT | all_ports))
        .with_resp_time_value(RespTime(18));
    let mut data = [0; 192];
    data.copy_from_slice(info.bytes());
    data
}

/// Returns the response that redirects the requester (architecture 13.5.2): a ClassPortInfo with the redirect status.
fn redirection(request: &Mad, faults: &Faults) -> Mad {
    let mut answer = request
        .with_method(Method::GET_RESP)
        .with_status(Status(0x0002))
        .with_data(&class_port_info(faults));
    answer.bytes_mut()[16..18].copy_from_slice(&AttributeId::CLASS_PORT_INFO.0.to_be_bytes());
    answer
}

/// Returns the counters of the port in PortSelect. A Set first writes the counters in CounterSelect.
fn port_counters(
    ports: &mut [Port],
    (profile, faults): (&Profile, &Faults),
    request: &Mad,
) -> (Status, Option<[u8; 192]>) {
    let wanted: PortCounters = request.attribute();
    let select = match usize::from(wanted.port_select()) {
        0 if faults.has(Defect::PortSelect0Accepted) => 1,
        0xFF if faults.has(Defect::PortSelect255Accepted) => 1,
        beyond if beyond > ports.len() && faults.has(Defect::PortSelectBeyondAccepted) => 1,
        _ => wanted.port_select(),
    };
    if !ports.iter().any(|port| port.number == select)
        && request.method() == Method::SET
        && faults.has(Defect::PortCountersRefusedWritten)
        && let Some(first) = ports.first_mut()
    {
        first.counters = first
            .counters
            .with_fields_of(&wanted, &selected(&SELECTED, wanted.counter_select().0));
    }
    let Some(port) = ports.iter_mut().find(|port| port.number == select) else {
        return (Status::INVALID_FIELD, None);
    };
    if request.method() == Method::SET && !faults.has(Defect::PortCountersNotWritten) {
        let select = match wanted.counter_select().0 {
            _ if faults.has(Defect::CounterSelectIgnored) => 0xFFFF,
            low if faults.has(Defect::CounterSelectLow8Bits) => low & 0xFF,
            all => all,
        };
        let mut names = selected(&SELECTED, select);
        if wanted.counter_select_2().0 & 1 != 0 {
            names.push("PortXmitWait");
        }
        if !profile.choices.counts_traffic {
            names.retain(|name| !TRAFFIC.contains(name));
        }
        port.counters = narrowed(port.counters.with_fields_of(&wanted, &names), faults);
    }
    (Status::OK, Some(shown(&port.counters, &wanted)))
}

/// Truncates the counters that have too few bits in a defective device.
fn narrowed(counters: PortCounters, faults: &Faults) -> PortCounters {
    if faults.has(Defect::SymbolErrorCounter8Bits) {
        return counters.with_symbol_error_counter(counters.symbol_error_counter() & 0xFF);
    }
    if faults.has(Defect::PortRcvErrors4Bits) {
        return counters.with_port_rcv_errors(counters.port_rcv_errors() & 0xF);
    }
    if faults.has(Defect::Vl15Dropped8Bits) {
        return counters.with_vl15_dropped(counters.vl15_dropped() & 0xFF);
    }
    counters
}

/// Returns PortRcvErrorDetails of the port in PortSelect. A Set first writes the counters in CounterSelect.
fn error_details(ports: &mut [Port], faults: &Faults, request: &Mad) -> (Status, Option<[u8; 192]>) {
    let wanted: PortRcvErrorDetails = request.attribute();
    let Some(port) = ports.iter_mut().find(|port| port.number == wanted.port_select()) else {
        return (Status::INVALID_FIELD, None);
    };
    if request.method() == Method::SET {
        let names = selected(&SELECTED_DETAILS, wanted.counter_select().0);
        port.details = port.details.with_fields_of(&wanted, &names);
        if faults.has(Defect::RcvErrorDetailsClearErrors) {
            port.counters = port.counters.with_port_rcv_errors(0);
        }
    }
    (Status::OK, Some(shown(&port.details, &wanted)))
}

fn selected(names: &[&'static str], select: u16) -> Vec<&'static str> {
    let bits = (0..16).filter(|bit| select & (1 << bit) != 0);
    bits.filter_map(|bit| names.get(bit).copied()).collect()
}

fn shown<L: Layout>(counters: &L, wanted: &L) -> [u8; 192] {
    let mut data = [0; 192];
    data.copy_from_slice(
        counters
            .with_fields_of(wanted, &["PortSelect", "CounterSelect"])
            .bytes(),
    );
    data
}
