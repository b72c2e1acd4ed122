//! The tester's side of verbs on demand: an agent on the device's host, or a device of the tester's own.
//!
//! | module | contents |
//! |---|---|
//! | `address` | address of an agent, and the certificates for it |
//! | `bounds` | bounds of an agent's texts and lists |
//! | `connect` | connecting, and describing why it failed |
//! | `client` | [`AgentClient`]: a session at an agent |
//! | `local` | [`LocalVerbs`]: a session on a device of this host |
//! | `inbox` | the queue of a session's messages to its user |
//!
//! Both sessions are [`VerbsLink`]s: commands with numbers go in, and replies and events come out in order. A
//! descriptor becomes readable when a message is available, so one `poll` can wait for packets and completions alike.

mod address;
mod bounds;
mod client;
mod connect;
mod inbox;
mod local;

use core::fmt;
use core::time::Duration;
use std::os::fd::AsFd;

use verbatim_proto::agent::Command;

use crate::drive::AgentMessage;

pub use address::{AgentAddress, AgentTls, Place};
pub use client::{AgentClient, NotConnected, Reached};
pub use local::LocalVerbs;

/// A session with the process that has the device open. Dropping it ends the session and destroys its objects.
pub trait VerbsLink: AsFd + fmt::Debug + Send {
    /// Sends a command; its reply carries this number.
    ///
    /// # Errors
    /// When the session has ended.
    fn send(&mut self, number: u64, command: Command) -> Result<(), Gone>;

    /// Returns the next reply or event, or `None` if no message arrives in time. Completions that existed when a
    /// command was executed come before its reply.
    ///
    /// The descriptor is readable whenever `recv` would return a message. It may also be readable when there is no
    /// message.
    ///
    /// # Errors
    /// When the session has ended and all its messages were taken.
    fn recv(&mut self, timeout: Duration) -> Result<Option<AgentMessage>, Gone>;
}

/// The end of a session and its reason. The end of a session alone is not a fault of the device under test.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Gone(pub String);
