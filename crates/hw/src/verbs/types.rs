//! Values that the library or a device writes: newtypes with names, so that an unknown one is shown and not lost.

use std::{fmt, ops::BitOr};

use super::generated as c;

macro_rules! named {
    ($(#[$docs:meta])* $type:ident, $prefix:literal, [$($name:ident = $value:expr),* $(,)?]) => {
        $(#[$docs])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(pub u32);

        impl $type {
            $(
                #[doc = concat!("`", $prefix, stringify!($name), "`.")]
                pub const $name: $type = $type($value);
            )*

            /// The name in `infiniband/verbs.h`, if the value has one there.
            #[must_use]
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $($type::$name => Some(concat!($prefix, stringify!($name))),)*
                    _ => None,
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, "{:#x} (unknown)", self.0),
                }
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

named! {
    /// How a work request ended (`enum ibv_wc_status`).
    WcStatus, "IBV_WC_", [
        SUCCESS = 0, LOC_LEN_ERR = 1, LOC_QP_OP_ERR = 2, LOC_EEC_OP_ERR = 3, LOC_PROT_ERR = 4, WR_FLUSH_ERR = 5,
        MW_BIND_ERR = 6, BAD_RESP_ERR = 7, LOC_ACCESS_ERR = 8, REM_INV_REQ_ERR = 9, REM_ACCESS_ERR = 10,
        REM_OP_ERR = 11, RETRY_EXC_ERR = 12, RNR_RETRY_EXC_ERR = 13, LOC_RDD_VIOL_ERR = 14, REM_INV_RD_REQ_ERR = 15,
        REM_ABORT_ERR = 16, INV_EECN_ERR = 17, INV_EEC_STATE_ERR = 18, FATAL_ERR = 19, RESP_TIMEOUT_ERR = 20,
        GENERAL_ERR = 21, TM_ERR = 22, TM_RNDV_INCOMPLETE = 23,
    ]
}
named! {
    /// What kind of work request ended (`enum ibv_wc_opcode`).
    WcOpcode, "IBV_WC_", [
        SEND = 0, RDMA_WRITE = 1, RDMA_READ = 2, COMP_SWAP = 3, FETCH_ADD = 4, BIND_MW = 5, LOCAL_INV = 6, TSO = 7,
        ATOMIC_WRITE = 9, RECV = 128, RECV_RDMA_WITH_IMM = 129,
    ]
}
named! {
    /// What happened to a device or to one of its objects (`enum ibv_event_type`).
    EventKind, "IBV_EVENT_", [
        CQ_ERR = 0, QP_FATAL = 1, QP_REQ_ERR = 2, QP_ACCESS_ERR = 3, COMM_EST = 4, SQ_DRAINED = 5, PATH_MIG = 6,
        PATH_MIG_ERR = 7, DEVICE_FATAL = 8, PORT_ACTIVE = 9, PORT_ERR = 10, LID_CHANGE = 11, PKEY_CHANGE = 12,
        SM_CHANGE = 13, SRQ_ERR = 14, SRQ_LIMIT_REACHED = 15, QP_LAST_WQE_REACHED = 16, CLIENT_REREGISTER = 17,
        GID_CHANGE = 18, WQ_FATAL = 19,
    ]
}
named! {
    /// State of a port (`enum ibv_port_state`).
    PortState, "IBV_PORT_", [NOP = 0, DOWN = 1, INIT = 2, ARMED = 3, ACTIVE = 4, ACTIVE_DEFER = 5]
}
named! {
    /// What is below a port (`IBV_LINK_LAYER_*`).
    LinkLayer, "IBV_LINK_LAYER_", [UNSPECIFIED = 0, INFINIBAND = 1, ETHERNET = 2]
}
named! {
    /// Against whom atomics of a device are atomic (`enum ibv_atomic_cap`).
    AtomicCapability, "IBV_ATOMIC_", [NONE = 0, HCA = 1, GLOB = 2]
}
named! {
    /// State of a queue pair (`enum ibv_qp_state`).
    QpState, "IBV_QPS_", [RESET = 0, INIT = 1, RTR = 2, RTS = 3, SQD = 4, SQE = 5, ERR = 6]
}
named! {
    /// State of automatic path migration (`enum ibv_mig_state`).
    MigrationState, "IBV_MIG_", [MIGRATED = 0, REARM = 1, ARMED = 2]
}
named! {
    /// Service of a queue pair (`enum ibv_qp_type`).
    QpType, "IBV_QPT_", [RC = 2, UC = 3, UD = 4]
}
named! {
    /// Largest payload of a packet (`enum ibv_mtu`), as a code.
    Mtu, "IBV_", [MTU_256 = 1, MTU_512 = 2, MTU_1024 = 3, MTU_2048 = 4, MTU_4096 = 5]
}

impl Mtu {
    /// The code of that many bytes, if there is one.
    #[must_use]
    pub fn from_bytes(bytes: u32) -> Option<Mtu> {
        [Mtu::MTU_256, Mtu::MTU_512, Mtu::MTU_1024, Mtu::MTU_2048, Mtu::MTU_4096]
            .into_iter()
            .find(|mtu| mtu.bytes() == Some(bytes))
    }

    /// Payload in bytes, if the code is a known one.
    #[must_use]
    pub fn bytes(self) -> Option<u32> {
        matches!(self.0, 1..=5).then(|| 128 << self.0)
    }
}

impl EventKind {
    /// Which member of the C event's union is set: the table in the manual of `ibv_get_async_event`.
    pub(super) fn concerns(self) -> Concern {
        match self {
            Self::CQ_ERR => Concern::Cq,
            Self::QP_FATAL
            | Self::QP_REQ_ERR
            | Self::QP_ACCESS_ERR
            | Self::COMM_EST
            | Self::SQ_DRAINED
            | Self::PATH_MIG
            | Self::PATH_MIG_ERR
            | Self::QP_LAST_WQE_REACHED => Concern::Qp,
            Self::PORT_ACTIVE
            | Self::PORT_ERR
            | Self::LID_CHANGE
            | Self::PKEY_CHANGE
            | Self::SM_CHANGE
            | Self::CLIENT_REREGISTER
            | Self::GID_CHANGE => Concern::Port,
            _ => Concern::Device,
        }
    }
}

/// See [`EventKind::concerns`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Concern {
    Cq,
    Qp,
    Port,
    Device,
}

/// Type of a GID (`enum ibv_gid_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GidType {
    /// InfiniBand.
    Ib,
    /// RoCE version 1: an InfiniBand network header behind Ethertype 0x8915.
    RoceV1,
    /// RoCE version 2: UDP over IPv4 or IPv6.
    RoceV2,
    /// A value that this program does not know.
    Unknown(u32),
}

impl From<u32> for GidType {
    fn from(value: u32) -> Self {
        match c::ibv_gid_type(value) {
            c::ibv_gid_type::IBV_GID_TYPE_IB => Self::Ib,
            c::ibv_gid_type::IBV_GID_TYPE_ROCE_V1 => Self::RoceV1,
            c::ibv_gid_type::IBV_GID_TYPE_ROCE_V2 => Self::RoceV2,
            _ => Self::Unknown(value),
        }
    }
}

/// What may be done to memory, or over a queue pair (`enum ibv_access_flags`). Flags are joined with `|`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AccessFlags(pub u32);

impl AccessFlags {
    /// Nothing but local reads.
    pub const NONE: AccessFlags = AccessFlags(0);
    /// The device may write for us: receives, reads, atomics.
    pub const LOCAL_WRITE: AccessFlags = AccessFlags(c::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0);
    /// The other side may write.
    pub const REMOTE_WRITE: AccessFlags = AccessFlags(c::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0);
    /// The other side may read.
    pub const REMOTE_READ: AccessFlags = AccessFlags(c::ibv_access_flags::IBV_ACCESS_REMOTE_READ.0);
    /// The other side may use atomics.
    pub const REMOTE_ATOMIC: AccessFlags = AccessFlags(c::ibv_access_flags::IBV_ACCESS_REMOTE_ATOMIC.0);
    /// All of these.
    pub const ALL: AccessFlags =
        AccessFlags(Self::LOCAL_WRITE.0 | Self::REMOTE_WRITE.0 | Self::REMOTE_READ.0 | Self::REMOTE_ATOMIC.0);

    /// Whether every flag of `other` is set.
    #[must_use]
    pub fn contains(self, other: AccessFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for AccessFlags {
    type Output = AccessFlags;

    fn bitor(self, other: AccessFlags) -> AccessFlags {
        AccessFlags(self.0 | other.0)
    }
}
