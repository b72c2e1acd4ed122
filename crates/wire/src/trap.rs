//! DataDetails of the traps 256 to 259 (architecture 14.2.5.1).

use crate::codes::{AttributeId, Method};
use crate::layout::{Layout, layout};
use crate::value::Reserved;
use crate::values::{Hex16, Hex32, Lid, MKey, PKey};
use crate::{Mad, Notice};

/// Trap number: a port received a bad M_Key.
pub const BAD_M_KEY: u16 = 256;
/// Trap number: a port received a bad P_Key.
pub const BAD_P_KEY: u16 = 257;
/// Trap number: a port received a bad Q_Key.
pub const BAD_Q_KEY: u16 = 258;
/// Trap number: an external port of a switch received a bad P_Key.
pub const BAD_P_KEY_AT_SWITCH: u16 = 259;

impl Notice {
    /// Returns the 54 bytes of DataDetails.
    #[must_use]
    pub fn details(&self) -> &[u8] {
        &self.bytes()[10..]
    }

    /// Returns this notice with the first bytes of DataDetails replaced by `details`. Ignores surplus bytes.
    #[must_use]
    pub fn with_details(self, details: &[u8]) -> Self {
        let mut bytes = [0; 64];
        bytes.copy_from_slice(self.bytes());
        let room = details.len().min(54);
        bytes[10..10 + room].copy_from_slice(&details[..room]);
        Self::from_bytes(&bytes)
    }
}

/// Returns the M_Key that a trap 256 reports.
#[must_use]
pub fn m_key_of(trap: &Mad) -> MKey {
    BadMKey::from_bytes(trap.attribute::<Notice>().details()).m_key()
}

layout! {
    /// DataDetails of trap 256, bad M_Key.
    pub struct BadMKey[54] "Trap 256, bad M_Key" {
        /// Reserved.
        reserved_0, with_reserved_0: Reserved = "Reserved0" @ 0, 16;
        /// LIDADDR: LID of the sender of the SMP.
        lid, with_lid: Lid = "LIDADDR" @ 16, 16;
        /// DRSLID of the SMP.
        dr_slid, with_dr_slid: Lid = "DRSLID" @ 32, 16;
        /// METHOD of the SMP.
        method, with_method: Method = "METHOD" @ 48, 8;
        /// Reserved.
        reserved_56, with_reserved_56: Reserved = "Reserved56" @ 56, 8;
        /// ATTRIBUTEID of the SMP.
        attribute, with_attribute: AttributeId = "ATTRIBUTEID" @ 64, 16;
        /// ATTRIBUTEMODIFIER of the SMP.
        modifier, with_modifier: Hex32 = "ATTRIBUTEMODIFIER" @ 80, 32;
        /// MKEY of the SMP.
        m_key, with_m_key: MKey = "MKEY" @ 112, 64;
        /// Reserved.
        reserved_176, with_reserved_176: Reserved = "Reserved176" @ 176, 8;
        /// DRNotice: the SMP was directed-route.
        directed, with_directed: bool = "DRNotice" @ 184, 1;
        /// DRPathTruncated: the return path does not fit into the field.
        path_truncated, with_path_truncated: bool = "DRPathTruncated" @ 185, 1;
        /// DRHopCount of the SMP.
        hop_count, with_hop_count: u8 = "DRHopCount" @ 186, 6;
        /// DRNoticeReturnPath: ports, one byte each.
        return_path, with_return_path: u8 octets = "DRNoticeReturnPath" @ 192, 8, [30; 8];
    }
}

layout! {
    /// DataDetails of trap 257 (bad P_Key) and trap 258 (bad Q_Key).
    pub struct BadKey[54] "Trap 257 or 258, bad P_Key or Q_Key" {
        /// Reserved.
        reserved_0, with_reserved_0: Reserved = "Reserved0" @ 0, 16;
        /// LIDADDR1: source LID.
        lid_1, with_lid_1: Lid = "LIDADDR1" @ 16, 16;
        /// LIDADDR2: destination LID.
        lid_2, with_lid_2: Lid = "LIDADDR2" @ 32, 16;
        /// KEY: the Q_Key, or the P_Key in the low half.
        key, with_key: Hex32 = "KEY" @ 48, 32;
        /// SL.
        sl, with_sl: u8 = "SL" @ 80, 4;
        /// Reserved.
        reserved_84, with_reserved_84: Reserved = "Reserved84" @ 84, 4;
        /// QP1: source QP.
        qp_1, with_qp_1: Hex32 = "QP1" @ 88, 24;
        /// Reserved.
        reserved_112, with_reserved_112: Reserved = "Reserved112" @ 112, 8;
        /// QP2: destination QP.
        qp_2, with_qp_2: Hex32 = "QP2" @ 120, 24;
        /// GIDADDR1: one byte of the source GID.
        gid_1, with_gid_1: u8 octets = "GIDADDR1" @ 144, 8, [16; 8];
        /// GIDADDR2: one byte of the destination GID.
        gid_2, with_gid_2: u8 octets = "GIDADDR2" @ 272, 8, [16; 8];
        /// Reserved.
        reserved_400, with_reserved_400: Reserved = "Reserved400" @ 400, 32;
    }
}

layout! {
    /// DataDetails of trap 259, bad P_Key at a switch's external port.
    pub struct BadPKeyAtSwitch[54] "Trap 259, bad P_Key at a switch's external port" {
        /// DataValid: a bit mask of the valid fields below.
        data_valid, with_data_valid: Hex16 = "DataValid" @ 0, 16;
        /// LIDADDR1: source LID.
        lid_1, with_lid_1: Lid = "LIDADDR1" @ 16, 16;
        /// LIDADDR2: destination LID.
        lid_2, with_lid_2: Lid = "LIDADDR2" @ 32, 16;
        /// PKEY.
        p_key, with_p_key: PKey = "PKEY" @ 48, 16;
        /// SL.
        sl, with_sl: u8 = "SL" @ 64, 4;
        /// Reserved.
        reserved_68, with_reserved_68: Reserved = "Reserved68" @ 68, 4;
        /// QP1: source QP.
        qp_1, with_qp_1: Hex32 = "QP1" @ 72, 24;
        /// Reserved.
        reserved_96, with_reserved_96: Reserved = "Reserved96" @ 96, 8;
        /// QP2: destination QP.
        qp_2, with_qp_2: Hex32 = "QP2" @ 104, 24;
        /// GIDADDR1: one byte of the source GID.
        gid_1, with_gid_1: u8 octets = "GIDADDR1" @ 128, 8, [16; 8];
        /// GIDADDR2: one byte of the destination GID.
        gid_2, with_gid_2: u8 octets = "GIDADDR2" @ 256, 8, [16; 8];
        /// SWLIDADDR: LID of the switch.
        switch_lid, with_switch_lid: Lid = "SWLIDADDR" @ 384, 16;
        /// PORTNO: port number of the switch.
        port, with_port: u8 = "PORTNO" @ 400, 8;
        /// Reserved.
        reserved_408, with_reserved_408: Reserved = "Reserved408" @ 408, 24;
    }
}
