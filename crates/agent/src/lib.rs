//! The program on the host of a device under test, as a library. It opens one device and executes the commands of
//! clients over `verbatim.agent.v1`. A stream is a session; when the stream ends for any reason, all objects of the
//! session are destroyed.
//!
//! | module | contents |
//! |---|---|
//! | [`server`] | the server |
//! | [`listen`] | listening addresses |
//!
//! The sessions themselves are in `verbatim-verbs`, which the tester also uses.

pub mod listen;
pub mod server;
mod service;

use std::fmt::Display;

/// Writes a message to stderr.
pub fn log(words: impl Display) {
    verbatim_text::say(format_args!("verbatim-agent: {words}"));
}
