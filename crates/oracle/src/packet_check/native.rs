//! Check of a native InfiniBand packet.

use verbatim_wire::crc::{ICRC_LENGTH, VCRC_LENGTH, icrc, vcrc};
use verbatim_wire::{Bth, Delimiter, Deth, Grh, Layout, Lrh, MAD_LENGTH, Medium, Opcode, PKey, PortState};

use super::check::{Check, Checks};
use super::judgement::{Action, Judgement, UNSETTLED_SHORT, UNSETTLED_VL15_GRH};
use super::port::{Kind, Port, Received};

/// Virtual lane of subnet management.
const VL15: u8 = 15;
const LNH_RAW: u8 = 0;
const LNH_IPV6: u8 = 1;
const LNH_GLOBAL: u8 = 3;
const PERMISSIVE: u16 = 0xFFFF;
const FIRST_MULTICAST: u16 = 0xC000;
/// Smallest PktLen of an IBA packet and of a raw packet, in words of 4 bytes.
const LEAST_IBA: u16 = 6;
const LEAST_RAW: u16 = 5;
/// Maximum size of all headers and the ICRC, including the LRH, in bytes.
pub(super) const MOST_HEADERS: u32 = 124;

/// Fields of the LRH that the checks need.
#[derive(Clone, Copy)]
pub(super) struct Local {
    pub(super) vl: u8,
    pub(super) lver: u8,
    pub(super) lnh: u8,
    pub(super) dlid: u16,
    pub(super) pkt_len: u16,
}

impl Local {
    /// Reads the LRH. `None` if fewer bytes arrived.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let lrh: &[u8; Lrh::SIZE] = bytes.first_chunk()?;
        Some(Self {
            vl: lrh[0] >> 4,
            lver: lrh[0] & 0x0F,
            lnh: lrh[1] & 3,
            dlid: u16::from_be_bytes([lrh[2], lrh[3]]),
            pkt_len: u16::from_be_bytes([lrh[4], lrh[5]]) & 0x7FF,
        })
    }

    fn is_raw(self) -> bool {
        matches!(self.lnh, LNH_RAW | LNH_IPV6)
    }

    pub(super) fn is_global(self) -> bool {
        self.lnh == LNH_GLOBAL
    }

    pub(super) fn is_multicast(self) -> bool {
        (FIRST_MULTICAST..PERMISSIVE).contains(&self.dlid)
    }

    /// Returns the smallest legal PktLen of the packet, in words of 4 bytes.
    pub(super) fn least(self) -> u16 {
        if self.is_raw() { LEAST_RAW } else { LEAST_IBA }
    }
}

/// Returns the offset of the BTH.
pub(super) fn bth_at(local: Local) -> usize {
    Lrh::SIZE + if local.is_global() { Grh::SIZE } else { 0 }
}

/// Returns the packet without its VCRC, which is the last two bytes if the medium has a VCRC.
pub(super) fn without_vcrc<'a>(packet: &Received<'a>) -> &'a [u8] {
    match packet.medium {
        Medium::InfiniBand => &packet.bytes[..packet.bytes.len().saturating_sub(VCRC_LENGTH)],
        _ => packet.bytes,
    }
}

pub(super) fn check(port: &Port, packet: &Received<'_>) -> Judgement {
    let bytes = without_vcrc(packet);
    let has_vcrc = packet.medium == Medium::InfiniBand;
    let mut failed = Checks::NONE;
    let mut absent = Checks::NONE;
    match packet.delimiter {
        None => absent.insert(Check::Delimiter),
        Some(delimiter) => failed.fail_if(delimiter != Delimiter::Egp, Check::Delimiter),
    }
    if !has_vcrc {
        absent.insert(Check::Vcrc);
    } else if let Some(carried) = packet.bytes.get(bytes.len()..).filter(|vcrc| vcrc.len() == VCRC_LENGTH) {
        failed.fail_if(vcrc(bytes) != carried, Check::Vcrc);
    }
    let Some(local) = Local::read(bytes) else {
        failed.insert(Check::Length);
        let judgement = Judgement::native(port, failed, packet.delimiter);
        // No port can pass on a packet without an LRH.
        let action = Action::Discard;
        return Judgement {
            absent,
            action,
            ..judgement
        };
    };

    failed.fail_if(local.lver != 0, Check::LinkVersion);
    let length_is_right = bytes.len() == 4 * usize::from(local.pkt_len);
    failed.fail_if(!length_is_right || local.pkt_len < local.least(), Check::Length);
    if let Some(mtu) = port.mtu_cap.bytes() {
        failed.fail_if(4 * u32::from(local.pkt_len) > mtu + MOST_HEADERS, Check::Mtu);
    }
    let is_management = local.vl == VL15;
    failed.fail_if(!is_management && local.vl >= port.vls, Check::VirtualLane);
    let shut = port.state == PortState::DOWN || (port.state == PortState::INITIALIZE && !is_management);
    failed.fail_if(shut, Check::PortState);
    failed.fail_if(
        is_management && (local.is_raw() || local.is_multicast()),
        Check::ManagementLane,
    );

    let mut untold = Checks::NONE;
    route(port, local, &mut failed, &mut untold);
    if !local.is_raw() {
        transport(port, local, bytes, &mut failed, &mut untold);
    }

    let mut judgement = Judgement::native(port, failed, packet.delimiter);
    if judgement.action == Action::Accept && is_management && local.is_global() {
        judgement.action = Action::NotJudged(UNSETTLED_VL15_GRH);
    }
    let lacks_headers = !local.is_raw() && bytes.len() < bth_at(local) + Bth::SIZE + ICRC_LENGTH;
    if judgement.action == Action::Accept && lacks_headers {
        judgement.action = Action::NotJudged(UNSETTLED_SHORT);
    }
    Judgement {
        absent,
        untold,
        ..judgement
    }
}

/// Checks that the DLID may arrive at this port.
fn route(port: &Port, local: Local, failed: &mut Checks, untold: &mut Checks) {
    match local.dlid {
        0 => failed.insert(Check::Dlid),
        PERMISSIVE => failed.fail_if(local.vl != VL15, Check::Dlid),
        _ if local.is_multicast() => {}
        // A switch forwards unicast packets by its tables.
        _ if port.kind == Kind::Switch && !port.is_end() => {}
        unicast => match port.lids() {
            None => untold.insert(Check::Dlid),
            Some((first, last)) => failed.fail_if(!(first.0..=last.0).contains(&unicast), Check::Dlid),
        },
    }
}

/// Checks the ICRC at every port, and the headers after the LRH at the ports that read these headers.
fn transport(port: &Port, local: Local, bytes: &[u8], failed: &mut Checks, untold: &mut Checks) {
    let at = bth_at(local);
    // A packet that is too short for its headers has no ICRC.
    let rest = match bytes.get(at..) {
        Some(rest) if rest.len() >= Bth::SIZE + ICRC_LENGTH => rest,
        _ => {
            let looks_at_grh = port.is_end() || port.kind == Kind::Router;
            let lacks_grh = local.is_global() || local.is_multicast();
            return failed.fail_if(looks_at_grh && lacks_grh, Check::Grh);
        }
    };
    let (covered, carried) = bytes.split_at(bytes.len() - ICRC_LENGTH);
    failed.fail_if(icrc(covered).is_none_or(|icrc| icrc != carried), Check::Icrc);

    if port.is_end() || port.kind == Kind::Router {
        failed.fail_if(!grh_is_right(local, bytes), Check::Grh);
    }
    let to_qp0 = rest[5..8] == [0, 0, 0];
    if port.is_end() {
        failed.fail_if(rest[1] & 0x0F != 0, Check::TransportVersion);
        // An SMP is one whole MAD in a UD SEND Only packet to QP0.
        let is_smp = to_qp0 && rest[0] == Opcode::UD_SEND_ONLY.0 && rest.len() == SMP_LENGTH;
        failed.fail_if(if local.vl == VL15 { !is_smp } else { to_qp0 }, Check::ManagementLane);
    }
    // Subnet management packets belong to no partition.
    let has_partition = if port.is_end() { !to_qp0 } else { local.vl != VL15 };
    if has_partition {
        let p_key = PKey(u16::from_be_bytes([rest[2], rest[3]]));
        match port.p_keys {
            Some(_) => failed.fail_if(!port.takes(p_key), Check::PKey),
            None if port.is_end() => untold.insert(Check::PKey),
            // A switch or router on the way checks P_Keys only if configured to.
            None => {}
        }
    }
}

/// Size of an SMP from the BTH through the ICRC, in bytes.
pub(super) const SMP_LENGTH: usize = Bth::SIZE + Deth::SIZE + MAD_LENGTH + ICRC_LENGTH;

/// Returns whether the GRH is valid, and present in a multicast packet. `bytes` extend to the end of the ICRC.
fn grh_is_right(local: Local, bytes: &[u8]) -> bool {
    if !local.is_global() {
        return !local.is_multicast();
    }
    let grh = &bytes[Lrh::SIZE..];
    let pay_len = usize::from(u16::from_be_bytes([grh[4], grh[5]]));
    // Compare with the bytes that arrived: PktLen itself may be wrong.
    grh[0] >> 4 == 6 && grh[6] == Grh::NEXT_IS_BTH.0 && pay_len + Lrh::SIZE + Grh::SIZE == bytes.len()
}
