//! The interface of an open device that a session needs: a real device ([`crate::VerbsDevice`]) or, in tests, a fake.

use verbatim_proto::agent::Opened;
use verbatim_wire::verbs::{Access, QpAttributes, QpState, QpStatus, Service};

use crate::values::WorkRequest;

/// A refusal or failure of a device.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{text}")]
pub struct Failure {
    /// The system's error number; 0 if no system call was made.
    pub errno: i32,
    /// The requested operation, its outcome, and what to do.
    pub text: String,
}

impl Failure {
    /// Makes the failure of a command that is refused before any call of the driver.
    pub fn refused(text: impl Into<String>) -> Self {
        Self {
            errno: 0,
            text: text.into(),
        }
    }
}

/// An asynchronous event of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// Name in `infiniband/verbs.h`, such as "IBV_EVENT_QP_FATAL".
    pub name: String,
    /// The queue pair of the event, if it concerns one.
    pub qpn: Option<u32>,
}

/// Name of the event after which a device is unusable.
pub const DEVICE_FATAL: &str = "IBV_EVENT_DEVICE_FATAL";

/// A completion from a completion queue. `struct ibv_wc` defines the fields.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completed {
    /// Identifier from the posted request.
    pub wr_id: u64,
    /// Status; 0 is success.
    pub status: u32,
    /// Operation that completed; meaningless after an error.
    pub opcode: u32,
    /// Number of received bytes.
    pub byte_len: u32,
    /// Immediate data of the received message, if any.
    pub imm: Option<u32>,
    /// The vendor's error number.
    pub vendor_error: u32,
}

/// Registered memory. Dropping it deregisters it.
pub trait Memory: Send {
    /// Returns the first address.
    fn address(&self) -> u64;
    /// Returns the L_Key.
    fn l_key(&self) -> u32;
    /// Returns the R_Key.
    fn r_key(&self) -> u32;
    /// Copies bytes from the memory. The device may write at the same time.
    ///
    /// # Errors
    /// When the range exceeds the memory.
    fn read(&self, offset: usize, length: usize) -> Result<Vec<u8>, Failure>;
    /// Copies bytes into the memory.
    ///
    /// # Errors
    /// When the range exceeds the memory.
    fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Failure>;
}

/// A queue pair with a completion queue of its own. Dropping it destroys both.
pub trait Pair: Send {
    /// Type of the memory in its requests.
    type Memory;

    /// Returns the queue pair number.
    fn qpn(&self) -> u32;
    /// Modifies the state and exactly the given attributes.
    ///
    /// # Errors
    /// The driver's error.
    fn modify(&mut self, to: QpState, given: &QpAttributes) -> Result<(), Failure>;
    /// Returns the state and the PSNs.
    ///
    /// # Errors
    /// The driver's error.
    fn query(&self) -> Result<QpStatus, Failure>;
    /// Posts a request. Returns the time of the call into the driver, in nanoseconds of [`crate::clock`].
    ///
    /// # Errors
    /// The driver's error.
    fn post(&mut self, post: &WorkRequest<'_, Self::Memory>) -> Result<u64, Failure>;
    /// Moves completions from the completion queue to `into`. Returns the time when the driver had delivered them, in
    /// nanoseconds of [`crate::clock`], or `None` if the queue is empty.
    ///
    /// # Errors
    /// The driver's error.
    fn poll(&mut self, into: &mut Vec<Completed>) -> Result<Option<u64>, Failure>;
}

/// An open device and its protection domain. Dropping it closes the device; objects made from it must be dropped first.
pub trait Device: Send + 'static {
    /// Type of its memory.
    type Memory: Memory + 'static;
    /// Type of its queue pairs.
    type Pair: Pair<Memory = Self::Memory> + 'static;

    /// Queries the properties of the device.
    ///
    /// # Errors
    /// The driver's error.
    fn describe(&self) -> Result<Opened, Failure>;
    /// Allocates zeroed memory and registers it.
    ///
    /// # Errors
    /// The driver's error.
    fn register(&self, length: usize, access: Access) -> Result<Self::Memory, Failure>;
    /// Creates a queue pair and its completion queue.
    ///
    /// # Errors
    /// The driver's error.
    fn create_pair(&self, service: Service, send_depth: u32, receive_depth: u32) -> Result<Self::Pair, Failure>;
    /// Returns the next event, if there is one.
    ///
    /// # Errors
    /// The driver's error.
    fn next_report(&self) -> Result<Option<Report>, Failure>;
    /// Returns the reason why the device is unusable, or `None` if it is usable. Must be cheap enough for several calls
    /// per second.
    fn gone(&self) -> Option<String>;
}
