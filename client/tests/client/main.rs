//! The library against a server that says what a test tells it to.

#![allow(clippy::unwrap_used)] // a panic is how a test fails

mod errors;
mod support;
mod watch;
