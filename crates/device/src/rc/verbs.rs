//! What a host may ask of its adapter, in the words of the verbs (architecture chapters 10 and 11).

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};

use verbatim_wire::{AckTimeout, Mtu, Psn, QKey, Qpn, RKey, RnrTimer};

/// Handle of registered memory, unique for the life of the adapter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct MemoryHandle(pub u32);

/// Handle of a queue pair, unique for the life of the adapter. Not its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct QpHandle(pub u32);

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

/// Registered memory: all zeros at first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// Its handle.
    pub handle: MemoryHandle,
    /// Its first address.
    pub address: u64,
    /// Its local key.
    pub l_key: u32,
    /// Its remote key.
    pub r_key: RKey,
}

/// Part of registered memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Slice {
    /// The memory; of no meaning when `length` is 0.
    pub memory: MemoryHandle,
    /// Bytes from its beginning.
    pub offset: u32,
    /// Bytes.
    pub length: u32,
}

/// A transport service that queue pairs can have.
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

/// The way to another port. LIDs and service levels say nothing on Ethernet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AddressVector {
    /// Its GID; RoCE packets always carry one, so `None` is refused.
    pub dgid: Option<Gid>,
    /// Index of the own GID.
    pub sgid_index: u32,
    /// Hop limit; 0 is taken as 64.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// LID: not looked at.
    pub dlid: u16,
    /// Service level: not looked at.
    pub sl: u8,
}

/// Attributes of a queue pair; an absent one is not named.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QpAttributes {
    /// Index into the P_Key table.
    pub pkey_index: Option<u32>,
    /// The port: 1.
    pub port: Option<u32>,
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
    pub max_dest_rd_atomic: Option<u32>,
    /// READs and atomics that it has in flight at a time.
    pub max_rd_atomic: Option<u32>,
    /// The interval that its RNR NAKs ask for.
    pub min_rnr_timer: Option<RnrTimer>,
    /// The local ACK timeout.
    pub timeout: Option<AckTimeout>,
    /// Retries after time-outs and sequence errors, 0 to 7.
    pub retry_cnt: Option<u32>,
    /// Retries after RNR NAKs, 0 to 6; 7 is without end.
    pub rnr_retry: Option<u32>,
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
}

/// A send request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendRequest {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// What to do.
    pub operation: Operation,
    /// The local memory.
    pub local: Slice,
    /// Whether success makes a completion.
    pub signaled: bool,
    /// Whether the other side's completion raises an event.
    pub solicited: bool,
    /// Whether it waits for READs and atomics before it.
    pub fence: bool,
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
    /// UD: the way to the other side.
    pub address: AddressVector,
    /// UD: the other side's queue pair.
    pub remote_qpn: Qpn,
    /// UD: the other side's Q_Key.
    pub remote_qkey: QKey,
}

impl SendRequest {
    /// A signalled request of this kind, without remote memory.
    #[must_use]
    pub fn new(wr_id: u64, operation: Operation, local: Slice) -> Self {
        Self {
            wr_id,
            operation,
            local,
            signaled: true,
            solicited: false,
            fence: false,
            remote_address: 0,
            r_key: RKey(0),
            compare: 0,
            swap_add: 0,
            imm: 0,
            address: AddressVector::default(),
            remote_qpn: Qpn(0),
            remote_qkey: QKey(0),
        }
    }

    /// The same, about that memory of the other side.
    #[must_use]
    pub fn at(self, remote_address: u64, r_key: RKey) -> Self {
        Self {
            remote_address,
            r_key,
            ..self
        }
    }
}

/// A receive request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceiveRequest {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// Where to put what arrives. UD: the first 40 bytes are for the network header.
    pub local: Slice,
}

/// Why a call was refused. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text} (errno {errno})")]
pub struct Refusal {
    /// The error number of Linux that verbs give for it.
    pub errno: i32,
    /// What was expected, what was seen, what to do.
    pub text: String,
}

impl Refusal {
    /// A handle that names nothing: `ENOENT`.
    pub(crate) fn unknown(what: &str, handle: u32) -> Self {
        Self {
            errno: 2,
            text: format!("expected the handle of a {what} that exists, and there is none with handle {handle}"),
        }
    }

    /// A limit of the adapter or of a queue: `ENOMEM`.
    pub(crate) fn full(text: String) -> Self {
        Self { errno: 12, text }
    }

    /// An argument that cannot be: `EINVAL`.
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self {
            errno: 22,
            text: text.into(),
        }
    }
}
