//! The device model as a separate process, and the rig's port to it.

pub mod datagram;
mod link;
pub(crate) mod port;
mod process;

pub use process::{Model, ModelError};
