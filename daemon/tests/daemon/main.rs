//! The daemon, its workers and its device model, each as a process.
#![allow(clippy::disallowed_macros, reason = "tests print for their developers")]
#![allow(clippy::unwrap_used)] // a panic is how a test fails

mod model_process;
mod serve;
mod worker;
