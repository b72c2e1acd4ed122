//! Values of the verbs interface (architecture chapters 10 and 11): attributes, work requests, completion codes. The
//! rules of their use are not part of this crate.

mod attributes;
mod codes;

pub use attributes::{Access, AddressVector, Gid, Operation, QpAttributes, QpState, QpStatus, Service, Work};
pub use codes::{EventKind, WcOpcode, WcStatus};
