//! Connections that the communication manager sets up in the capture.

use std::net::IpAddr;

use verbatim_wire::packet::packet;
use verbatim_wire::{Bth, Deth, MacAddress, Medium, Network, Opcode, Packet, Psn, Qpn, Station, Transport};

use super::super::{Connections, Ended, Event, Loss, ServiceId};
use super::qp_trace::QpTrace;

/// First PSNs of both ends in [`QpTrace`].
const FIRST_PSNS: [u32; 2] = [0xFF_FFFC, 0x100];
/// Queue pairs of both ends.
const QPNS: [u32; 2] = [0x11, 0x22];

fn upper_24(value: u32) -> [u8; 3] {
    let [_, rest @ ..] = value.to_be_bytes();
    rest
}

/// Returns a message of the communication manager from one end. `fields`: offset and bytes of each field.
fn message(from: usize, attribute: u8, id: u8, fields: &[(usize, &[u8])]) -> (u64, Vec<u8>) {
    let station = |last: u8| Station {
        mac: MacAddress([2, 0, 0, 0, 0, last]),
        ip: IpAddr::from([10, 0, 0, last]),
        udp_port: 0xC001,
    };
    let stations = [station(1), station(2)];
    let mut payload = vec![0; 256];
    payload[..4].copy_from_slice(&[1, 7, 2, 3]);
    payload[17] = attribute;
    for (at, bytes) in [(if from == 0 { 0 } else { 4 }, &[0, 0, 0, id][..])]
        .iter()
        .chain(fields)
    {
        payload[24 + at..24 + at + bytes.len()].copy_from_slice(bytes);
    }
    let transport = Transport {
        bth: Bth::default().with_opcode(Opcode::UD_SEND_ONLY).with_dest_qp(Qpn(1)),
        deth: Some(Deth::default()),
        payload,
        ..Transport::default()
    };
    (
        0,
        packet(&Network::roce_v2(&stations[from], &stations[1 - from]), &transport),
    )
}

/// Returns a REQ of end 0 for NVMe, and the REP of end 1.
fn begun(id: u8) -> [(u64, Vec<u8>); 2] {
    let request = message(
        0,
        0x10,
        id,
        &[
            (8, &[0, 0, 0, 0, 1, 0x06, 0x11, 0x44]),
            (32, &upper_24(QPNS[0])),
            (44, &upper_24(FIRST_PSNS[0])),
            (47, &[5]),
            (50, &[0x16]),
        ],
    );
    let reply = message(
        1,
        0x13,
        id,
        &[(12, &upper_24(QPNS[1])), (20, &upper_24(FIRST_PSNS[1])), (27, &[0xE0])],
    );
    [request, reply]
}

fn judged(loss: Loss, frames: &[(u64, Vec<u8>)]) -> Vec<Ended> {
    let mut connections = Connections::new(loss);
    let mut all = Vec::new();
    for (number, (_, bytes)) in frames.iter().enumerate() {
        let packet = Packet::parse(Medium::Ethernet, bytes).unwrap();
        let event = Event {
            number: number as u64 + 1,
            at: None,
            packet,
            is_cut: false,
        };
        connections.take(&event, |ended| all.push(ended));
        connections.manage(&packet, |ended| all.push(ended));
    }
    connections.finish(|ended| all.push(ended));
    all
}

/// Returns the rules that are broken without an excuse.
fn broken(all: &[Ended]) -> Vec<&str> {
    let findings = all.iter().flat_map(|ended| &ended.connection.findings);
    let without = findings.filter(|finding| finding.unless.is_none());
    without.map(|finding| finding.rule.name()).collect()
}

#[test]
fn connection_has_parameters_of_the_manager() {
    let qp = QpTrace::of_everything();
    let all = judged(Loss::Excluded, &[&begun(1)[..], &qp.frames].concat());
    assert_eq!((all.len(), broken(&all)), (1, vec![]));
    assert_eq!(all[0].ends.map(|end| end.qpn), QPNS.map(|qpn| Some(Qpn(qpn))));
    let managed = all[0].connection.managed.unwrap();
    assert_eq!(managed.service, ServiceId(0x0106_1144));
    assert_eq!(managed.service.to_string(), "0x0000000001061144 (TCP port 4420, NVMe)");
    assert_eq!(managed.first_psns, FIRST_PSNS.map(Psn));
    assert_eq!(managed.path_mtu, Some(256));
    assert_eq!((managed.retry_count, managed.rnr_retry_counts), (5, [7, 6]));
}

#[test]
fn loss_behind_the_manager_is_no_violation() {
    let qp = QpTrace::of_everything();
    for lost in 0..qp.frames.len() {
        let all = judged(Loss::Possible, &[&begun(1)[..], &qp.frames[lost..]].concat());
        assert_eq!(broken(&all), [""; 0], "{lost} lost");
        assert_eq!(all[0].connection.path_mtu(), Some(256), "{lost} lost");
    }
}

#[test]
fn other_first_psn_is_a_violation() {
    let mut qp = QpTrace::default();
    qp.send(1);
    let all = judged(Loss::Excluded, &[&begun(1)[..], &qp.frames].concat());
    assert_eq!(broken(&all), ["psn"]);
}

#[test]
fn repeated_manager_messages_begin_nothing() {
    let mut qp = QpTrace::default();
    qp.send(0);
    qp.ack(0, 1);
    let middle = qp.frames.len();
    qp.send(1);
    qp.ack(1, 2);
    let (before, behind) = qp.frames.split_at(middle);
    let again = judged(Loss::Excluded, &[&begun(1)[..], before, &begun(1), behind].concat());
    assert_eq!((again.len(), broken(&again)), (1, vec![]));
    let anew = [&begun(1)[..], before, &begun(2), before].concat();
    let anew = judged(Loss::Excluded, &anew);
    assert_eq!((anew.len(), broken(&anew)), (2, vec![]));
}
