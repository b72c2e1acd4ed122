//! Selection of the packets that reach a queue pair (architecture 9.6.1). The adapter silently drops all other packets.

use core::net::IpAddr;

use verbatim_wire::verbs::{QpState, Service};
use verbatim_wire::{Network, Opcode, PKey, Packet, Service as WireService};

use super::defect::RcDefect;
use super::frame::Address;
use super::qp::{Context, Qp};
use super::request::Request;

/// The bit of a P_Key that marks a full member of the partition.
const FULL_MEMBER: u16 = 0x8000;

/// Returns whether two P_Keys match: same partition, and at least one full member.
pub(crate) fn p_keys_match(ours: PKey, theirs: PKey) -> bool {
    let same = ours.0 & !FULL_MEMBER == theirs.0 & !FULL_MEMBER && ours.0 & !FULL_MEMBER != 0;
    let limited_pair = (ours.0 | theirs.0) & FULL_MEMBER == 0;
    same && !limited_pair
}

/// Returns the source and destination address of a packet.
pub(crate) fn addresses(packet: &Packet<'_>) -> Option<(Address, Address)> {
    match packet.network() {
        Network::RoceV2Ipv4 { ip, .. } => Some((Address::Ip(ip.src().into()), Address::Ip(ip.dst().into()))),
        Network::RoceV2Ipv6 { ip, .. } => Some((Address::Ip(ip.src().into()), Address::Ip(ip.dst().into()))),
        Network::InfiniBand { lrh, .. } => Some((Address::Lid(lrh.slid()), Address::Lid(lrh.dlid()))),
        Network::RoceV1 { .. } => None,
    }
}

/// Returns whether a defective adapter drops a packet for a field that must not matter.
fn is_dropped_wrongly(cx: &Context<'_>, packet: &Packet<'_>) -> bool {
    let (ecn, hops, port) = match packet.network() {
        Network::RoceV2Ipv4 { ip, udp, .. } => (ip.ecn(), ip.ttl(), udp.src_port()),
        Network::RoceV2Ipv6 { ip, udp, .. } => (ip.ecn(), ip.hop_limit(), udp.src_port()),
        _ => (0, u8::MAX, u16::MAX),
    };
    let is_summed = matches!(packet.network(), Network::RoceV2Ipv4 { udp, .. } if udp.checksum().0 != 0);
    let bth = packet.bth();
    let reserved = (bth.reserved_34().0, bth.reserved_65().0);
    ecn == 3 && cx.has(RcDefect::MarkedDropped)
        || is_summed && cx.has(RcDefect::UdpChecksumDropped)
        || hops == 1 && cx.has(RcDefect::LastHopDropped)
        || port < 49152 && cx.has(RcDefect::SourcePortPinned)
        || reserved != (0, 0) && cx.has(RcDefect::ReservedBitsChecked)
}

/// Returns the low 16 bits of an address.
fn low_16(address: Address) -> [u8; 2] {
    match address {
        Address::Lid(lid) => lid.0.to_be_bytes(),
        Address::Ip(IpAddr::V4(address)) => [address.octets()[2], address.octets()[3]],
        Address::Ip(IpAddr::V6(address)) => [address.octets()[14], address.octets()[15]],
    }
}

impl Qp {
    /// Returns whether the queue pair is in ERR and has the defect of accepting packets there.
    pub(crate) fn hears_in_err(&self, cx: &Context<'_>) -> bool {
        cx.has(RcDefect::HearsInErr) && self.state == QpState::Err
    }

    /// Handles a packet for this queue pair. Returns whether its P_Key is wrong.
    pub(crate) fn handle(&mut self, cx: &mut Context<'_>, packet: &Packet<'_>, source: Address, own: Address) -> bool {
        let is_early = self.state == QpState::Init && self.service == Service::Ud && cx.has(RcDefect::DatagramInInit);
        if matches!(self.state, QpState::Reset | QpState::Init | QpState::Err) && !is_early && !self.hears_in_err(cx) {
            return false;
        }
        if is_dropped_wrongly(cx, packet) {
            return false;
        }
        let bth = packet.bth();
        let mut opcode = packet.opcode();
        let service = opcode.service();
        let wanted = match self.service {
            Service::Rc => WireService::Rc,
            Service::Ud => WireService::Ud,
        };
        if service == WireService::Uc && wanted == WireService::Rc && cx.has(RcDefect::OpcodeClassIgnored) {
            opcode = Opcode(opcode.0 & 0x1F);
        } else if service != wanted {
            if service == WireService::Cnp && cx.has(RcDefect::CnpStopsTimer) {
                self.send.timer = None;
            }
            return false;
        }
        let is_unseen = opcode.is_response() && cx.has(RcDefect::ResponsePKeyIgnored);
        let (ours, theirs) = (self.attributes.p_key, bth.p_key());
        let is_like = cx.has(RcDefect::PKeyBit14NotCompared) && p_keys_match(ours, PKey(theirs.0 ^ 1 << 14));
        if !p_keys_match(ours, theirs) && !is_like && !cx.has(RcDefect::PKeyIgnored) && !is_unseen {
            return true;
        }
        if self.service == Service::Ud {
            self.handle_datagram(cx, packet);
            return false;
        }
        let connected = self
            .attributes
            .path
            .is_some_and(|path| path.to == source && path.from == own);
        let is_like = self
            .attributes
            .path
            .is_some_and(|path| low_16(path.to) == low_16(source));
        let connected = connected || is_like && cx.has(RcDefect::SourceLow16Bits);
        let is_unseen = opcode.is_response() && cx.has(RcDefect::ResponseSourceIgnored);
        if !connected && !cx.has(RcDefect::SourceAddressIgnored) && !is_unseen {
            return false;
        }
        self.notify(cx, packet);
        if opcode.is_response() {
            self.handle_response(cx, packet, opcode);
        } else {
            let payload = if cx.has(RcDefect::PadCountIgnored) {
                packet.padded_payload()
            } else {
                packet.payload()
            };
            let request = Request {
                packet,
                bth,
                opcode,
                payload,
            };
            self.handle_request(cx, &request);
        }
        false
    }
}
