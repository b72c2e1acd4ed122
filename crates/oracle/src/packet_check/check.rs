//! Checks of a packet, their rank, and the counters of discarded packets.

use core::fmt;

/// Check of a packet. The variants are in the order of rank: if several checks fail, a port reports the first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[repr(u8)]
pub enum Check {
    /// The packet ends with EGP. EBP means that an earlier port found the packet bad.
    Delimiter,
    /// The variant CRC matches all bytes before it.
    Vcrc,
    /// The invariant CRC matches the bytes that it covers.
    Icrc,
    /// LRH:LVer is 0.
    LinkVersion,
    /// The length fields match the bytes that arrived, and the packet has the minimum size.
    Length,
    /// The packet's length is at most MTUCap plus the longest headers.
    Mtu,
    /// LRH:VL is in operation at the port.
    VirtualLane,
    /// The port's state admits the packet: none in Down, only VL 15 in Initialize.
    PortState,
    /// VL 15 carries UD datagrams to QP0 of one port, never raw packets, and QP0 receives packets from VL 15 only.
    ManagementLane,
    /// LRH:DLID is not 0, is permissive only on VL 15, and is a LID of the port if it is unicast.
    Dlid,
    /// The checksum of the IPv4 header is right (RoCEv2).
    IpHeader,
    /// The GRH has IPVer 6, NxtHdr 0x1B and a PayLen that matches the bytes that arrived. A multicast packet has a
    /// GRH.
    Grh,
    /// BTH:TVer is 0.
    TransportVersion,
    /// BTH:P_Key matches a P_Key of the port.
    PKey,
}

impl Check {
    /// All checks, in the order of rank.
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

    /// Returns the name for tables and programs.
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

    /// Returns the fault of a packet that fails the check, as a clause.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Delimiter => "it does not end with EGP",
            Self::Vcrc => "its VCRC is wrong",
            Self::Icrc => "its ICRC is wrong",
            Self::LinkVersion => "LVer is not 0",
            Self::Length => "its length fields contradict its length, or it is too short",
            Self::Mtu => "it is longer than MTUCap allows",
            Self::VirtualLane => "its VL is not in operation at the port",
            Self::PortState => "the port's state does not allow it",
            Self::ManagementLane => "only subnet management packets may use VL 15 and QP0",
            Self::Dlid => "its DLID is not the port's",
            Self::IpHeader => "its IPv4 header checksum is wrong",
            Self::Grh => "its GRH is wrong or missing",
            Self::TransportVersion => "TVer is not 0",
            Self::PKey => "no P_Key of the port matches",
        }
    }

    /// Returns the counter in PortRcvErrorDetails for a failure that PortRcvErrors counts.
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

/// Set of checks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Checks(u16);

impl Checks {
    /// Empty set.
    pub const NONE: Self = Self(0);

    /// Returns the set of these checks.
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

    /// Adds a check.
    pub fn insert(&mut self, check: Check) {
        self.0 |= 1 << check as u16;
    }

    /// Adds a check if `failed`.
    pub(super) fn fail_if(&mut self, failed: bool, check: Check) {
        self.0 |= u16::from(failed) << check as u16;
    }

    /// Returns whether the set has a check.
    #[must_use]
    pub const fn contains(self, check: Check) -> bool {
        self.0 & (1 << check as u16) != 0
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the number of checks.
    #[must_use]
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Returns whether `other` has all checks of this set.
    #[must_use]
    pub const fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// Returns the checks of this set that `other` lacks.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns the checks of both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the check that ranks first.
    #[must_use]
    pub fn first(self) -> Option<Check> {
        Check::ALL.get(self.0.trailing_zeros() as usize).copied()
    }

    /// Returns the checks in the order of rank.
    pub fn iter(self) -> impl Iterator<Item = Check> {
        Check::ALL.into_iter().filter(move |check| self.contains(*check))
    }
}

impl fmt::Display for Checks {
    /// Writes the names, separated by commas.
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

/// Certainty that the first failure ranks before the others. If a device reports one of the other failures, its test is
/// a FAIL only if the order is certain.
///
/// - *Certain*: only one check failed. Or the first failure is a CRC: the architecture ranks the CRCs before all other
///   checks of a native packet.
/// - *Supported*: VCRC before ICRC, and LVer before the lengths, because public conformance tests check in this order.
///   Also the delimiter before all others: a packet that ends with EBP has a wrong VCRC too, but a counter of its own
///   counts it. If its VCRC is inverted, and no other check failed, the tests treat this order as certain.
/// - *Assumed*: all other orders, and every order in RoCE.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Certainty {
    /// No public source states the order.
    Assumed,
    /// Public material suggests the order.
    Supported,
    /// The text states the order, or only one check failed.
    Certain,
}

impl Certainty {
    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Assumed => "assumed",
            Self::Supported => "supported",
            Self::Certain => "certain",
        }
    }

    /// Returns the certainty that `first` ranks before each of `failed`.
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
            // This pair occurs only in RoCE, where a port may check the IP header before all else.
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

/// Counter of a port for discarded packets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Counter {
    /// PortCounters:PortRcvErrors.
    PortRcvErrors,
    /// PortCounters:PortRcvRemotePhysicalErrors.
    PortRcvRemotePhysicalErrors,
    /// PortCounters:PortRcvConstraintErrors, in switches and routers.
    PortRcvConstraintErrors,
    /// PortInfo:P_KeyViolations.
    PKeyViolations,
}

impl Counter {
    /// Returns the architecture's name.
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
