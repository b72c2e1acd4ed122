//! The daemon as a library: the API, its scheduler, its store, and the worker process of each rig.

pub mod access;
pub mod api;
pub mod config;
mod framing;
mod log;
pub mod metrics;
pub mod sched;
pub mod serve;
mod spans;
pub mod store;
mod turns;
pub mod worker;
