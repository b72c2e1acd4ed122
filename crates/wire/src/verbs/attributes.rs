//! Attributes of a queue pair, and its work requests.

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};

use crate::packet::{AckTimeout, Psn, QKey, Qpn, RKey, RnrTimer};
use crate::values::Mtu;

/// Access rights to a memory region, or the rights that a queue pair grants to its peer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Access {
    /// The adapter may write to the memory for local work requests. A queue pair ignores this right.
    pub local_write: bool,
    /// The peer may write with RDMA WRITE.
    pub remote_write: bool,
    /// The peer may read with RDMA READ.
    pub remote_read: bool,
    /// The peer may execute atomic operations.
    pub remote_atomic: bool,
}

impl Access {
    /// All rights.
    pub const ALL: Self = Self {
        local_write: true,
        remote_write: true,
        remote_read: true,
        remote_atomic: true,
    };
    /// Local write only.
    pub const LOCAL: Self = Self {
        local_write: true,
        remote_write: false,
        remote_read: false,
        remote_atomic: false,
    };
}

/// A transport service of the queue pairs that Verbatim uses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable datagram.
    Ud,
}

/// A state of a queue pair (architecture 10.3.1).
///
/// ```text
///   RESET -> INIT -> RTR -> RTS <-> SQD      from every state: RESET, ERR
///                            ^
///                            +--- SQE (UD)
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum QpState {
    /// The state after creation.
    Reset,
    /// Initialized: the QP accepts receive requests but processes none.
    Init,
    /// Ready to receive.
    Rtr,
    /// Ready to send.
    Rts,
    /// Send queue drained: the QP completes the requests in progress and starts no new request.
    Sqd,
    /// Send queue error.
    Sqe,
    /// Error: the QP flushes all work requests.
    Err,
}

impl QpState {
    /// Every state, in the order of `enum ibv_qp_state`, whose first value is 0.
    pub const ALL: [Self; 7] = [
        Self::Reset,
        Self::Init,
        Self::Rtr,
        Self::Rts,
        Self::Sqd,
        Self::Sqe,
        Self::Err,
    ];
}

impl fmt::Display for QpState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reset => "RESET",
            Self::Init => "INIT",
            Self::Rtr => "RTR",
            Self::Rts => "RTS",
            Self::Sqd => "SQD",
            Self::Sqe => "SQE",
            Self::Err => "ERR",
        })
    }
}

/// A GID of 16 bytes. RoCEv2 maps an IPv4 address into IPv6.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// Returns the IP address of this GID.
    #[must_use]
    pub fn ip(self) -> IpAddr {
        let address = Ipv6Addr::from(self.0);
        address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4)
    }
}

impl From<IpAddr> for Gid {
    fn from(address: IpAddr) -> Self {
        Self(match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        })
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ipv6Addr::from(self.0).fmt(f)
    }
}

/// The path to another port. On Ethernet the LID and the service level are ignored, and packets always carry a GRH.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AddressVector {
    /// GID of the destination port. `None`: packets carry no GRH, and the fields `sgid_index`, `hop_limit`,
    /// `traffic_class` and `flow_label` are ignored.
    pub dgid: Option<Gid>,
    /// Index of the source GID in the port's GID table.
    pub sgid_index: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// LID of the destination port; 0 on Ethernet.
    pub dlid: u16,
    /// Service level.
    pub sl: u8,
}

/// Attributes of a queue pair. `None` means that the attribute is not specified.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QpAttributes {
    /// Index into the P_Key table.
    pub pkey_index: Option<u16>,
    /// Number of the port, from 1.
    pub port: Option<u8>,
    /// Operations that the peer may execute.
    pub access: Option<Access>,
    /// Path MTU.
    pub path_mtu: Option<Mtu>,
    /// QP number of the peer.
    pub dest_qpn: Option<Qpn>,
    /// First PSN that the QP expects to receive.
    pub rq_psn: Option<Psn>,
    /// First PSN that the QP sends.
    pub sq_psn: Option<Psn>,
    /// Maximum number of READs and atomics that the QP accepts at a time as responder.
    pub max_dest_rd_atomic: Option<u8>,
    /// Maximum number of READs and atomics that the QP has outstanding as requester.
    pub max_rd_atomic: Option<u8>,
    /// RNR timer that the QP reports in its RNR NAKs.
    pub min_rnr_timer: Option<RnrTimer>,
    /// The local ACK timeout.
    pub timeout: Option<AckTimeout>,
    /// Number of retries after timeouts and sequence errors, 0 to 7.
    pub retry_cnt: Option<u8>,
    /// Number of retries after RNR NAKs, 0 to 6; with 7 the QP retries without limit.
    pub rnr_retry: Option<u8>,
    /// Q_Key.
    pub qkey: Option<QKey>,
    /// Path to the peer.
    pub address: Option<AddressVector>,
}

/// State and sequence numbers of a queue pair, from a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpStatus {
    /// State of the queue pair.
    pub state: QpState,
    /// PSN of the next new request that the QP sends.
    pub sq_psn: Psn,
    /// PSN that the QP expects next.
    pub rq_psn: Psn,
}

/// The operation of a send request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Operation {
    /// SEND.
    Send,
    /// SEND with Immediate.
    SendImm,
    /// SEND with Invalidate.
    SendInvalidate,
    /// RDMA WRITE.
    Write,
    /// RDMA WRITE with Immediate.
    WriteImm,
    /// RDMA READ.
    Read,
    /// CmpSwap.
    CompareSwap,
    /// FetchAdd.
    FetchAdd,
}

impl Operation {
    /// Returns whether this is CmpSwap or FetchAdd.
    #[must_use]
    pub fn is_atomic(self) -> bool {
        matches!(self, Self::CompareSwap | Self::FetchAdd)
    }

    /// Returns whether this is a READ or an atomic. The responses to READs and atomics carry data. A queue pair
    /// limits the number of its outstanding READs and atomics.
    #[must_use]
    pub fn is_read_or_atomic(self) -> bool {
        self == Self::Read || self.is_atomic()
    }

    /// Returns whether the operation consumes a receive request of the peer: a SEND, or a WRITE with immediate data.
    #[must_use]
    pub fn takes_receive(self) -> bool {
        matches!(self, Self::Send | Self::SendImm | Self::SendInvalidate | Self::WriteImm)
    }
}

/// A send request without its local memory. Fields that the operation does not use are ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Work {
    /// The operation.
    pub operation: Operation,
    /// Address in the peer's memory.
    pub remote_address: u64,
    /// Key of the peer's memory region, or the key to invalidate.
    pub r_key: RKey,
    /// Value that CmpSwap compares with the memory.
    pub compare: u64,
    /// Value that CmpSwap stores or FetchAdd adds.
    pub swap_add: u64,
    /// Immediate data.
    pub imm: u32,
}
