//! The check of a native InfiniBand packet.

use verbatim_wire::crc::{ICRC_LENGTH, VCRC_LENGTH, icrc, vcrc};
use verbatim_wire::{Bth, Delimiter, Deth, Grh, Layout, Lrh, MAD_LENGTH, Medium, Opcode, PKey, PortState};

use super::check::{Check, Checks};
use super::judgement::{Action, Judgement, UNSETTLED_SHORT, UNSETTLED_VL15_GRH};
use super::port::{Kind, Port, Received};

/// The lane of subnet management.
const VL15: u8 = 15;
const LNH_RAW: u8 = 0;
const LNH_IPV6: u8 = 1;
const LNH_GLOBAL: u8 = 3;
const PERMISSIVE: u16 = 0xFFFF;
const FIRST_MULTICAST: u16 = 0xC000;
/// PktLen of the smallest packets: headers and ICRC of an IBA packet, and what a raw one has.
const LEAST_IBA: u16 = 6;
const LEAST_RAW: u16 = 5;
/// The most bytes that headers and ICRC take, the LRH with them.
pub(super) const MOST_HEADERS: u32 = 124;

/// The LRH where it stands, in the form that the checks ask for.
#[derive(Clone, Copy)]
pub(super) struct Local {
    pub(super) vl: u8,
    pub(super) lver: u8,
    pub(super) lnh: u8,
    pub(super) dlid: u16,
    pub(super) pkt_len: u16,
}

impl Local {
    /// `None` when fewer bytes arrived than an LRH has.
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

    /// The least PktLen of such a packet.
    pub(super) fn least(self) -> u16 {
        if self.is_raw() { LEAST_RAW } else { LEAST_IBA }
    }
}

/// Where the BTH begins.
pub(super) fn bth_at(local: Local) -> usize {
    Lrh::SIZE + if local.is_global() { Grh::SIZE } else { 0 }
}

/// The bytes without the VCRC, which the last two are if the medium has one.
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
        // Without an LRH nobody could pass it on.
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

/// Whether the packet may arrive here at all.
fn route(port: &Port, local: Local, failed: &mut Checks, untold: &mut Checks) {
    match local.dlid {
        0 => failed.insert(Check::Dlid),
        PERMISSIVE => failed.fail_if(local.vl != VL15, Check::Dlid),
        _ if local.is_multicast() => {}
        // A switch passes unicast packets on by its tables.
        _ if port.kind == Kind::Switch && !port.is_end() => {}
        unicast => match port.lids() {
            None => untold.insert(Check::Dlid),
            Some((first, last)) => failed.fail_if(!(first.0..=last.0).contains(&unicast), Check::Dlid),
        },
    }
}

/// The ICRC everywhere; the headers behind the LRH where somebody looks at them.
fn transport(port: &Port, local: Local, bytes: &[u8], failed: &mut Checks, untold: &mut Checks) {
    let at = bth_at(local);
    // Too short for its headers, a packet has no ICRC that anybody could reckon.
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
        // An SMP and nothing else: one whole MAD, by UD, on VL 15.
        let is_smp = to_qp0 && rest[0] == Opcode::UD_SEND_ONLY.0 && rest.len() == SMP_LENGTH;
        failed.fail_if(if local.vl == VL15 { !is_smp } else { to_qp0 }, Check::ManagementLane);
    }
    // Subnet management belongs to no partition.
    let has_partition = if port.is_end() { !to_qp0 } else { local.vl != VL15 };
    if has_partition {
        let p_key = PKey(u16::from_be_bytes([rest[2], rest[3]]));
        match port.p_keys {
            Some(_) => failed.fail_if(!port.takes(p_key), Check::PKey),
            None if port.is_end() => untold.insert(Check::PKey),
            // A switch or router on the way checks P_Keys only when told to.
            None => {}
        }
    }
}

/// Bytes of an SMP from the BTH to the ICRC.
pub(super) const SMP_LENGTH: usize = Bth::SIZE + Deth::SIZE + MAD_LENGTH + ICRC_LENGTH;

/// Whether the GRH is one, and is there when the packet is a multicast one. `bytes` reach beyond it, to the ICRC's end.
fn grh_is_right(local: Local, bytes: &[u8]) -> bool {
    if !local.is_global() {
        return !local.is_multicast();
    }
    let grh = &bytes[Lrh::SIZE..];
    let pay_len = usize::from(u16::from_be_bytes([grh[4], grh[5]]));
    // Against what arrived: PktLen may be wrong by itself.
    grh[0] >> 4 == 6 && grh[6] == Grh::NEXT_IS_BTH.0 && pay_len + Lrh::SIZE + Grh::SIZE == bytes.len()
}
