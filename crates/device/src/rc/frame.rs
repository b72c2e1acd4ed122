//! Conversion of the adapter's packets to RoCEv2 frames or native InfiniBand packets.

use core::net::{IpAddr, Ipv6Addr};

use verbatim_wire::crc::{ICRC_LENGTH, VCRC_LENGTH};
use verbatim_wire::ether::{Ipv4, Udp};
use verbatim_wire::values::{Hex8, Hex16, Hex32, Hex64};
use verbatim_wire::{
    Aeth, Bth, Grh, Layout, Lid, Lrh, MacAddress, Medium, Network, Opcode, PKey, Packet, Reserved, Station, Transport,
    edit, mend_icrc, mend_lengths, mend_vcrc,
    packet::{Syndrome, packet},
};

use super::defect::{RcDefect, RcFaults};

/// Hop limit of packets with hop limit 0 in the address vector.
const HOPS: u8 = 64;

/// The address of a port on its link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Address {
    /// An IP address, on Ethernet.
    Ip(IpAddr),
    /// A LID, on InfiniBand.
    Lid(Lid),
}

/// The path of a packet: its fields of the headers before the BTH.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Path {
    pub(crate) from: Address,
    pub(crate) to: Address,
    /// InfiniBand: the service level.
    pub(crate) sl: u8,
    /// InfiniBand: SGID and DGID, if the packets carry a GRH.
    pub(crate) gids: Option<(Ipv6Addr, Ipv6Addr)>,
    pub(crate) hop_limit: u8,
    pub(crate) traffic_class: u8,
    pub(crate) flow_label: u32,
    pub(crate) udp_port: u16,
}

/// Builds the native packet of a path between two LIDs, with the errors of the adapter's defects. The port later
/// chooses the VL.
pub(crate) fn native(slid: Lid, dlid: Lid, path: &Path, transport: &Transport, faults: &RcFaults) -> Vec<u8> {
    let slid = if faults.has(RcDefect::SourceAddressOther) {
        Lid(slid.0 ^ 1)
    } else {
        slid
    };
    let grh = path.gids.map(|(from, to)| {
        Grh::default()
            .with_src(from)
            .with_dst(to)
            .with_hop_lmt(hops(path))
            .with_t_class(Hex8(path.traffic_class))
            .with_flow_label(Hex32(flow_label(path, faults)))
    });
    let lrh = Lrh::default().with_slid(slid).with_dlid(dlid).with_sl(path.sl);
    let mut bytes = packet(&Network::InfiniBand { lrh, grh }, transport);
    spoil(Medium::InfiniBand, &mut bytes, faults);
    let _ = mend_vcrc(Medium::InfiniBand, &mut bytes);
    bytes
}

/// Builds the frame of a packet between two IP addresses, with the errors of the adapter's defects.
pub(crate) fn build(
    (from, from_ip): (MacAddress, IpAddr),
    (to, to_ip): (MacAddress, IpAddr),
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
        beside(from_ip)
    } else {
        from_ip
    };
    let network = match Network::roce_v2(&station(from, source), &station(to, to_ip)) {
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
    spoil(Medium::Ethernet, &mut frame, faults);
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

/// Puts the errors of the adapter's defects into a packet.
fn spoil(medium: Medium, frame: &mut Vec<u8>, faults: &RcFaults) {
    let Ok(parsed) = Packet::parse(medium, frame) else {
        return;
    };
    let (at, pad) = (parsed.offsets().bth, usize::from(parsed.bth().pad_count()));
    let is_nak = parsed
        .aeth()
        .is_some_and(|aeth| !matches!(aeth.syndrome().kind(), verbatim_wire::packet::SyndromeKind::Ack(_)));
    let is_datagram = parsed.opcode().service() == verbatim_wire::Service::Ud;
    let (is_response, has_ipv4) = (parsed.opcode().is_response(), parsed.ipv4().is_some());
    let is_ethernet = medium == Medium::Ethernet;
    let trailer = ICRC_LENGTH + if is_ethernet { 0 } else { VCRC_LENGTH };
    let has_data = matches!(
        parsed.opcode(),
        Opcode::RC_READ_RESPONSE_FIRST | Opcode::RC_READ_RESPONSE_LAST | Opcode::RC_READ_RESPONSE_ONLY
    );
    if has_data && faults.has(RcDefect::ReadResponseSyndromeReserved) {
        edit::<Aeth>(frame, at + Bth::SIZE, |aeth| {
            aeth.with_syndrome(Syndrome(aeth.syndrome().0 | 0x80))
        });
        let _ = mend_icrc(medium, frame);
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
        let end = frame.len() - trailer;
        frame.drain(end - pad..end);
        let _ = mend_lengths(medium, frame);
    }
    if changed {
        let _ = mend_icrc(medium, frame);
    }
    if is_ethernet && faults.has(RcDefect::UdpChecksumWrong) {
        edit::<Udp>(frame, at - Udp::SIZE, |udp| udp.with_checksum(Hex16(0xBAD1)));
    }
    if has_ipv4 && faults.has(RcDefect::IpChecksumWrong) {
        edit::<Ipv4>(frame, at - Udp::SIZE - Ipv4::SIZE, |ip| ip.with_checksum(Hex16(0xBAD1)));
    }
    let icrc_at = frame.len() - trailer;
    let icrc = icrc_at..icrc_at + ICRC_LENGTH;
    if is_ethernet && faults.has(RcDefect::IcrcCoversTrafficClass) {
        let wrong = icrc_over_traffic_class(&frame[..icrc_at], at);
        frame[icrc.clone()].copy_from_slice(&wrong);
    }
    if faults.has(RcDefect::IcrcByteSwapped) || is_datagram && faults.has(RcDefect::DatagramIcrcWrong) {
        frame[icrc].reverse();
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
