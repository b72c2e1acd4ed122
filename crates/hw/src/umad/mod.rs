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
//!
//! # Under ibsim
//!
//! ibsim's preloaded library (`libumad2sim.so`) stands in for the kernel below libibumad. What it does differently,
//! and what this module does about it:
//!
//! - The descriptor is not one of the kernel's (numbers from 1024). It must never be put into an `OwnedFd`, an epoll
//!   set or a `poll` of several descriptors; it stays inside [`Port`], which only passes it back to libibumad. A
//!   process under the preload must stay below 1024 real descriptors.
//! - Opening waits for ever when no simulator answers: hence the bound. A thread that is stuck in there makes every
//!   later open of the process fail (a second attempt would end the process), see [`OpenError::StillOpening`].
//! - An unknown `SIM_HOST`, a simulator without a free slot (it has ten) and a working directory that cannot be
//!   written end the *process* with status 255, from inside the open. Only the last can be seen beforehand, and is
//!   ([`OpenError::WorkingDirectory`]). Keep the open in a process whose loss can be borne.
//! - It is not thread-safe, and one process can sit on one port only.
//! - A datagram that arrives for a class that is not registered ends the process (a null pointer is followed). So
//!   classes are registered before the first send, and closing waits shortly for answers still on their way.
//! - Time-outs are not emulated: an unroutable datagram comes back at once with status 110, a discarded one never.
//! - Its `poll` can fail for nothing (a wake-up without data); such a failure carries no error number and is retried.
//! - When the simulator ends, sends fail at once with ECONNREFUSED, which is [`PortGone`]. Waiting cannot notice:
//!   [`Port::recv`] comes back empty at its timeout and the next send tells. No signal is raised. A simulator that is
//!   *stopped* (SIGSTOP) blocks the sender inside the library once its socket is full.
//! - Keep at most 64 datagrams on their way; with a thousand, simulator and library block each other.

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
pub use port::{MAD_LENGTH, Port, Received};
