//! The verbs interface of an adapter (architecture chapters 10 and 11).

use verbatim_wire::verbs::{AddressVector, Operation};
use verbatim_wire::{QKey, Qpn, RKey};

/// Handle of registered memory, unique for the lifetime of the adapter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct MemoryHandle(pub u32);

/// Handle of a queue pair, unique for the lifetime of the adapter. The handle is not the queue pair number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct QpHandle(pub u32);

/// Registered memory, initially all zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// The handle.
    pub handle: MemoryHandle,
    /// Address of the first byte.
    pub address: u64,
    /// The local key.
    pub l_key: u32,
    /// The remote key.
    pub r_key: RKey,
}

/// A range of registered memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Slice {
    /// The memory; ignored if `length` is 0.
    pub memory: MemoryHandle,
    /// Offset in bytes from the beginning of the memory.
    pub offset: u32,
    /// Length in bytes.
    pub length: u32,
}

/// A send request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendRequest {
    /// Identifier that the completion returns.
    pub wr_id: u64,
    /// The operation.
    pub operation: Operation,
    /// The local memory.
    pub local: Slice,
    /// Whether the request reports a completion on success.
    pub signaled: bool,
    /// Whether the completion at the peer raises a solicited event.
    pub solicited: bool,
    /// Whether the request waits for earlier READs and atomics.
    pub fence: bool,
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
    /// UD: the path to the peer.
    pub address: AddressVector,
    /// UD: the queue pair number of the peer.
    pub remote_qpn: Qpn,
    /// UD: the Q_Key of the peer.
    pub remote_qkey: QKey,
}

impl SendRequest {
    /// Creates a signaled request without remote memory.
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

    /// Returns this request with the given remote memory.
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
    /// Identifier that the completion returns.
    pub wr_id: u64,
    /// Memory for the received data. UD: the first 40 bytes receive the network header.
    pub local: Slice,
}

/// The error of a refused call, which changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text} (errno {errno})")]
pub struct Refusal {
    /// Linux error number (errno) of the verb.
    pub errno: i32,
    /// The expected value, the given value and the remedy.
    pub text: String,
}

impl Refusal {
    /// Refuses a handle that does not exist: `ENOENT`.
    pub(crate) fn unknown(what: &str, handle: u32) -> Self {
        Self {
            errno: 2,
            text: format!("expected the handle of an existing {what}; no {what} has handle {handle}"),
        }
    }

    /// Refuses a call beyond a limit of the adapter or a queue: `ENOMEM`.
    pub(crate) fn full(text: String) -> Self {
        Self { errno: 12, text }
    }

    /// Refuses an unsupported feature: `EOPNOTSUPP`.
    pub(crate) fn absent(text: impl Into<String>) -> Self {
        Self {
            errno: 95,
            text: text.into(),
        }
    }

    /// Refuses an invalid argument: `EINVAL`.
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self {
            errno: 22,
            text: text.into(),
        }
    }
}
