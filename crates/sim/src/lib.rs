//! The virtual rig: simulated time and a simulated link.
//!
//! The event loop runs in the caller's thread, in the order of time and serial number. Time jumps from event to event,
//! so a wait takes no real time. This crate reads no clock, so equal seeds give byte-identical records.

mod host;
mod link;
mod native;
mod pair;
mod rig;
mod segment;

pub use link::{Delivery, Tamper, smi_forward, smi_return};
pub use native::{Leaves, NativeLink, Received, packet_of};
pub use rig::VirtualRig;
pub use segment::Disturbance;
