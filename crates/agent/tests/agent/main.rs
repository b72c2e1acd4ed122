//! The agent: with testers who speak its protocol, and as a stranger sees it.
#![allow(clippy::unwrap_used)] // a panic is how a test fails

mod link;
mod service;
