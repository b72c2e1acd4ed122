//! Virtual lanes (architecture 7.6), which of them a port listens to in its state (architecture 7.2), and the one of QP0
//! (architecture 14.2).

use verbatim_wire::crc::ICRC_LENGTH;
use verbatim_wire::{Bth, Deth, Grh, Layout, Lnh, Lrh, MAD_LENGTH, Opcode, PortState, Qpn};

use super::checks::Checks;
use super::defect::LinkDefect;

/// The lane of subnet management packets.
const MANAGEMENT: u8 = 15;

impl Checks<'_> {
    /// On VL15: a subnet management packet, by its lane.
    pub(super) fn is_management(&self) -> bool {
        self.lrh.vl() == MANAGEMENT
    }

    /// The lane is not there, or not for this packet.
    pub(super) fn vl_fails(&self) -> bool {
        if self.is_management() {
            return match self.lnh() {
                Lnh::IBA_LOCAL => self.has(LinkDefect::Vl15Refused),
                Lnh::IBA_GLOBAL => !self.profile.choices.takes_grh_on_vl15,
                _ => !self.has(LinkDefect::Vl15RawAccepted),
            };
        }
        let mut lanes = self.profile.data_vls.min(MANAGEMENT);
        if self.has(LinkDefect::VlOneMoreAccepted) {
            lanes += 1;
        }
        if self.has(LinkDefect::HighestVlRefused) {
            lanes = lanes.saturating_sub(1);
        }
        self.lrh.vl() >= lanes && !self.has(LinkDefect::UnconfiguredVlAccepted)
    }

    /// Where a packet ends: one for QP0 comes on VL15, and VL15 carries nothing but whole subnet management packets
    /// for QP0.
    pub(super) fn management_fails(&self) -> bool {
        let Some(bth) = self.bth.filter(|_| self.profile.is_final()) else {
            return false;
        };
        let is_for_qp0 = bth.dest_qp() == Qpn::SMI;
        if !self.is_management() {
            return is_for_qp0 && !self.has(LinkDefect::Qp0OnDataVlAccepted);
        }
        let route = Lrh::SIZE + self.grh.map_or(0, |_| Grh::SIZE);
        let is_whole = self.body.len() == route + Bth::SIZE + Deth::SIZE + MAD_LENGTH + ICRC_LENGTH;
        (!is_for_qp0 && !self.has(LinkDefect::OtherQpOnVl15Accepted))
            || (bth.opcode() != Opcode::UD_SEND_ONLY && !self.has(LinkDefect::SmpOpcodeIgnored))
            || (!is_whole && !self.has(LinkDefect::SmpLengthIgnored))
    }

    /// In state Initialize only subnet management packets come in.
    pub(super) fn state_fails(&self) -> bool {
        let has_reserved = self.has_lrh() && self.body[1] & 0x0C != 0;
        if has_reserved && self.has(LinkDefect::LrhReservedDropped) {
            return true;
        }
        match self.profile.state {
            PortState::INITIALIZE if self.is_management() => self.has(LinkDefect::SmpRefusedInInitialize),
            PortState::INITIALIZE => !self.has(LinkDefect::DataTakenInInitialize),
            PortState::ARMED => !self.is_management() && self.has(LinkDefect::DataRefusedInArmed),
            _ => false,
        }
    }
}
