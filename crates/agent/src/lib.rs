//! The program on the host of a device under test, as a library: it opens one device and does what clients ask over
//! `verbatim.agent.v1`. A stream is a session; when it ends, for whatever reason, all that it made is destroyed.
//!
//! | module | what |
//! |---|---|
//! | [`server`] | the service |
//! | [`listen`] | where it listens |
//!
//! The sessions themselves are in `verbatim-verbs`, which the tester uses too.

pub mod listen;
pub mod server;
mod service;

use std::io::Write;

/// A line on stderr. Who reads it may be gone.
fn log(line: &str) {
    let _ = writeln!(std::io::stderr(), "verbatim-agent: {line}");
}
