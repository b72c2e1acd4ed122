//! Checks a RoCE packet: the parts of the data packet check that apply on Ethernet.

use verbatim_wire::crc::{ICRC_LENGTH, icrc_of};
use verbatim_wire::ether::{IpProtocol, internet_checksum};
use verbatim_wire::{Bth, EtherType, Ethernet, Form, Grh, Ipv4, Ipv6, Layout, Opcode, PKey, ROCE_V2_PORT, Udp};

use super::check::{Check, Checks};
use super::judgement::Judgement;
use super::port::Port;

/// Maximum number of VLAN tags in a frame: a service tag and a customer tag.
const MOST_TAGS: usize = 2;

/// Position of a RoCE packet in its frame.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) form: Form,
    /// Offset of the GRH or IP header.
    pub(super) start: usize,
    pub(super) bth: usize,
    /// Offset of the end of the ICRC, according to the GRH or IP header; may exceed the frame.
    pub(super) end: usize,
}

impl Place {
    /// Finds the packet, or returns why the frame holds no RoCE packet.
    pub(super) fn find(frame: &[u8]) -> Result<Self, &'static str> {
        const SHORT: &str = "the frame is too short for a RoCE packet's headers";
        let u16_at = |at: usize| Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?));
        let mut start = Ethernet::SIZE;
        let mut ethertype = u16_at(start - 2).ok_or(SHORT)?;
        for _ in 0..MOST_TAGS {
            if ethertype == EtherType::VLAN.0 || ethertype == EtherType::SERVICE_VLAN.0 {
                start += 4;
                ethertype = u16_at(start - 2).ok_or(SHORT)?;
            }
        }
        let form = match EtherType(ethertype) {
            EtherType::IPV4 => Form::RoceV2Ipv4,
            EtherType::IPV6 => Form::RoceV2Ipv6,
            EtherType::ROCE_V1 => Form::RoceV1,
            _ => return Err("no RoCE packet: another EtherType"),
        };
        let network = &frame[start..];
        if form != Form::RoceV1 {
            carries_roce_v2(form, network)?;
        }
        if network.len() < form.route_length() {
            return Err(SHORT);
        }
        let length = |at: usize| usize::from(u16::from_be_bytes([network[at], network[at + 1]]));
        Ok(Self {
            form,
            start,
            bth: start + form.route_length(),
            end: start
                + match form {
                    Form::RoceV2Ipv4 => length(2),
                    Form::RoceV2Ipv6 => Ipv6::SIZE + length(4),
                    _ => Grh::SIZE + length(4),
                },
        })
    }
}

/// Checks that an IP packet carries UDP to the RoCEv2 port. Missing bytes count as 0.
fn carries_roce_v2(form: Form, ip: &[u8]) -> Result<(), &'static str> {
    let at = |at: usize| ip.get(at).copied().unwrap_or_default();
    let (is_ip, protocol, udp) = if form == Form::RoceV2Ipv4 {
        if at(6) & 0x3F != 0 || at(7) != 0 {
            return Err("a fragment of an IP packet");
        }
        // RoCEv2 allows no IPv4 options.
        (at(0) == 0x45, at(9), Ipv4::SIZE)
    } else {
        (at(0) >> 4 == 6, at(6), Ipv6::SIZE)
    };
    if !is_ip {
        return Err("no RoCE packet: IP of another version, or with options");
    }
    if protocol != IpProtocol::UDP.0 {
        return Err("no RoCE packet: IP does not carry UDP");
    }
    if [at(udp + 2), at(udp + 3)] != ROCE_V2_PORT.to_be_bytes() {
        return Err("no RoCE packet: the UDP destination port is not 4791");
    }
    Ok(())
}

pub(super) fn check(port: &Port, frame: &[u8]) -> Judgement {
    if !port.is_end() {
        return Judgement::not_judged("an Ethernet switch or IP router does not check RoCE packets");
    }
    let place = match Place::find(frame) {
        Ok(place) => place,
        Err(why) => return Judgement::not_judged(why),
    };
    let mut failed = Checks::NONE;
    let mut untold = Checks::NONE;
    let network = &frame[place.start..];
    match place.form {
        Form::RoceV2Ipv4 => failed.fail_if(internet_checksum(&[&network[..Ipv4::SIZE]]) != 0, Check::IpHeader),
        Form::RoceV1 => failed.fail_if(network[0] >> 4 != 6 || network[6] != Grh::NEXT_IS_BTH.0, Check::Grh),
        _ => {}
    }
    failed.fail_if(!length_is_right(place, frame), Check::Length);

    // The end of the packet is known only if its length field is possible.
    if place.end <= frame.len() && place.end >= place.bth + Bth::SIZE + ICRC_LENGTH {
        let (covered, carried) = frame[place.start..place.end].split_at(place.end - place.start - ICRC_LENGTH);
        let icrc = icrc_of(place.form, covered);
        failed.fail_if(icrc.is_none_or(|icrc| icrc != carried), Check::Icrc);
        let payload = payload_length(place, frame);
        let most = port.mtu_cap.bytes().map(|bytes| bytes as usize);
        failed.fail_if(most.is_some_and(|most| payload > most), Check::Mtu);
    }
    if let Some(bth) = frame.get(place.bth..place.bth + Bth::SIZE) {
        failed.fail_if(bth[1] & 0x0F != 0, Check::TransportVersion);
        match port.p_keys {
            None => untold.insert(Check::PKey),
            Some(_) => failed.fail_if(!port.takes(PKey(u16::from_be_bytes([bth[2], bth[3]]))), Check::PKey),
        }
    }
    Judgement {
        untold,
        ..Judgement::roce(failed)
    }
}

/// Returns whether the packet is complete, has a BTH and an ICRC, and has the same length in UDP and IP. Bytes after
/// the packet are padding of the frame.
fn length_is_right(place: Place, frame: &[u8]) -> bool {
    let udp_at = place.bth - Udp::SIZE + 4;
    let udp_agrees = place.form == Form::RoceV1
        || usize::from(u16::from_be_bytes([frame[udp_at], frame[udp_at + 1]])) + place.bth == place.end + Udp::SIZE;
    udp_agrees && place.end <= frame.len() && place.end >= place.bth + Bth::SIZE + ICRC_LENGTH
}

/// Returns the size of payload and padding in bytes; 0 if the opcode is undefined. The packet must have a BTH and an
/// ICRC.
pub(super) fn payload_length(place: Place, frame: &[u8]) -> usize {
    let opcode = Opcode(frame[place.bth]);
    let from_bth = place.end - place.bth;
    match opcode.name() {
        Some(_) => from_bth.saturating_sub(Bth::SIZE + opcode.headers().length() + ICRC_LENGTH),
        None => 0,
    }
}
