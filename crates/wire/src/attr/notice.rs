//! Notice: the attribute of a trap.

use super::Attribute;
use crate::codes::AttributeId;
use crate::layout::layout;
use crate::values::{Hex32, Lid};

layout! {
    /// Notice in a subnet management packet, 64 bytes (architecture 13.4.8.2). [`crate::trap`] parses its details.
    pub struct Notice[64] "Notice" {
        /// IsGeneric: set if the architecture defines the trap number.
        is_generic, with_is_generic: bool = "IsGeneric" @ 0, 1;
        /// Type: 0 fatal, 1 urgent, 2 security, 3 subnet management, 4 informational, 0x7F empty.
        notice_type, with_notice_type: u8 = "Type" @ 1, 7;
        /// ProducerType of a generic notice, else VendorID.
        producer_type, with_producer_type: Hex32 = "ProducerTypeVendorID" @ 8, 24;
        /// TrapNumber of a generic notice, else DeviceID.
        trap_number, with_trap_number: u16 = "TrapNumberDeviceID" @ 32, 16;
        /// IssuerLID.
        issuer_lid, with_issuer_lid: Lid = "IssuerLID" @ 48, 16;
        /// NoticeToggle.
        toggle, with_toggle: bool = "NoticeToggle" @ 64, 1;
        /// NoticeCount.
        notice_count, with_notice_count: u16 = "NoticeCount" @ 65, 15;
        /// One byte of DataDetails.
        details_octet, with_details_octet: u8 octets = "DataDetails" @ 80, 8, [54; 8];
    }
}

impl Attribute for Notice {
    const ID: AttributeId = AttributeId::NOTICE;
}
