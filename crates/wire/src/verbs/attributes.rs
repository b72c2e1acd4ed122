//! What a queue pair is set to, and what is asked of it.

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};

use crate::packet::{AckTimeout, Psn, QKey, Qpn, RKey, RnrTimer};
use crate::values::Mtu;

/// What may be done with memory, or by the other side of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Access {
    /// The adapter may write it for its own side. Says nothing on a queue pair.
    pub local_write: bool,
    /// RDMA WRITE.
    pub remote_write: bool,
    /// RDMA READ.
    pub remote_read: bool,
    /// Atomics.
    pub remote_atomic: bool,
}

impl Access {
    /// Everything.
    pub const ALL: Self = Self {
        local_write: true,
        remote_write: true,
        remote_read: true,
        remote_atomic: true,
    };
    /// Local use alone.
    pub const LOCAL: Self = Self {
        local_write: true,
        remote_write: false,
        remote_read: false,
        remote_atomic: false,
    };
}

/// A transport service that the queue pairs of this program have.
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
    /// As created.
    Reset,
    /// Receives can be posted.
    Init,
    /// Ready to receive.
    Rtr,
    /// Ready to send.
    Rts,
    /// Send queue drained: what was begun is finished, nothing is begun.
    Sqd,
    /// Send queue error.
    Sqe,
    /// Error: everything is flushed.
    Err,
}

impl QpState {
    /// Every state, in the order of `enum ibv_qp_state`, whose numbers begin with 0.
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

/// A GID: 16 bytes. An IPv4 address is mapped into IPv6, as RoCEv2 has it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// The IP address that it stands for.
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

/// The way to another port. LIDs and service levels say nothing on Ethernet, and packets there always carry a GRH.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AddressVector {
    /// Its GID; `None` where packets carry no GRH, and what follows says nothing then, up to the LID.
    pub dgid: Option<Gid>,
    /// Index of the own GID.
    pub sgid_index: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Its LID; 0 on Ethernet.
    pub dlid: u16,
    /// Service level.
    pub sl: u8,
}

/// Attributes of a queue pair; an absent one is not named.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QpAttributes {
    /// Index into the P_Key table.
    pub pkey_index: Option<u16>,
    /// The port, from 1.
    pub port: Option<u8>,
    /// What the other side may do.
    pub access: Option<Access>,
    /// Path MTU.
    pub path_mtu: Option<Mtu>,
    /// The other side's queue pair.
    pub dest_qpn: Option<Qpn>,
    /// First PSN expected.
    pub rq_psn: Option<Psn>,
    /// First PSN sent.
    pub sq_psn: Option<Psn>,
    /// READs and atomics that it answers at a time.
    pub max_dest_rd_atomic: Option<u8>,
    /// READs and atomics that it has in flight at a time.
    pub max_rd_atomic: Option<u8>,
    /// The interval that its RNR NAKs ask for.
    pub min_rnr_timer: Option<RnrTimer>,
    /// The local ACK timeout.
    pub timeout: Option<AckTimeout>,
    /// Retries after time-outs and sequence errors, 0 to 7.
    pub retry_cnt: Option<u8>,
    /// Retries after RNR NAKs, 0 to 6; 7 is without end.
    pub rnr_retry: Option<u8>,
    /// Q_Key.
    pub qkey: Option<QKey>,
    /// The way to the other side.
    pub address: Option<AddressVector>,
}

/// What is told of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpStatus {
    /// Its state.
    pub state: QpState,
    /// The PSN that the next new request starts with.
    pub sq_psn: Psn,
    /// The PSN that is expected next.
    pub rq_psn: Psn,
}

/// What a send request does.
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
    /// CmpSwap and FetchAdd.
    #[must_use]
    pub fn is_atomic(self) -> bool {
        matches!(self, Self::CompareSwap | Self::FetchAdd)
    }

    /// READ and the atomics: the answer carries data, and their number in flight is limited.
    #[must_use]
    pub fn is_read_or_atomic(self) -> bool {
        self == Self::Read || self.is_atomic()
    }

    /// SENDs, and WRITEs with immediate data: the other side needs a posted receive.
    #[must_use]
    pub fn takes_receive(self) -> bool {
        matches!(self, Self::Send | Self::SendImm | Self::SendInvalidate | Self::WriteImm)
    }
}

/// A send request without its own memory: what it does, and with what at the other side. What its operation does not
/// use says nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Work {
    /// What it does.
    pub operation: Operation,
    /// Address in the other side's memory.
    pub remote_address: u64,
    /// Key of the other side's memory, or the key to invalidate.
    pub r_key: RKey,
    /// CmpSwap: what the memory must hold.
    pub compare: u64,
    /// CmpSwap: what it then holds. FetchAdd: what is added.
    pub swap_add: u64,
    /// Immediate data.
    pub imm: u32,
}
