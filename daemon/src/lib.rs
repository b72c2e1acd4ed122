//! The daemon as a library: rigs, runs inside the calling process, qualification, the device model as a process.
//!
//! `verbatimd` and `verbatim` are thin programs over it.

pub mod api;
pub mod embedded;
pub mod model;
pub mod qualify;
pub mod rig;
pub mod sched;
pub mod serve;
pub mod state;
pub mod store;
pub mod worker;
