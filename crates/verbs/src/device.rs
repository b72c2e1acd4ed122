//! What a session needs of an open device. Behind it is a real one ([`crate::VerbsDevice`]) or, in tests, a fake.

use verbatim_proto::agent::{Opened, QpStatus};

use crate::values::{Access, Modify, Post, Service};

/// What a device would not do.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{text}")]
pub struct Failure {
    /// The system's error number; 0 when it did not come to a call.
    pub errno: i32,
    /// What was asked for, what came of it, what to do.
    pub text: String,
}

impl Failure {
    /// A refusal of our own.
    pub fn refused(text: impl Into<String>) -> Self {
        Self {
            errno: 0,
            text: text.into(),
        }
    }
}

/// Something that a device reports without being asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// Its name in `infiniband/verbs.h`, such as "IBV_EVENT_QP_FATAL".
    pub name: String,
    /// The queue pair that it is about.
    pub qpn: Option<u32>,
}

/// The name of the report after which a device is of no use.
pub const DEVICE_FATAL: &str = "IBV_EVENT_DEVICE_FATAL";

/// A completion, as a completion queue gives it out. Meaning of the fields: `struct ibv_wc`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completed {
    /// As posted.
    pub wr_id: u64,
    /// 0 is success.
    pub status: u32,
    /// What completed; says nothing after an error.
    pub opcode: u32,
    /// Bytes that arrived.
    pub byte_len: u32,
    /// Immediate data that arrived.
    pub imm: Option<u32>,
    /// The vendor's own error number.
    pub vendor_error: u32,
}

/// Registered memory. Dropping it deregisters it.
pub trait Memory: Send {
    /// Its first address.
    fn address(&self) -> u64;
    /// Its local key.
    fn l_key(&self) -> u32;
    /// Its remote key.
    fn r_key(&self) -> u32;
    /// A copy of what stands there. The device may write at the same time.
    ///
    /// # Errors
    /// When it reaches beyond the end.
    fn read(&self, offset: usize, length: usize) -> Result<Vec<u8>, Failure>;
    /// Puts bytes there.
    ///
    /// # Errors
    /// When it reaches beyond the end.
    fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Failure>;
}

/// A queue pair with a completion queue of its own. Dropping it destroys both.
pub trait Pair: Send {
    /// The memory that its requests name.
    type Memory;

    /// Its number.
    fn qpn(&self) -> u32;
    /// Modifies it: every attribute that is given, no other.
    ///
    /// # Errors
    /// What the driver says.
    fn modify(&mut self, modify: &Modify) -> Result<(), Failure>;
    /// Its state and its PSNs.
    ///
    /// # Errors
    /// What the driver says.
    fn query(&self) -> Result<QpStatus, Failure>;
    /// Posts a request; gives when the driver was called, in nanoseconds of [`crate::clock`].
    ///
    /// # Errors
    /// What the driver says.
    fn post(&mut self, post: &Post<'_, Self::Memory>) -> Result<u64, Failure>;
    /// Takes completions out of the completion queue; gives when the driver had given them out, in nanoseconds of
    /// [`crate::clock`], or none when the queue is empty.
    ///
    /// # Errors
    /// What the driver says.
    fn poll(&mut self, into: &mut Vec<Completed>) -> Result<Option<u64>, Failure>;
}

/// An open device and its protection domain. Dropping it closes it; what was made from it must have gone before.
pub trait Device: Send + 'static {
    /// Its memory.
    type Memory: Memory + 'static;
    /// Its queue pairs.
    type Pair: Pair<Memory = Self::Memory> + 'static;

    /// What it is, asked anew.
    ///
    /// # Errors
    /// What the driver says.
    fn describe(&self) -> Result<Opened, Failure>;
    /// Allocates memory, all zeros, and registers it.
    ///
    /// # Errors
    /// What the driver says.
    fn register(&self, length: usize, access: Access) -> Result<Self::Memory, Failure>;
    /// Creates a queue pair and its completion queue.
    ///
    /// # Errors
    /// What the driver says.
    fn create_pair(&self, service: Service, send_depth: u32, receive_depth: u32) -> Result<Self::Pair, Failure>;
    /// The next report, if there is any.
    ///
    /// # Errors
    /// What the driver says.
    fn next_report(&self) -> Result<Option<Report>, Failure>;
    /// Why it is of no use any more, once it has gone. Cheap enough to be asked a few times a second.
    fn gone(&self) -> Option<String>;
}
