//! Labels of the commands that set up and end a connection. Judges look up the connection's attributes by these labels.

use crate::{Label, Verbs};

/// The command that opens the device.
pub const OPEN: Label<Verbs> = Label::new("open the device");
/// The command that registers memory.
pub const MEMORY: Label<Verbs> = Label::new("register memory");
/// The command that creates the queue pair.
pub const CREATE: Label<Verbs> = Label::new("create the queue pair");
/// The transition INIT to INIT.
pub const INIT_AGAIN: Label<Verbs> = Label::new("modify from INIT to INIT");
/// The transition RESET to INIT.
pub const INIT: Label<Verbs> = Label::new("modify to INIT");
/// The transition INIT to RTR.
pub const RTR: Label<Verbs> = Label::new("modify to RTR");
/// The transition RTR to RTS.
pub const RTS: Label<Verbs> = Label::new("modify to RTS");
/// The command that destroys a queue pair because the device has no resources for another queue pair.
pub const ROOM: Label<Verbs> = Label::new("destroy the oldest queue pair, to make room");

/// Labels of the commands to a requester under test.
pub mod steps {
    use super::{Label, Verbs};

    /// The command that fills the memory of the device under test.
    pub const FILL: Label<Verbs> = Label::new("fill the memory");
    /// The command that posts a request.
    pub const POST: Label<Verbs> = Label::new("post a request");
    /// The query of the queue pair's state at the end.
    pub const STATE: Label<Verbs> = Label::new("state of the queue pair at the end");
    /// The read of the device's memory at the end.
    pub const MEMORY: Label<Verbs> = Label::new("read the memory at the end");
    /// The command that destroys the queue pair.
    pub const DESTROY: Label<Verbs> = Label::new("destroy the queue pair");
}

/// Returns whether a label belongs to a restore.
#[must_use]
pub fn is_restoring(label: &str) -> bool {
    label.starts_with("restoring: ")
}
