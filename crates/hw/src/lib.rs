//! Access to the tester's own hardware.
//!
//! Beside the crate umad, this is the only one of Verbatim with unsafe code. It offers safe handles over vendor
//! libraries, speaks in the values of `verbatim_wire`, and knows no test, no record and no rule of the architecture.
//! Every vendor library is opened at run time: a program that uses this crate starts on a machine without any of
//! them, and the backend that lacks its library says so in one sentence, with the remedy.
//!
//! - [`verbs`]: queue pairs, memory and completions through libibverbs.
//! - [`ether`]: raw Ethernet frames, through a network interface or a unix datagram pair; the kernel is all it needs.
#![allow(unsafe_code)]
#![deny(unsafe_op_in_unsafe_fn)]

pub mod ether;
pub mod verbs;
mod wait;
