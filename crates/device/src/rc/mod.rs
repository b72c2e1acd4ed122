//! A RoCEv2 adapter's reliable connections, both sides of them, as the architecture describes them.
//!
//! Like the rest of the reference device it follows the specification, not any test. It performs no I/O and reads no
//! clock: the caller hands it Ethernet frames ([`Adapter::handle`]), verbs ([`Adapter::post_send`], ...) and the time,
//! asks when it wants to be woken ([`Adapter::poll_at`], [`Adapter::tick`]), and takes the frames that it sends
//! ([`Adapter::poll_transmit`]), completions and events.
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
//! | module | what | architecture |
//! |---|---|---|
//! | `validate` | which packets reach a queue pair | 9.6.1 |
//! | `request`, `rdma`, `duplicate`, `atomic` | the responder takes requests | 9.4, 9.7.4 |
//! | `respond` | the responder answers | 9.7.5 |
//! | `send_queue`, `transmit` | the requester sends | 9.7.3 |
//! | `response` | the requester hears | 9.7.6 |
//! | `retry` | time-outs, RNR NAKs, counters | 9.7.5.2.8, 9.7.6.1.3 |
//! | `timer` | retry timers of adapters as sold | |
//! | `modify`, `qp`, `verbs` | states, attributes, requests | 10.3, 11.2 |
//! | `datagram` | unreliable datagrams | 9.8.3 |
//! | `congestion` | notices of congestion | A17.9 |
//!
//! An [`AdapterProfile`] says what the adapter can do and what its implementer chose; an [`RcDefect`] makes it break one
//! statement.

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
pub use profile::{AdapterChoices, AdapterProfile};
pub use timer::RetryTimer;
pub use verbatim_wire::verbs::{
    Access, AddressVector, EventKind, Gid, Operation, QpAttributes, QpState, QpStatus, Service, WcOpcode, WcStatus,
};
pub use verbs::{Memory, MemoryHandle, QpHandle, ReceiveRequest, Refusal, SendRequest, Slice};
