//! Completions and asynchronous events.

use core::time::Duration;

use verbatim_wire::verbs::{EventKind, Operation, WcOpcode, WcStatus};

use super::verbs::QpHandle;

/// Returns the completion opcode of an operation.
pub(crate) fn opcode(of: Operation) -> WcOpcode {
    match of {
        Operation::Send | Operation::SendImm | Operation::SendInvalidate => WcOpcode::SEND,
        Operation::Write | Operation::WriteImm => WcOpcode::RDMA_WRITE,
        Operation::Read => WcOpcode::RDMA_READ,
        Operation::CompareSwap => WcOpcode::COMP_SWAP,
        Operation::FetchAdd => WcOpcode::FETCH_ADD,
    }
}

/// A completion of a work request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The queue pair.
    pub qp: QpHandle,
    /// The wr_id of the request.
    pub wr_id: u64,
    /// Status of the request.
    pub status: WcStatus,
    /// Operation of the request; undefined after an error.
    pub opcode: WcOpcode,
    /// Number of received bytes of a receive, READ or atomic; 0 for other requests. UD: the number includes the 40
    /// bytes of the network header.
    pub byte_len: u32,
    /// Received immediate data.
    pub imm: Option<u32>,
    /// Time of the completion.
    pub at: Duration,
}

/// An asynchronous event of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AsyncEvent {
    /// Kind of the event.
    pub kind: EventKind,
    /// The queue pair.
    pub qp: QpHandle,
    /// Time of the event.
    pub at: Duration,
}
