//! Virtual lanes (architecture 7.6), the VLs that a port accepts in its state (architecture 7.2), and VL15
//! (architecture 14.2).

use verbatim_wire::crc::ICRC_LENGTH;
use verbatim_wire::{Bth, Deth, Grh, Layout, Lnh, Lrh, MAD_LENGTH, Opcode, PortState, Qpn};

use super::checks::Checks;
use super::defect::LinkDefect;

/// The VL of subnet management packets.
const MANAGEMENT: u8 = 15;

impl Checks<'_> {
    /// Returns whether the packet is on VL15, which makes it a subnet management packet.
    pub(super) fn is_management(&self) -> bool {
        self.lrh.vl() == MANAGEMENT
    }

    /// Returns whether the VL does not exist or must not carry this packet.
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

    /// Returns whether a packet at its destination breaks a rule of VL15. A packet for QP0 must arrive on VL15, and
    /// VL15 must carry only subnet management packets for QP0, UD SEND Only with one complete MAD.
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

    /// Returns whether the port discards the packet because of PortState. In state Initialize the port accepts only
    /// subnet management packets.
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
