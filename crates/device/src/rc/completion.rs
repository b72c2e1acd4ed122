//! What an adapter tells its host without being asked: completions and asynchronous events.

use core::time::Duration;

use verbatim_wire::verbs::{EventKind, Operation, WcOpcode, WcStatus};

use super::verbs::QpHandle;

/// What a request of this kind completes as.
pub(crate) fn opcode(of: Operation) -> WcOpcode {
    match of {
        Operation::Send | Operation::SendImm | Operation::SendInvalidate => WcOpcode::SEND,
        Operation::Write | Operation::WriteImm => WcOpcode::RDMA_WRITE,
        Operation::Read => WcOpcode::RDMA_READ,
        Operation::CompareSwap => WcOpcode::COMP_SWAP,
        Operation::FetchAdd => WcOpcode::FETCH_ADD,
    }
}

/// A request completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The queue pair.
    pub qp: QpHandle,
    /// As posted.
    pub wr_id: u64,
    /// What it came to.
    pub status: WcStatus,
    /// What completed; says nothing after an error.
    pub opcode: WcOpcode,
    /// Bytes that arrived: of a receive, a READ or an atomic. UD: with the 40 bytes of the network header.
    pub byte_len: u32,
    /// Immediate data that arrived.
    pub imm: Option<u32>,
    /// When.
    pub at: Duration,
}

/// A queue pair reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AsyncEvent {
    /// What.
    pub kind: EventKind,
    /// Which.
    pub qp: QpHandle,
    /// When.
    pub at: Duration,
}
