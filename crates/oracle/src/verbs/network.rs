//! Rules for the IP header and for DestQP. Every packet, request or response, carries the values of the queue pair's
//! address vector. A packet without the right DestQP belongs to no connection.
//!
//! Source: architecture 8.3 (GRH), 11.2.2.1 (address handles); annex A17 (RoCEv2: position of the GRH's fields);
//! Linux rxe. The low two bits of the traffic class belong to ECN, for congestion control. If the address vector
//! has the flow label 0, any flow label is legal. IPv4 has no flow label.

use core::net::{IpAddr, Ipv6Addr};

use verbatim_record::verbs::{Command, Reply};
use verbatim_record::{Passed, Side};
use verbatim_wire::MacAddress;
use verbatim_wire::packet::{Medium, Packet, Service};

use super::asking::{Asking, VerbsRule};
use super::qp_trace::QpTrace;
use crate::rc::Seen;
use crate::rule::Rule;

pub(super) static RULES: &[(Rule, VerbsRule)] = &[
    (Rule::AddressVector, address_vector),
    (Rule::Frame, frame),
    (Rule::DestQp, dest_qp),
    (Rule::MigrationState, migration_state),
];

/// Bytes of the shortest Ethernet frame, without its check sequence: shorter frames are padded (IEEE 802.3, 3.2.8).
const LEAST_FRAME: usize = 60;
/// ECN value for congestion experienced, which no end of a connection sets in its own packets.
const CE: u8 = 3;

fn address_vector<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let Some(asked) = qp.dialogue.attributes.address.as_ref() else {
        return;
    };
    // Check only RC packets. A CNP may have a traffic class of its own, so that it passes other waiting packets. A
    // datagram has the address vector of its work request.
    let is_of_queue_pair = |seen: &Seen<'_>| seen.packet.opcode().service() == Service::Rc;
    for seen in qp.dialogue.of_dut().filter(is_of_queue_pair) {
        let (hops, dscp, ecn, flow) = match (seen.packet.ipv4(), seen.packet.ipv6()) {
            (Some(ip), _) => (ip.ttl(), ip.dscp(), ip.ecn(), None),
            (_, Some(ip)) => (ip.hop_limit(), ip.dscp(), ip.ecn(), Some(ip.flow_label().0)),
            _ => continue,
        };
        let flow = flow.filter(|_| asked.flow_label != 0);
        // On hardware, a kernel may set the hop limit of its route instead, and switches may rewrite DSCP and ECN.
        let has_hops = !qp.is_lossless() || asked.hop_limit == 0 || u32::from(hops) == asked.hop_limit;
        let has_class = u32::from(dscp) == asked.traffic_class >> 2 && ecn != CE;
        let has_label = flow.is_none_or(|flow| flow == asked.flow_label);
        let result = match (has_label && has_hops, has_class) {
            (true, true) => Passed::Pass,
            (true, false) if !qp.is_lossless() => Passed::Inconclusive,
            _ => Passed::Fail,
        };
        asking.say(result, [seen.frame.into()], || {
            let words = |hops: u32, dscp: u32, flow: Option<u32>| {
                let flow = flow.map(|flow| format!(", flow label {flow:#07x}"));
                format!("hop limit {hops}, DSCP {dscp}{}", flow.unwrap_or_default())
            };
            let expected = words(
                asked.hop_limit,
                asked.traffic_class >> 2,
                flow.map(|_| asked.flow_label),
            );
            let found = words(hops.into(), dscp.into(), flow);
            let ecn = if ecn == CE { ", ECN congestion experienced" } else { "" };
            (seen.packet.to_string(), expected, format!("{found}{ecn}"))
        });
    }
}

fn dest_qp<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let dialogue = &qp.dialogue;
    let commands = qp.trace.timeline.commands.iter().filter(|done| done.side == Side::Dut);
    let is_peer = |number: u32| {
        commands.clone().any(|done| match &done.command {
            Command::ModifyQp(modify) => modify.attributes.as_ref().and_then(|of| of.dest_qpn) == Some(number),
            _ => false,
        })
    };
    for frame in qp.trace.timeline.frames_between(dialogue.places) {
        let packet = Packet::parse(Medium::Ethernet, &frame.bytes).ok();
        let is_response =
            |packet: &Packet<'_>| packet.opcode().is_response() && packet.opcode().service() == Service::Rc;
        let Some(packet) = packet.filter(|packet| frame.received && is_response(packet)) else {
            continue;
        };
        let to = packet.bth().dest_qp();
        // On hardware the tester's host may have connections of its own.
        let is_another_s = || !qp.is_lossless() && to != dialogue.dut_qpn || is_peer(to.0);
        if to != dialogue.own_qpn && is_another_s() {
            continue;
        }
        asking.must(to == dialogue.own_qpn, [frame.into()], || {
            (
                String::new(),
                format!("DestQP {}", dialogue.own_qpn),
                packet.to_string(),
            )
        });
    }
}

/// Checks that MigReq never changes between requests, nor between responses. Either value is legal: it depends on
/// the driver, and on the state in which the queue pair was set up (17.2.8). CNPs do not belong to the queue pair.
fn migration_state<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let is_of_queue_pair = |seen: &Seen<'_>| seen.packet.opcode().service() == Service::Rc;
    let (mut request, mut response) = (None, None);
    for seen in qp.dialogue.of_dut().filter(is_of_queue_pair) {
        let (packet, migrated) = (&seen.packet, seen.packet.bth().migrated());
        let first = match packet.opcode().is_response() {
            true => &mut response,
            false => &mut request,
        };
        let (before, frame) = *first.get_or_insert((migrated, seen.frame));
        asking.must(migrated == before, [frame.into(), seen.frame.into()], || {
            let words = |migrated: bool| format!("MigReq {}", u8::from(migrated));
            let expected = format!("{}, as in earlier packets", words(before));
            (packet.to_string(), expected, words(migrated))
        });
    }
}

/// Returns two IP addresses as GIDs.
fn as_gid(ip: Option<(IpAddr, IpAddr)>) -> Option<[Ipv6Addr; 2]> {
    let of = |ip| match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    ip.map(|(from, to)| [of(from), of(to)])
}

/// Returns source and destination of a packet as GIDs.
pub(super) fn ends(packet: &Packet<'_>) -> Option<[Ipv6Addr; 2]> {
    let of_v4 = packet.ipv4().map(|ip| (IpAddr::V4(ip.src()), IpAddr::V4(ip.dst())));
    let of_v6 = || packet.ipv6().map(|ip| (IpAddr::V6(ip.src()), IpAddr::V6(ip.dst())));
    as_gid(of_v4.or_else(of_v6))
}

fn frame<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let Some(asked) = qp.dialogue.attributes.address.as_ref() else {
        return;
    };
    let gid = |bytes: &[u8]| <[u8; 16]>::try_from(bytes).ok().map(Ipv6Addr::from);
    let mut opened = qp.trace.timeline.commands.iter().filter_map(|done| match &done.answer {
        Some((_, _, Reply::Opened(facts), _)) if done.side == Side::Dut => Some(facts),
        _ => None,
    });
    let own = opened.find_map(|facts| facts.gids.iter().find(|gid| gid.index == asked.sgid_index));
    let Some((own, peer)) = own.and_then(|own| gid(&own.gid)).zip(gid(&asked.dgid)) else {
        return;
    };
    let is_of_peer = |seen: &&Seen<'_>| !seen.frame.received && ends(&seen.packet) == Some([peer, own]);
    let of_peer = qp.dialogue.packets.iter().find(is_of_peer);
    let macs_of_peer = of_peer
        .and_then(|seen| seen.packet.ethernet())
        .map(|of| (of.dst(), of.src()));
    for seen in qp.dialogue.of_dut() {
        let packet = &seen.packet;
        let Some(ends) = ends(packet) else { continue };
        let own_macs = packet.ethernet().map(|of| (of.src(), of.dst()));
        // On hardware, check only the IP addresses: the MAC addresses depend on the route, a switch may add a VLAN
        // tag, and an adapter may show padding or the check sequence.
        let is_so = !qp.is_lossless()
            || macs_of_peer.is_none_or(|macs| own_macs == Some(macs))
                && packet.vlan().is_none()
                && (packet.trailer().is_empty() || seen.frame.bytes.len() <= LEAST_FRAME);
        asking.must(ends == [own, peer] && is_so, [seen.frame.into()], || {
            let macs = |of: Option<(MacAddress, MacAddress)>| {
                of.map_or(String::new(), |(from, to)| format!(", in a frame from {from} to {to}"))
            };
            let expected = format!("from {own} to {peer}{}", macs(own_macs.and(macs_of_peer)));
            let tag = packet
                .vlan()
                .map_or(String::new(), |tag| format!(", VLAN {}", tag.vid()));
            let behind = packet.trailer().len();
            let seen_words = format!(
                "from {} to {}{}{tag}, {behind} bytes after it",
                ends[0],
                ends[1],
                macs(own_macs)
            );
            (packet.to_string(), format!("{expected}, no bytes after it"), seen_words)
        });
    }
}
