//! Tests of the client library against a scripted server.

#![allow(clippy::unwrap_used)] // a panic is how a test fails

mod errors;
mod support;
mod watch;
