//! Management datagrams through libibumad, opened at run time.
//!
//! Source: `infiniband/umad.h` of rdma-core (libibumad.so.3) and the kernel's `rdma/ib_user_mad.h`, ABI 5.
//!
//! A [`Library`] is libibumad with its functions resolved; a [`Port`] is one open port with the management classes
//! registered, owned by one thread. [`Port::send`] and [`Port::recv`] call straight into the library: there is no
//! helper thread, no queue and no allocation on that path. Opening is different: it runs on a helper thread, because
//! it can block for ever, and gives up at a bound.
//!
//! # What the caller matches
//!
//! The kernel overwrites the high 32 bits of the transaction id of what is sent (it stores the agent there), so
//! answers are matched by the low 32 bits. That is the caller's work, as is the deadline: [`Port::recv`] only knows
//! how long it may block. Two requests on their way with the same low 32 bits are refused by the kernel.
//!
//! # On RoCE
//!
//! A RoCE port has general management only, and every MAD needs a GID: [`Destination::GsiGlobal`]. Linux's own RoCEv2
//! stack loses answers between IPv4 GIDs; take IPv6 ones.

#![allow(unsafe_code)]
#![deny(unsafe_op_in_unsafe_fn)]

mod destination;
mod error;
mod ffi;
mod library;
mod open;
mod port;
#[cfg(test)]
mod tests;

pub use destination::{Destination, GlobalRoute};
pub use error::{ListError, OpenError, PortGone, SendError, Unavailable};
pub use library::{Device, DevicePort, Library};
pub use port::{MAD_LENGTH, Port, Received, awaits_answer};

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
