//! The forms of a packet, by the headers before the BTH. The form determines the bytes that the ICRC covers.

use core::fmt;

use super::{Grh, Lrh};
use crate::ether::{Ipv4, Ipv6, Udp};
use crate::layout::Layout;

/// The end delimiter of a packet on a native InfiniBand link (architecture 7.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delimiter {
    /// End of good packet.
    Egp,
    /// End of bad packet: a device on the path marked the packet as corrupt.
    Ebp,
    /// Any other end: the start of another packet, an invalid code group, or an idle link.
    Other,
}

impl fmt::Display for Delimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Egp => "EGP",
            Self::Ebp => "EBP",
            Self::Other => "neither EGP nor EBP",
        })
    }
}

/// The medium of a packet, which determines the first and the last part of the packet's bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Medium {
    /// From the Ethernet header to the ICRC, without the frame check sequence. Padding may follow.
    Ethernet,
    /// From the LRH to the VCRC.
    InfiniBand,
    /// From the LRH to the ICRC.
    InfiniBandNoVcrc,
}

/// The headers before the BTH.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Form {
    /// LRH.
    InfiniBandLocal,
    /// LRH, GRH.
    InfiniBandGlobal,
    /// Ethernet, GRH.
    RoceV1,
    /// Ethernet, IPv4, UDP.
    RoceV2Ipv4,
    /// Ethernet, IPv6, UDP.
    RoceV2Ipv6,
}

impl Form {
    /// All forms.
    pub const ALL: [Self; 5] = [
        Self::InfiniBandLocal,
        Self::InfiniBandGlobal,
        Self::RoceV1,
        Self::RoceV2Ipv4,
        Self::RoceV2Ipv6,
    ];

    /// Returns the number of bytes from the first byte that the ICRC may cover (LRH, RoCEv1 GRH or IP header) to the
    /// BTH.
    #[must_use]
    pub const fn route_length(self) -> usize {
        match self {
            Self::InfiniBandLocal => Lrh::SIZE,
            Self::InfiniBandGlobal => Lrh::SIZE + Grh::SIZE,
            Self::RoceV1 => Grh::SIZE,
            Self::RoceV2Ipv4 => Ipv4::SIZE + Udp::SIZE,
            Self::RoceV2Ipv6 => Ipv6::SIZE + Udp::SIZE,
        }
    }

    /// Returns whether the packet begins with an LRH.
    #[must_use]
    pub const fn is_infiniband(self) -> bool {
        matches!(self, Self::InfiniBandLocal | Self::InfiniBandGlobal)
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InfiniBandLocal => "InfiniBand, local",
            Self::InfiniBandGlobal => "InfiniBand, global",
            Self::RoceV1 => "RoCEv1",
            Self::RoceV2Ipv4 => "RoCEv2 over IPv4",
            Self::RoceV2Ipv6 => "RoCEv2 over IPv6",
        })
    }
}
