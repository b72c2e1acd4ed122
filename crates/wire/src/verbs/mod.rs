//! What is asked of a device through verbs, and what it tells (architecture chapters 10 and 11): values, without the
//! rules of their use.

mod attributes;
mod codes;

pub use attributes::{Access, AddressVector, Gid, Operation, QpAttributes, QpState, QpStatus, Service, Work};
pub use codes::{EventKind, WcOpcode, WcStatus};
