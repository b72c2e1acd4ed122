//! The tester's side of verbs on demand: an agent on the device's host, or a device of the tester's own.
//!
//! | module | what |
//! |---|---|
//! | `address` | where an agent listens, and the certificates for it |
//! | `connect` | connecting, and saying in words why it did not work |
//! | `client` | [`AgentClient`]: a session at an agent |
//! | `local` | [`LocalVerbs`]: a session on a device of this host |
//! | `inbox` | what a session says, until somebody takes it |
//!
//! Both are [`VerbsLink`]s: commands go in under numbers, answers and events come out in order, and a descriptor
//! becomes readable when there is something to take, so that one `poll` waits for packets and completions alike.

mod address;
mod client;
mod connect;
mod inbox;
mod local;

use core::fmt;
use core::time::Duration;
use std::os::fd::AsFd;

use verbatim_proto::agent::Command;

use crate::drive::Said;

pub use address::{AgentAddress, AgentTls, Place};
pub use client::{AgentClient, NotConnected, Reached};
pub use local::LocalVerbs;

/// A session with whoever has the device open. Dropping it ends the session and destroys what it made.
pub trait VerbsLink: AsFd + fmt::Debug + Send {
    /// Sends a command; its answer carries this number.
    ///
    /// # Errors
    /// When the session has ended.
    fn send(&mut self, number: u64, command: Command) -> Result<(), Gone>;

    /// The next answer or event; none when none came in time. Completions that were there when a command was done come
    /// before its answer.
    ///
    /// The descriptor is readable whenever this would give something, and at times when it would not.
    ///
    /// # Errors
    /// When the session has ended, after all that it said was taken.
    fn recv(&mut self, timeout: Duration) -> Result<Option<Said>, Gone>;
}

/// The session has ended, and why: never the fault of the device under test as such.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Gone(pub String);
