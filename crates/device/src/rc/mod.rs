//! The reliable connections of a RoCEv2 or InfiniBand adapter, as requester and responder, written from the architecture.
//!
//! The model implements the specification independently of the tests. The model performs no I/O and reads no clock. The
//! caller passes packets ([`Adapter::handle`], [`Adapter::handle_native`]), verbs ([`Adapter::post_send`], ...) and the time
//! ([`Adapter::tick`]), and queries the time of the next event ([`Adapter::poll_at`]). The caller takes the frames that
//! the adapter sends ([`Adapter::poll_transmit`]), completions and events.
//!
//! ```text
//!   frames -> adapter -> port (ARP, neighbour discovery)         verbs -> adapter -> memory
//!               |  ICRC, TVer, DestQP                                       |
//!               v                                                           v
//!            validate: service, P_Key, source            modify: states     qp: send_queue -> transmit -> frames
//!               | requests                                                        ^
//!               +---> request, rdma, duplicate -> respond -> frames               |
//!               | responses                                                       |
//!               +---> response -> completions,  retry: timer, RNR, counters ------+
//! ```
//!
//! | module | contents | architecture |
//! |---|---|---|
//! | `validate` | selection of the packets that reach a queue pair | 9.6.1 |
//! | `request`, `rdma`, `duplicate`, `atomic` | the responder executes requests | 9.4, 9.7.4 |
//! | `respond` | the responder sends responses | 9.7.5 |
//! | `send_queue`, `transmit` | the requester sends requests | 9.7.3 |
//! | `response` | the requester handles responses | 9.7.6 |
//! | `retry` | timeouts, RNR NAKs, retry counters | 9.7.5.2.8, 9.7.6.1.3 |
//! | `timer` | retry timers of real adapters | |
//! | `modify`, `qp`, `verbs` | states, attributes, work requests | 10.3, 11.2 |
//! | `datagram` | unreliable datagrams | 9.8.3 |
//! | `congestion` | congestion notification | A17.9 |
//!
//! An [`AdapterProfile`] holds the capabilities of the adapter and the choices of its implementer. An [`RcDefect`]
//! makes the adapter break one statement.

mod adapter;
mod atomic;
mod completion;
mod congestion;
mod datagram;
mod defect;
mod duplicate;
mod frame;
mod memory;
mod modify;
mod port;
mod profile;
mod qp;
mod rdma;
mod receive_queue;
mod request;
mod respond;
mod response;
mod retry;
mod send_queue;
mod timer;
mod transmit;
mod validate;
mod verbs;

pub use adapter::Adapter;
pub use completion::{AsyncEvent, Completion};
pub use defect::RcDefect;
pub use profile::{AdapterChoices, AdapterProfile, NativePort};
pub use timer::RetryTimer;
pub use verbatim_wire::verbs::{
    Access, AddressVector, EventKind, Gid, Operation, QpAttributes, QpState, QpStatus, Service, WcOpcode, WcStatus,
};
pub use verbs::{Memory, MemoryHandle, QpHandle, ReceiveRequest, Refusal, SendRequest, Slice};
