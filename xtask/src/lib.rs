//! Development tasks, as a library: `cargo xtask` is a thin command line over it, and the end-to-end tests use its
//! [`lab`] and its C programs.
//!
//! Nothing of the product depends on this crate.

pub mod c_programs;
pub mod campaign;
pub mod check;
pub mod deps;
pub mod golden;
pub mod lab;
pub mod setup;
pub mod workspace;

pub use c_programs::build_c_programs;
pub use lab::IbsimLab;
