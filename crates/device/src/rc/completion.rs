//! What an adapter tells its host without being asked: completions and asynchronous events.

use core::fmt;
use core::time::Duration;

use super::verbs::{Operation, QpHandle};

macro_rules! statuses {
    ($( $code:literal $name:ident $ibv:literal $about:literal )*) => {
        /// What a request came to (architecture 11.6.2); the names and codes are those of `enum ibv_wc_status`.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum CompletionStatus {
            $( #[doc = concat!("`", $ibv, "`: ", $about)] $name, )*
        }

        impl CompletionStatus {
            /// All that an adapter of RC and UD gives.
            pub const ALL: &'static [Self] = &[ $( Self::$name, )* ];

            /// Its number in `enum ibv_wc_status`.
            #[must_use]
            pub fn code(self) -> u32 {
                match self { $( Self::$name => $code, )* }
            }

            /// Its name in `enum ibv_wc_status`.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $( Self::$name => $ibv, )* }
            }
        }
    };
}

statuses! {
    0 Success "IBV_WC_SUCCESS" "it is done."
    1 LocalLength "IBV_WC_LOC_LEN_ERR" "what arrived has another length than what was posted."
    2 LocalQpOperation "IBV_WC_LOC_QP_OP_ERR" "the queue pair cannot do it."
    4 LocalProtection "IBV_WC_LOC_PROT_ERR" "the local memory does not exist, or may not be written."
    5 Flushed "IBV_WC_WR_FLUSH_ERR" "the queue pair went into the error state before."
    7 BadResponse "IBV_WC_BAD_RESP_ERR" "the other side answered with something else than was asked for."
    9 RemoteInvalidRequest "IBV_WC_REM_INV_REQ_ERR" "the other side refused the request."
    10 RemoteAccess "IBV_WC_REM_ACCESS_ERR" "the other side's memory may not be used so."
    11 RemoteOperation "IBV_WC_REM_OP_ERR" "the other side could not finish."
    12 RetryExceeded "IBV_WC_RETRY_EXC_ERR" "no answer, however often it was asked."
    13 RnrRetryExceeded "IBV_WC_RNR_RETRY_EXC_ERR" "the other side was not ready, however often it was asked."
}

impl fmt::Display for CompletionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What completed; the codes are those of `enum ibv_wc_opcode`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CompletionOpcode {
    /// A SEND.
    Send,
    /// An RDMA WRITE.
    Write,
    /// An RDMA READ.
    Read,
    /// A CmpSwap.
    CompareSwap,
    /// A FetchAdd.
    FetchAdd,
    /// A receive, by a SEND.
    Receive,
    /// A receive, by an RDMA WRITE with Immediate.
    ReceiveWriteImm,
}

impl CompletionOpcode {
    /// Its number in `enum ibv_wc_opcode`.
    #[must_use]
    pub fn code(self) -> u32 {
        match self {
            Self::Send => 0,
            Self::Write => 1,
            Self::Read => 2,
            Self::CompareSwap => 3,
            Self::FetchAdd => 4,
            Self::Receive => 128,
            Self::ReceiveWriteImm => 129,
        }
    }
}

impl From<Operation> for CompletionOpcode {
    fn from(operation: Operation) -> Self {
        match operation {
            Operation::Send | Operation::SendImm | Operation::SendInvalidate => Self::Send,
            Operation::Write | Operation::WriteImm => Self::Write,
            Operation::Read => Self::Read,
            Operation::CompareSwap => Self::CompareSwap,
            Operation::FetchAdd => Self::FetchAdd,
        }
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
    pub status: CompletionStatus,
    /// What completed; says nothing after an error.
    pub opcode: CompletionOpcode,
    /// Bytes that arrived: of a receive, a READ or an atomic. UD: with the 40 bytes of the network header.
    pub byte_len: u32,
    /// Immediate data that arrived.
    pub imm: Option<u32>,
    /// When.
    pub at: Duration,
}

/// What an asynchronous event is about (architecture 11.6.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AsyncEventKind {
    /// The first packet of the other side arrived while the queue pair was not ready to send.
    CommunicationEstablished,
    /// The send queue is drained.
    SendQueueDrained,
    /// The responder refused a request for its form.
    RequestError,
    /// The responder refused a request for what it wanted to touch.
    AccessError,
    /// The responder could not finish.
    QpFatal,
}

impl AsyncEventKind {
    /// Its name in `enum ibv_event_type`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CommunicationEstablished => "IBV_EVENT_COMM_EST",
            Self::SendQueueDrained => "IBV_EVENT_SQ_DRAINED",
            Self::RequestError => "IBV_EVENT_QP_REQ_ERR",
            Self::AccessError => "IBV_EVENT_QP_ACCESS_ERR",
            Self::QpFatal => "IBV_EVENT_QP_FATAL",
        }
    }
}

/// A queue pair reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AsyncEvent {
    /// What.
    pub kind: AsyncEventKind,
    /// Which.
    pub qp: QpHandle,
    /// When.
    pub at: Duration,
}
