//! The device model of another process: the process itself, and a rig's port to it.

mod bind;
pub mod datagram;
mod link;
pub(crate) mod port;
mod process;

pub use process::{Model, ModelError};
