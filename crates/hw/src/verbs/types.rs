//! Values that `verbatim_wire` does not define: GID types and bits of access flags.

use std::fmt;

use verbatim_wire::verbs::Access;

use super::c::{self, ibv_access_flags as bit};

/// Type of a GID (`enum ibv_gid_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GidType {
    /// InfiniBand.
    Ib,
    /// RoCE version 1: a GRH behind Ethertype 0x8915.
    RoceV1,
    /// RoCE version 2: UDP over IPv4 or IPv6.
    RoceV2,
    /// A value unknown to this program.
    Unknown(u32),
}

impl From<u32> for GidType {
    fn from(value: u32) -> Self {
        match value {
            c::IBV_GID_TYPE_IB => Self::Ib,
            c::IBV_GID_TYPE_ROCE_V1 => Self::RoceV1,
            c::IBV_GID_TYPE_ROCE_V2 => Self::RoceV2,
            _ => Self::Unknown(value),
        }
    }
}

impl fmt::Display for GidType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ib => f.write_str("IB"),
            Self::RoceV1 => f.write_str("RoCE v1"),
            Self::RoceV2 => f.write_str("RoCE v2"),
            Self::Unknown(value) => write!(f, "Unknown({value})"),
        }
    }
}

/// Returns the bits of `enum ibv_access_flags`.
pub(super) fn access_flags(access: Access) -> u32 {
    let flags = [
        (access.local_write, bit::IBV_ACCESS_LOCAL_WRITE),
        (access.remote_write, bit::IBV_ACCESS_REMOTE_WRITE),
        (access.remote_read, bit::IBV_ACCESS_REMOTE_READ),
        (access.remote_atomic, bit::IBV_ACCESS_REMOTE_ATOMIC),
    ];
    flags.iter().filter(|(set, _)| *set).map(|(_, set)| set.0).sum()
}
