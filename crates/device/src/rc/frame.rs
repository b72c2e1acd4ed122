//! Conversion of the adapter's packets to RoCEv2 frames.

use core::net::IpAddr;

use verbatim_wire::ether::{Ipv4, Udp};
use verbatim_wire::values::{Hex16, Hex32, Hex64};
use verbatim_wire::{
    Aeth, Bth, Layout, MacAddress, Medium, Network, Opcode, PKey, Packet, Reserved, Station, Transport, edit,
    mend_icrc, mend_lengths,
    packet::{Syndrome, packet},
};

use super::defect::{RcDefect, RcFaults};

/// Hop limit of packets with hop limit 0 in the address vector.
const HOPS: u8 = 64;
const ICRC_LENGTH: usize = 4;

/// The path of a packet: its fields of the IP and UDP headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Path {
    pub(crate) from: IpAddr,
    pub(crate) to: IpAddr,
    pub(crate) hop_limit: u8,
    pub(crate) traffic_class: u8,
    pub(crate) flow_label: u32,
    pub(crate) udp_port: u16,
}

/// Builds the frame of a packet, with the errors of the adapter's defects.
pub(crate) fn build(
    from: MacAddress,
    to: MacAddress,
    path: &Path,
    transport: &Transport,
    faults: &RcFaults,
) -> Vec<u8> {
    let station = |mac, ip| Station {
        mac,
        ip,
        udp_port: path.udp_port,
    };
    let source = if faults.has(RcDefect::SourceAddressOther) {
        beside(path.from)
    } else {
        path.from
    };
    let network = match Network::roce_v2(&station(from, source), &station(to, path.to)) {
        Network::RoceV2Ipv4 { link, ip, udp } => Network::RoceV2Ipv4 {
            link,
            ip: ip
                .with_ttl(hops(path))
                .with_dscp(path.traffic_class >> 2)
                .with_ecn(path.traffic_class & 3),
            udp,
        },
        Network::RoceV2Ipv6 { link, ip, udp } => Network::RoceV2Ipv6 {
            link,
            ip: ip
                .with_hop_limit(hops(path))
                .with_dscp(path.traffic_class >> 2)
                .with_ecn(path.traffic_class & 3)
                .with_flow_label(Hex32(flow_label(path, faults))),
            udp,
        },
        other => other,
    };
    let mut frame = packet(&network, transport);
    spoil(&mut frame, faults);
    frame
}

/// Returns another address of the same subnet.
fn beside(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => IpAddr::from((u32::from(ip) ^ 0x80).to_be_bytes()),
        IpAddr::V6(ip) => IpAddr::from((u128::from(ip) ^ 0x80).to_be_bytes()),
    }
}

fn flow_label(path: &Path, faults: &RcFaults) -> u32 {
    if faults.has(RcDefect::FlowLabelIgnored) {
        return 0;
    }
    path.flow_label
}

fn hops(path: &Path) -> u8 {
    if path.hop_limit == 0 { HOPS } else { path.hop_limit }
}

/// Puts the errors of the adapter's defects into a frame.
fn spoil(frame: &mut Vec<u8>, faults: &RcFaults) {
    let Ok(parsed) = Packet::parse(Medium::Ethernet, frame) else {
        return;
    };
    let (at, pad) = (parsed.offsets().bth, usize::from(parsed.bth().pad_count()));
    let is_nak = parsed
        .aeth()
        .is_some_and(|aeth| !matches!(aeth.syndrome().kind(), verbatim_wire::packet::SyndromeKind::Ack(_)));
    let is_datagram = parsed.opcode().service() == verbatim_wire::Service::Ud;
    let (is_response, has_ipv4) = (parsed.opcode().is_response(), parsed.ipv4().is_some());
    let has_data = matches!(
        parsed.opcode(),
        Opcode::RC_READ_RESPONSE_FIRST | Opcode::RC_READ_RESPONSE_LAST | Opcode::RC_READ_RESPONSE_ONLY
    );
    if has_data && faults.has(RcDefect::ReadResponseSyndromeReserved) {
        edit::<Aeth>(frame, at + Bth::SIZE, |aeth| {
            aeth.with_syndrome(Syndrome(aeth.syndrome().0 | 0x80))
        });
        let _ = mend_icrc(Medium::Ethernet, frame);
    }
    let mut changed = false;
    let mut header = |change: &dyn Fn(Bth) -> Bth| {
        edit::<Bth>(frame, at, change);
        changed = true;
    };
    if faults.has(RcDefect::TVerSetOnSend) {
        header(&|bth| bth.with_tver(1));
    }
    if faults.has(RcDefect::PKeyZeroOnSend) {
        header(&|bth| bth.with_p_key(PKey(0)));
    }
    if faults.has(RcDefect::ReservedBitsSet) || is_nak && faults.has(RcDefect::ReservedBitsOfNaksSet) {
        header(&|bth| bth.with_reserved_65(Reserved(0x7F)));
    }
    if is_response && faults.has(RcDefect::AckReqOnResponses) {
        header(&|bth| bth.with_ack_request(true));
    }
    if faults.has(RcDefect::PadCountZero) || faults.has(RcDefect::PadMissing) {
        header(&|bth| bth.with_pad_count(0));
    }
    if faults.has(RcDefect::PadMissing) {
        let end = frame.len() - ICRC_LENGTH;
        frame.drain(end - pad..end);
        let _ = mend_lengths(Medium::Ethernet, frame);
    }
    if changed {
        let _ = mend_icrc(Medium::Ethernet, frame);
    }
    if faults.has(RcDefect::UdpChecksumWrong) {
        edit::<Udp>(frame, at - Udp::SIZE, |udp| udp.with_checksum(Hex16(0xBAD1)));
    }
    if has_ipv4 && faults.has(RcDefect::IpChecksumWrong) {
        edit::<Ipv4>(frame, at - Udp::SIZE - Ipv4::SIZE, |ip| ip.with_checksum(Hex16(0xBAD1)));
    }
    let end = frame.len() - ICRC_LENGTH;
    if faults.has(RcDefect::IcrcCoversTrafficClass) {
        let icrc = icrc_over_traffic_class(&frame[..end], at);
        frame[end..].copy_from_slice(&icrc);
    }
    if faults.has(RcDefect::IcrcByteSwapped) || is_datagram && faults.has(RcDefect::DatagramIcrcWrong) {
        frame[end..].reverse();
    }
}

/// Returns a wrong ICRC that covers the transmitted type of service (IPv4) or traffic class (IPv6). The right ICRC
/// counts this field as ones.
fn icrc_over_traffic_class(frame: &[u8], bth: usize) -> [u8; ICRC_LENGTH] {
    let mut covered = vec![0xFF; 8];
    covered.extend(&frame[14..]);
    let ip = 8;
    let bth = bth - 14 + 8;
    let udp = bth - 8;
    let masked = if covered[ip] >> 4 == 4 {
        covered[ip + 8] = 0xFF;
        [ip + 10, ip + 11]
    } else {
        covered[ip + 1] |= 0x0F;
        covered[ip + 2] = 0xFF;
        covered[ip + 3] = 0xFF;
        [ip + 7, ip + 7]
    };
    for at in masked.into_iter().chain([udp + 6, udp + 7, bth + 4]) {
        covered[at] = 0xFF;
    }
    let mut crc = !0u32;
    for byte in covered {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
        }
    }
    (!crc).to_le_bytes()
}

pub(crate) fn hex64(value: u64) -> Hex64 {
    Hex64(value)
}
