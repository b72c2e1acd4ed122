//! The daemon, its workers and its device model, each as a process.
#![allow(clippy::unwrap_used)] // a panic is how a test fails

mod model_process;
mod serve;
mod worker;
