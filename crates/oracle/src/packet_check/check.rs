//! The checks, how they rank, and what counts them.

use core::fmt;

/// One check of a packet. The order is that of their rank: of several that fail, the first is reported.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[repr(u8)]
pub enum Check {
    /// The packet ends with EGP. EBP says that somebody before found it bad.
    Delimiter,
    /// The variant CRC is that of all bytes before it.
    Vcrc,
    /// The invariant CRC is that of the bytes it covers.
    Icrc,
    /// LRH:LVer is 0.
    LinkVersion,
    /// The length fields say what arrived, and it is no less than the smallest packet.
    Length,
    /// The packet is no longer than MTUCap and the longest headers.
    Mtu,
    /// LRH:VL is one that the port has in operation.
    VirtualLane,
    /// The port's state lets the packet in: none when Down, VL 15 alone when Initialize.
    PortState,
    /// VL 15 carries management datagrams from QP to QP0, to one port, never raw; and QP0 hears VL 15 alone.
    ManagementLane,
    /// LRH:DLID is not 0, is permissive on VL 15 alone, and a unicast one is the port's.
    Dlid,
    /// The IPv4 header's checksum is right (RoCEv2).
    IpHeader,
    /// The GRH is one: IPVer 6, NxtHdr 0x1B, PayLen as PktLen has it; and a multicast packet has one.
    Grh,
    /// BTH:TVer is 0.
    TransportVersion,
    /// BTH:P_Key matches one of the port's.
    PKey,
}

impl Check {
    /// All of them, in the order of their rank.
    pub const ALL: [Self; 14] = [
        Self::Delimiter,
        Self::Vcrc,
        Self::Icrc,
        Self::LinkVersion,
        Self::Length,
        Self::Mtu,
        Self::VirtualLane,
        Self::PortState,
        Self::ManagementLane,
        Self::Dlid,
        Self::IpHeader,
        Self::Grh,
        Self::TransportVersion,
        Self::PKey,
    ];

    /// One word for tables and programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Delimiter => "delimiter",
            Self::Vcrc => "vcrc",
            Self::Icrc => "icrc",
            Self::LinkVersion => "link-version",
            Self::Length => "length",
            Self::Mtu => "mtu",
            Self::VirtualLane => "virtual-lane",
            Self::PortState => "port-state",
            Self::ManagementLane => "management-lane",
            Self::Dlid => "dlid",
            Self::IpHeader => "ip-header",
            Self::Grh => "grh",
            Self::TransportVersion => "transport-version",
            Self::PKey => "p-key",
        }
    }

    /// What a packet that fails it did.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Delimiter => "it does not end with EGP",
            Self::Vcrc => "its VCRC is wrong",
            Self::Icrc => "its ICRC is wrong",
            Self::LinkVersion => "LVer is not 0",
            Self::Length => "its length fields contradict what arrived, or it is too short",
            Self::Mtu => "it is longer than MTUCap allows",
            Self::VirtualLane => "the port does not have its VL in operation",
            Self::PortState => "the port's state does not let it in",
            Self::ManagementLane => "VL 15 and QP0 are for subnet management packets alone",
            Self::Dlid => "its DLID is not the port's",
            Self::IpHeader => "its IPv4 header checksum is wrong",
            Self::Grh => "its GRH is wrong or missing",
            Self::TransportVersion => "TVer is not 0",
            Self::PKey => "no P_Key of the port matches",
        }
    }

    /// The finer counter of PortRcvErrorDetails, where there is one: of failures that PortRcvErrors counts.
    #[must_use]
    pub const fn detail(self) -> Option<&'static str> {
        match self {
            Self::Vcrc | Self::Icrc => Some("PortLocalPhysicalErrors"),
            Self::LinkVersion | Self::Length | Self::Mtu | Self::VirtualLane => Some("PortMalformedPktErrors"),
            _ => None,
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A set of checks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Checks(u16);

impl Checks {
    /// None.
    pub const NONE: Self = Self(0);

    /// The set of these.
    #[must_use]
    pub const fn of(checks: &[Check]) -> Self {
        let mut bits = 0;
        let mut at = 0;
        while at < checks.len() {
            bits |= 1 << checks[at] as u16;
            at += 1;
        }
        Self(bits)
    }

    /// Adds one.
    pub fn insert(&mut self, check: Check) {
        self.0 |= 1 << check as u16;
    }

    /// Adds one if `failed`.
    pub(super) fn fail_if(&mut self, failed: bool, check: Check) {
        self.0 |= u16::from(failed) << check as u16;
    }

    /// Whether it is among them.
    #[must_use]
    pub const fn contains(self, check: Check) -> bool {
        self.0 & (1 << check as u16) != 0
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many there are.
    #[must_use]
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether `other` has all of these.
    #[must_use]
    pub const fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// Those that `other` does not have.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Those of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The one that ranks first.
    #[must_use]
    pub fn first(self) -> Option<Check> {
        Check::ALL.get(self.0.trailing_zeros() as usize).copied()
    }

    /// Each, in the order of their rank.
    pub fn iter(self) -> impl Iterator<Item = Check> {
        Check::ALL.into_iter().filter(move |check| self.contains(*check))
    }
}

impl fmt::Display for Checks {
    /// Their names with commas.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, check) in self.iter().enumerate() {
            f.write_str(if place == 0 { "" } else { ", " })?;
            f.write_str(check.name())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// How sure it is that one failure ranks before the others. No device is failed for another order unless it is certain.
///
/// - *Certain*: one check failed; or a CRC before anything else that the link layer checks, as the architecture's text
///   has it.
/// - *Supported*: VCRC before ICRC, LVer before the lengths, as public conformance tests number them; and the delimiter
///   before all: a port that ends a packet with EBP spoils its VCRC as well, and a counter of its own tells.
/// - *Assumed*: all else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Certainty {
    /// Nothing public says so.
    Assumed,
    /// Public material suggests it.
    Supported,
    /// The text says so, or only one check failed.
    Certain,
}

impl Certainty {
    /// One word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Assumed => "assumed",
            Self::Supported => "supported",
            Self::Certain => "certain",
        }
    }

    /// How sure it is that `first` ranks before each of `failed`.
    pub(super) fn of(first: Check, failed: Checks) -> Self {
        let others = failed.without(Checks::of(&[first]));
        others
            .iter()
            .map(|other| Self::of_pair(first, other))
            .min()
            .unwrap_or(Self::Certain)
    }

    fn of_pair(first: Check, other: Check) -> Self {
        match (first, other) {
            (Check::Delimiter, _) | (Check::Vcrc, Check::Icrc) | (Check::LinkVersion, Check::Length) => Self::Supported,
            // RoCE only, where IP comes before the link layer of InfiniBand.
            (_, Check::IpHeader) => Self::Assumed,
            (Check::Vcrc | Check::Icrc, _) => Self::Certain,
            _ => Self::Assumed,
        }
    }
}

impl fmt::Display for Certainty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a port counts a discarded packet with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Counter {
    /// PortCounters:PortRcvErrors.
    PortRcvErrors,
    /// PortCounters:PortRcvRemotePhysicalErrors.
    PortRcvRemotePhysicalErrors,
    /// PortCounters:PortRcvConstraintErrors, of switches and routers.
    PortRcvConstraintErrors,
    /// PortInfo:P_KeyViolations.
    PKeyViolations,
}

impl Counter {
    /// The architecture's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PortRcvErrors => "PortRcvErrors",
            Self::PortRcvRemotePhysicalErrors => "PortRcvRemotePhysicalErrors",
            Self::PortRcvConstraintErrors => "PortRcvConstraintErrors",
            Self::PKeyViolations => "P_KeyViolations",
        }
    }
}

impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
