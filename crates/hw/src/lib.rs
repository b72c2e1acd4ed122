//! Access to the tester's own hardware.
//!
//! Beside the crate umad, this is the only crate of Verbatim with unsafe code. It offers safe handles over vendor
//! libraries and uses the types of `verbatim_wire`. It contains no tests, records or rules of the architecture. It
//! opens every vendor library at run time, so a program with this crate also starts on a machine without these
//! libraries. If a library is missing, its module returns an error that names the remedy.
//!
//! - [`verbs`]: queue pairs, memory and completions through libibverbs.
//! - [`ether`]: raw Ethernet frames, through a network interface or a pair of unix datagram sockets. This module needs
//!   no library.
#![allow(unsafe_code)]
#![deny(unsafe_op_in_unsafe_fn)]

pub mod ether;
pub mod verbs;
mod wait;
