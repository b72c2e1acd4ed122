//! The daemon as a library: rigs, runs inside the calling process, qualification, the device model as a process.
//!
//! `verbatimd` and `verbatim` are thin programs over it.

pub mod embedded;
pub mod model;
pub mod qualify;
pub mod rig;
pub mod state;
pub mod worker;
