//! `verbatim` on independent devices: ibsim, Linux rxe, a native adapter under Linux, the installed service.
//!
//! Each module is one or several jobs of `cargo xtask test`, and boots its machines once.
#![allow(clippy::unwrap_used)] // a panic is how a test fails

mod ibsim;
mod kernel_places;
mod remote_lab;
mod rxe;
mod service;
mod umad_rig;
mod vib;
