//! Values of management attributes: newtypes that print their meaning.
//!
//! Source of the codes: OpenSM's `ib_types.h` and libibmad's `dump.c`.

use core::fmt;
use core::time::Duration;

use crate::value::{hex, named, newtype};

/// Declares a newtype for a set of named bits. An unknown bit prints as `0x40 (unknown)`.
macro_rules! mask {
    ($(#[$meta:meta])* $name:ident($inner:ty) all $all:literal { $($bit:literal $words:literal),* $(,)? }) => {
        newtype!($(#[$meta])* $name($inner));
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                if self.0 == 0 {
                    return f.write_str("none");
                }
                if self.0 == $all && stringify!($all) != "0" {
                    return f.write_str("all supported");
                }
                let known = [$(($bit, $words)),*];
                let mut unknown = self.0;
                let mut words = Vec::new();
                for (bit, name) in known {
                    if self.0 & bit != 0 {
                        words.push(name.to_string());
                        unknown &= !bit;
                    }
                }
                if unknown != 0 {
                    words.push(format!("{unknown:#x} (unknown)"));
                }
                f.write_str(&words.join(" or "))
            }
        }
    };
}

hex!(
    /// A management key of 64 bits; with the key 0, a port checks no M_Key.
    MKey(u64), 18
);

hex!(
    /// A globally unique identifier: EUI-64.
    Guid(u64), 18
);

newtype!(
    /// A local identifier: 0 unassigned, 0x0001..=0xBFFF unicast, 0xC000..=0xFFFE multicast, 0xFFFF permissive.
    Lid(u16)
);

impl Lid {
    /// The permissive LID. A directed-route SMP carries it as DrSLID and DrDLID.
    pub const PERMISSIVE: Self = Self(0xFFFF);

    /// Returns whether this LID can address a single port: it is not 0, not multicast and not permissive (architecture
    /// 4.1.3). A port with any other LID has no LID assigned yet.
    #[must_use]
    pub const fn is_unicast(self) -> bool {
        self.0 > 0 && self.0 < 0xC000
    }
}

impl fmt::Display for Lid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("0 (none)"),
            0xFFFF => f.write_str("0xffff (permissive)"),
            lid if lid >= 0xC000 => write!(f, "{lid:#06x} (multicast)"),
            lid => write!(f, "{lid} ({lid:#06x})"),
        }
    }
}

newtype!(
    /// A partition key. Bit 15 marks a full member. The low 15 bits are the partition; partition 0 is invalid.
    PKey(u16)
);

impl fmt::Display for PKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let member = if self.0 & 0x8000 != 0 { "full" } else { "limited" };
        match self.0 & 0x7FFF {
            0 => write!(f, "{:#06x} (invalid)", self.0),
            _ => write!(f, "{:#06x} ({member})", self.0),
        }
    }
}

named!(
    /// PortInfo:PortState. 0 is valid only in a Set and changes nothing.
    PortState(u8) { 0 NO_CHANGE "no change", 1 DOWN "Down", 2 INITIALIZE "Initialize", 3 ARMED "Armed", 4 ACTIVE "Active" }
);
named!(
    /// PortInfo:PortPhysicalState. 0 is valid only in a Set and changes nothing.
    PhysState(u8) {
        0 NO_CHANGE "no change", 1 SLEEP "Sleep", 2 POLLING "Polling", 3 DISABLED "Disabled",
        4 TRAINING "PortConfigurationTraining", 5 LINK_UP "LinkUp", 6 ERROR_RECOVERY "LinkErrorRecovery",
        7 PHY_TEST "Phy Test",
    }
);
named!(
    /// PortInfo:LinkDownDefaultState. 0 is valid only in a Set and changes nothing.
    LinkDownDefault(u8) { 0 NO_CHANGE "no change", 1 SLEEP "Sleep", 2 POLLING "Polling" }
);
named!(
    /// An MTU code, in MTUCap and NeighborMTU.
    Mtu(u8) { 1 B256 "256", 2 B512 "512", 3 B1024 "1024", 4 B2048 "2048", 5 B4096 "4096" }
);

impl Mtu {
    /// Returns the MTU in bytes, or `None` for an undefined code.
    #[must_use]
    pub fn bytes(self) -> Option<u32> {
        matches!(self.0, 1..=5).then(|| 128 << self.0)
    }
}
named!(
    /// The code of a number of virtual lanes, in VLCap and OperationalVLs. 0 is valid only in a Set of OperationalVLs
    /// and changes nothing.
    VlCap(u8) { 0 NO_CHANGE "no change", 1 VL0 "VL0", 2 VL0_1 "VL0-1", 3 VL0_3 "VL0-3", 4 VL0_7 "VL0-7", 5 VL0_14 "VL0-14" }
);

impl VlCap {
    /// Returns the number of data VLs, or `None` for an undefined code.
    #[must_use]
    pub fn data_vls(self) -> Option<u8> {
        match self.0 {
            1 => Some(1),
            2 => Some(2),
            3 => Some(4),
            4 => Some(8),
            5 => Some(15),
            _ => None,
        }
    }
}

named!(
    /// NodeInfo:NodeType.
    NodeType(u8) { 1 CHANNEL_ADAPTER "channel adapter", 2 SWITCH "switch", 3 ROUTER "router" }
);
named!(
    /// PortInfo:M_KeyProtectBits: how the port handles a Get with a wrong M_Key.
    ProtectBits(u8) { 0 SHOW "0", 1 HIDE_KEY "1", 2 PROTECT "2", 3 PROTECT_TOO "3" }
);
named!(
    /// SMInfo:SMState.
    SmState(u8) { 0 NOT_ACTIVE "not active", 1 DISCOVERING "discovering", 2 STANDBY "standby", 3 MASTER "master" }
);
mask!(
    /// Link widths: LinkWidthEnabled, LinkWidthSupported, LinkWidthActive. 0xFF in LinkWidthEnabled enables all
    /// supported widths.
    LinkWidths(u8) all 0xFF { 1 "1x", 2 "4x", 4 "8x", 8 "12x", 16 "2x" }
);
mask!(
    /// Link speeds up to QDR: LinkSpeedEnabled, LinkSpeedSupported, LinkSpeedActive. 0xF in LinkSpeedEnabled enables
    /// all supported speeds.
    LinkSpeeds(u8) all 0xF { 1 "2.5 Gb/s", 2 "5 Gb/s", 4 "10 Gb/s" }
);
mask!(
    /// Extended link speeds per lane: FDR, EDR, HDR, NDR.
    LinkSpeedExt(u8) all 0 { 1 "14.0625 Gb/s", 2 "25.78125 Gb/s", 4 "53.125 Gb/s", 8 "106.25 Gb/s" }
);

impl ProtectBits {
    /// Returns whether the port drops a Get with a wrong M_Key (levels 2 and 3).
    #[must_use]
    pub fn drops_gets(self) -> bool {
        self.0 >= 2
    }
}

/// Returns 4.096 us * 2^code; a code over 31 counts as 31.
pub(crate) fn doubled(code: u8) -> Duration {
    Duration::from_nanos(4096 << code.min(31))
}

pub(crate) fn time_words(code: u8, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let time = doubled(code);
    let (value, unit) = if time >= Duration::from_secs(1) {
        (time.as_secs_f64(), "s")
    } else if time >= Duration::from_millis(1) {
        (time.as_secs_f64() * 1e3, "ms")
    } else {
        (time.as_secs_f64() * 1e6, "us")
    };
    let digits = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    write!(f, "{code} = {value:.digits$} {unit}")
}

newtype!(
    /// PortInfo:RespTimeValue: the longest time from a request to its response is 4.096 us * 2^code.
    RespTime(u8) legal |bits| bits < 32
);
newtype!(
    /// PortInfo:SubnetTimeOut: the longest time of a packet through the subnet is 4.096 us * 2^code.
    SubnetTimeout(u8) legal |bits| bits < 32
);

impl RespTime {
    /// Returns the time of this code.
    #[must_use]
    pub fn duration(self) -> Duration {
        doubled(self.0)
    }
}

impl SubnetTimeout {
    /// Returns the time of this code.
    #[must_use]
    pub fn duration(self) -> Duration {
        doubled(self.0)
    }
}

impl fmt::Display for RespTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        time_words(self.0, f)
    }
}

impl fmt::Display for SubnetTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        time_words(self.0, f)
    }
}

newtype!(
    /// PortInfo:M_KeyLeasePeriod in seconds; with 0 the lease never expires.
    LeasePeriod(u16)
);

impl LeasePeriod {
    /// Returns the lease period, or `None` if the lease never expires.
    #[must_use]
    pub fn duration(self) -> Option<Duration> {
        (self.0 != 0).then(|| Duration::from_secs(self.0.into()))
    }
}

impl fmt::Display for LeasePeriod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("0 (never expires)"),
            seconds => write!(f, "{seconds} s"),
        }
    }
}

newtype!(
    /// PortInfo:CapabilityMask: the capabilities of a port, one bit each.
    CapabilityMask(u32)
);

/// Names of the CapabilityMask's bits, bit 0 first. An empty name is a reserved bit.
const CAPABILITIES: [&str; 32] = [
    "",
    "IsSM",
    "IsNoticeSupported",
    "IsTrapSupported",
    "IsOptionalIPDSupported",
    "IsAutomaticMigrationSupported",
    "IsSLMappingSupported",
    "IsM_KeyNVRAM",
    "IsP_KeyNVRAM",
    "IsLEDInfoSupported",
    "IsSMdisabled",
    "IsSystemImageGUIDSupported",
    "IsP_KeySwitchExternalPortTrapSupported",
    "IsCableInfoSupported",
    "IsExtendedSpeedsSupported",
    "IsCapabilityMask2Supported",
    "IsCommunicationManagementSupported",
    "IsSNMPTunnelingSupported",
    "IsReinitSupported",
    "IsDeviceManagementSupported",
    "IsVendorClassSupported",
    "IsDRNoticeSupported",
    "IsCapabilityMaskNoticeSupported",
    "IsBootManagementSupported",
    "IsLinkRoundTripLatencySupported",
    "IsClientReregistrationSupported",
    "IsOtherLocalChangesNoticeSupported",
    "IsLinkSpeedWidthPairsTableSupported",
    "IsVendorSpecificMadsTableSupported",
    "IsMcastPkeyTrapSuppressionSupported",
    "IsMulticastFDBTopSupported",
    "IsHierarchyInfoSupported",
];

impl CapabilityMask {
    /// IsTrapSupported: the port sends traps.
    pub const TRAP: u32 = 1 << 3;
    /// IsSLMappingSupported: the port has an SLtoVLMappingTable.
    pub const SL_MAPPING: u32 = 1 << 6;
    /// IsM_KeyNVRAM: the M_Key survives a power cycle.
    pub const M_KEY_NVRAM: u32 = 1 << 7;
    /// IsCapabilityMask2Supported: PortInfo:CapabilityMask2 is defined.
    pub const MASK2: u32 = 1 << 15;
    /// IsClientReregistrationSupported.
    pub const CLIENT_REREGISTRATION: u32 = 1 << 25;

    /// Returns whether all of `bits` are set.
    #[must_use]
    pub fn has(self, bits: u32) -> bool {
        self.0 & bits == bits
    }
}

impl fmt::Display for CapabilityMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)?;
        let mut glue = " (";
        for (bit, name) in CAPABILITIES.iter().enumerate() {
            if self.0 & (1 << bit) != 0 && !name.is_empty() {
                write!(
                    f,
                    "{glue}{}",
                    name.trim_start_matches("Is").trim_end_matches("Supported")
                )?;
                glue = ", ";
            }
        }
        if glue == ", " { f.write_str(")") } else { Ok(()) }
    }
}

hex!(
    /// 8 bits, printed in hexadecimal.
    Hex8(u8), 4
);
hex!(
    /// 16 bits, printed in hexadecimal.
    Hex16(u16), 6
);
hex!(
    /// Up to 32 bits, printed in hexadecimal.
    Hex32(u32), 10
);
hex!(
    /// 64 bits, printed in hexadecimal.
    Hex64(u64), 18
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;

    #[test]
    fn values_print_in_words() {
        assert_eq!(VlCap(3).to_string(), "VL0-3");
        assert_eq!(PortState(3).to_string(), "Armed");
        assert_eq!(PortState(9).to_string(), "0x9 (unknown)");
        assert_eq!(RespTime(18).to_string(), "18 = 1.07 s");
        assert_eq!(RespTime(8).to_string(), "8 = 1.05 ms");
        assert_eq!(SubnetTimeout(0).to_string(), "0 = 4.10 us");
        assert_eq!(LinkWidths(0x0B).to_string(), "1x or 4x or 12x");
        assert_eq!(LinkWidths(0x43).to_string(), "1x or 4x or 0x40 (unknown)");
        assert_eq!(LinkSpeeds(0xF).to_string(), "all supported");
        assert_eq!(PKey(0xFFFF).to_string(), "0xffff (full)");
        assert_eq!(LeasePeriod(0).to_string(), "0 (never expires)");
        assert_eq!(Lid(5).to_string(), "5 (0x0005)");
        assert_eq!(CapabilityMask(0x48).to_string(), "0x00000048 (Trap, SLMapping)");
    }

    #[test]
    fn undefined_code_is_not_legal() {
        assert!(Mtu(5).is_legal());
        assert!(!Mtu(6).is_legal());
        assert!(!Mtu(0).is_legal());
        assert_eq!(VlCap(6).data_vls(), None);
    }

    #[test]
    fn largest_time_code_is_8796_s() {
        assert_eq!(RespTime(31).duration().as_secs(), 8796);
    }
}
