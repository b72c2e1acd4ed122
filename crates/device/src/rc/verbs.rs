//! What a host may ask of its adapter, in the words of the verbs (architecture chapters 10 and 11).

use verbatim_wire::verbs::{AddressVector, Operation};
use verbatim_wire::{QKey, Qpn, RKey};

/// Handle of registered memory, unique for the life of the adapter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct MemoryHandle(pub u32);

/// Handle of a queue pair, unique for the life of the adapter. Not its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct QpHandle(pub u32);

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

    /// Something that the adapter has not: `EOPNOTSUPP`.
    pub(crate) fn absent(text: impl Into<String>) -> Self {
        Self {
            errno: 95,
            text: text.into(),
        }
    }

    /// An argument that cannot be: `EINVAL`.
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self {
            errno: 22,
            text: text.into(),
        }
    }
}
