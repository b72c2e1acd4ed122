//! Tests of the agent: with clients that follow its protocol, and with foreign clients.
#![allow(clippy::disallowed_macros, reason = "tests print for their developers")]
#![allow(clippy::unwrap_used)] // a panic is how a test fails

mod link;
mod service;
