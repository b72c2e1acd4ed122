//! Labels of the steps that make a connection, and of those at its end; judges read from them what was made.

use crate::{Label, Verbs};

/// Opens the device.
pub const OPEN: Label<Verbs> = Label::new("open the device");
/// Registers memory.
pub const MEMORY: Label<Verbs> = Label::new("register memory");
/// Creates the queue pair.
pub const CREATE: Label<Verbs> = Label::new("create the queue pair");
/// INIT to INIT.
pub const INIT_AGAIN: Label<Verbs> = Label::new("modify from INIT to INIT");
/// RESET to INIT.
pub const INIT: Label<Verbs> = Label::new("modify to INIT");
/// INIT to RTR.
pub const RTR: Label<Verbs> = Label::new("modify to RTR");
/// RTR to RTS.
pub const RTS: Label<Verbs> = Label::new("modify to RTS");
/// Destroys a queue pair where the device has no room for another one.
pub const ROOM: Label<Verbs> = Label::new("destroy the oldest queue pair, to make room");

/// Steps of a requester under test.
pub mod steps {
    use super::{Label, Verbs};

    /// Fills the memory of the DUT.
    pub const FILL: Label<Verbs> = Label::new("fill the memory");
    /// Posts a request.
    pub const POST: Label<Verbs> = Label::new("post a request");
    /// Asks for the state of the queue pair, at the end.
    pub const STATE: Label<Verbs> = Label::new("state of the queue pair at the end");
    /// Reads the memory of the DUT, at the end.
    pub const MEMORY: Label<Verbs> = Label::new("read the memory at the end");
    /// Destroys the queue pair.
    pub const DESTROY: Label<Verbs> = Label::new("destroy the queue pair");
}

/// Whether a label is one of a restore.
#[must_use]
pub fn is_restoring(label: &str) -> bool {
    label.starts_with("restoring: ")
}
