//! Management datagrams through libibumad, which is opened at run time.
//!
//! Source: `infiniband/umad.h` of rdma-core (libibumad.so.3) and the kernel's `rdma/ib_user_mad.h`, ABI 5.
//!
//! A [`Library`] is libibumad with its functions resolved. A [`Port`] is an open port with registered management
//! classes, owned by one thread. [`Port::send`] and [`Port::recv`] call straight into the library, without a helper
//! thread, a queue or an allocation. Opening runs on a helper thread, because it can block forever, and gives up after
//! a time limit.
//!
//! # Matching responses
//!
//! The kernel stores the agent in the high 32 bits of a sent MAD's transaction ID. The caller must therefore match
//! responses by the low 32 bits. The caller must also check the deadline of each response: [`Port::recv`] only limits
//! how long the call blocks. The kernel refuses a request whose low 32 bits equal those of an outstanding request.
//!
//! # RoCE
//!
//! A RoCE port has general management only, and every MAD needs a GID: [`Destination::GsiGlobal`]. Linux's own RoCEv2
//! stack loses responses between IPv4 GIDs; use IPv6 GIDs.

#![allow(unsafe_code)]
#![deny(unsafe_op_in_unsafe_fn)]

mod destination;
mod error;
mod ffi;
mod library;
mod name;
mod open;
mod port;
#[cfg(test)]
mod tests;

pub use destination::{Destination, GlobalRoute};
pub use error::{ListError, OpenError, PortGone, SendError, Unavailable};
pub use library::{Device, DevicePort, Library};
pub use name::take_name;
pub use port::{MAD_LENGTH, Port, Received, awaits_answer};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
