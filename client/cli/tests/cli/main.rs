//! Tests of `verbatim` as a process.
#![allow(clippy::unwrap_used)] // a panic is how a test fails

mod pki;
mod with_a_daemon;
