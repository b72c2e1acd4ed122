//! Queue pairs and what belongs to them through libibverbs, opened at run time.
//!
//! Source: `infiniband/verbs.h` of rdma-core (libibverbs.so.1) and its manual pages.
//!
//! A [`Library`] is libibverbs with its functions resolved. From it comes a [`Context`], an open device; from that a
//! [`ProtectionDomain`], [`CompletionChannel`]s and [`CompletionQueue`]s; and from the domain [`MemoryRegion`]s,
//! [`AddressHandle`]s and [`QueuePair`]s. Each handle owns what it was made from, so they can be dropped in any order:
//! the library is told in the right one.
//!
//! ```no_run
//! use std::time::Duration;
//! use verbatim_hw::verbs::{AccessFlags, Capacity, Library, QpType, QueuePairSetup, SendOperation, SendRequest};
//!
//! let context = Library::open()?.open_device("rxe0")?;
//! let pd = context.create_protection_domain()?;
//! let channel = context.create_completion_channel()?;
//! let cq = context.create_completion_queue(16, Some(&channel))?;
//! let qp = pd.create_queue_pair(&QueuePairSetup {
//!     kind: QpType::RC,
//!     send_cq: cq.clone(),
//!     receive_cq: cq.clone(),
//!     capacity: Capacity::default(),
//!     signal_all: false,
//! })?;
//! // ... `qp.modify` to INIT, RTR and RTS, then:
//! let region = pd.register(4096, AccessFlags::LOCAL_WRITE)?;
//! cq.request_notify(false)?;
//! qp.post_send(SendRequest::new(1, SendOperation::Send).with_data([region.segment(0, 64)]))?;
//! channel.wait(Duration::from_secs(1))?;
//! let mut completions = Vec::new();
//! cq.poll(&mut completions)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What a tester needs and an application does not
//!
//! - [`Modify`] has each attribute by itself and sets nothing else. Impossible values go out too. A refusal says which
//!   attributes the transition lacks, or has too many ([`Diagnosis`]).
//! - Remote addresses and keys of a request go out as they are.
//! - A remote side that misbehaves can write into registered memory at any time, so [`MemoryRegion`] copies and never
//!   lends a slice.
//! - What a device writes ([`WcStatus`], [`EventKind`], ...) is a number with a name, so an unknown value is shown.
//!
//! # Threads
//!
//! All handles can be shared between threads. Calls go straight into the library; there is no helper thread.
//! [`Context::next_event`] and [`CompletionChannel::wait`] wait with a bound, [`CompletionQueue::poll`] never waits.
//!
//! Destroying a queue pair or a completion queue waits for the acknowledgement of its events; both waits acknowledge
//! before they return, so nothing can hang.

mod attributes;
mod completion;
mod context;
mod error;
mod ffi;
#[allow(
    clippy::all,
    dead_code,
    missing_debug_implementations,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unnameable_types,
    unreachable_pub
)]
mod generated;
mod library;
mod memory;
mod modify;
mod queue_pair;
#[cfg(test)]
mod tests;
mod transitions;
mod types;
mod work;

pub use attributes::{AsyncEvent, DeviceAttributes, EventSubject, GidEntry, PortAttributes};
pub use completion::{Completion, CompletionChannel, CompletionQueue, CqId, Polled};
pub use context::Context;
pub use error::VerbsError;
pub use library::{Device, Library};
pub use memory::{AddressHandle, MemoryRegion, ProtectionDomain};
pub use modify::{AddressVector, AlternatePath, Capacity, Diagnosis, GlobalRoute, Modify, QpAttributes};
pub use queue_pair::{QueuePair, QueuePairSetup};
pub use types::{
    AccessFlags, AtomicCapability, EventKind, GidType, LinkLayer, MigrationState, Mtu, PortState, QpState, QpType,
    WcOpcode, WcStatus,
};
pub use work::{Destination, ReceiveRequest, Segment, SendOperation, SendRequest};
