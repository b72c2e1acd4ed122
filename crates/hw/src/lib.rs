//! Access to the tester's own hardware.
//!
//! Beside the crate umad, this is the only crate of Verbatim with unsafe code. It offers safe handles over vendor
//! libraries and uses the values of `verbatim_wire`. It knows no test, no record and no rule of the architecture. It
//! opens every vendor library at run time, so a program with this crate starts on a machine without these libraries. A
//! backend without its library then returns an error that names the remedy.
//!
//! - [`verbs`]: queue pairs, memory and completions through libibverbs.
//! - [`ether`]: raw Ethernet frames, through a network interface or a unix datagram pair; it needs only the kernel.
#![allow(unsafe_code)]
#![deny(unsafe_op_in_unsafe_fn)]

pub mod ether;
pub mod verbs;
mod wait;
