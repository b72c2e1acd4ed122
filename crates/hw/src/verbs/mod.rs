//! Queue pairs and related objects through libibverbs, which is opened at run time.
//!
//! Source: `infiniband/verbs.h` of rdma-core (libibverbs.so.1) and its manual pages.
//!
//! A [`Library`] is libibverbs with its functions resolved. It opens a device as a [`Context`]. The context
//! creates [`ProtectionDomain`]s and [`CompletionQueue`]s. A protection domain creates [`MemoryRegion`]s,
//! [`AddressHandle`]s and [`QueuePair`]s. Each handle keeps its parents alive. The handles can therefore be
//! dropped in any order, and children are still destroyed before their parents. Arguments and results are values
//! of `verbatim_wire::verbs`.
//!
//! ```no_run
//! use verbatim_hw::verbs::{Library, SendRequest};
//! use verbatim_wire::verbs::{Access, Operation, QpAttributes, QpState, Service, Work};
//! use verbatim_wire::RKey;
//!
//! let context = Library::open()?.open_device("rxe0")?;
//! let pd = context.create_protection_domain()?;
//! let cq = context.create_completion_queue(16)?;
//! let qp = pd.create_queue_pair(Service::Rc, 1, &cq, (8, 8))?;
//! let to_init = QpAttributes {
//!     pkey_index: Some(0),
//!     port: Some(1),
//!     access: Some(Access::ALL),
//!     ..QpAttributes::default()
//! };
//! qp.modify(QpState::Init, &to_init)?;
//! // ... to RTR and RTS, then:
//! let region = pd.register(4096, Access::LOCAL)?;
//! qp.post_send(SendRequest {
//!     wr_id: 1,
//!     work: Work {
//!         operation: Operation::Send,
//!         remote_address: 0,
//!         r_key: RKey(0),
//!         compare: 0,
//!         swap_add: 0,
//!         imm: 0,
//!     },
//!     data: Some(region.segment(0, 64)),
//!     signaled: true,
//!     solicited: false,
//!     fence: false,
//!     destination: None,
//! })?;
//! let mut completions = Vec::new();
//! cq.poll(&mut completions)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features for a tester
//!
//! - [`QueuePair::modify`] sets exactly the given attributes. It passes even invalid values on, because the driver and
//!   the judges check them.
//! - Remote addresses and keys of a request are passed on unchanged.
//! - A misbehaving remote side can write into registered memory at any time, so [`MemoryRegion`] copies and never lends
//!   a slice.
//! - A value that a device writes, such as the status of a completion, is a number with a name. An unknown value
//!   therefore stays visible.
//!
//! # Threads
//!
//! All handles can be shared between threads. Calls go straight into the library; there is no helper thread.
//! Polling, posting and reading events do not wait.
//!
//! Destroying a queue pair or a completion queue waits for the acknowledgement of its events.
//! [`Context::next_event`] acknowledges each event before it returns, so this wait cannot block.

mod attributes;
mod c;
mod completion;
mod context;
mod error;
mod ffi;
#[allow(
    clashing_extern_declarations,
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
#[cfg(any(not(feature = "rdma-sys"), test))]
mod generated;
mod library;
mod memory;
mod modify;
mod queue_pair;
#[cfg(test)]
mod tests;
mod types;
mod work;

pub use attributes::{AsyncEvent, DeviceAttributes, GidEntry, PortAttributes};
pub use completion::{Completion, CompletionQueue, Polled};
pub use context::Context;
pub use error::VerbsError;
pub use library::Library;
pub use memory::{AddressHandle, MemoryRegion, ProtectionDomain};
pub use queue_pair::QueuePair;
pub use types::GidType;
pub use work::{Destination, ReceiveRequest, Segment, SendRequest};
