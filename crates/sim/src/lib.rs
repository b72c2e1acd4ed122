//! Simulated time and link: the virtual rig.
//!
//! Waiting costs nothing: the event loop runs in the caller's thread, in order of (time, serial), and time
//! jumps from event to event. Nothing here reads a clock, so one seed leaves one record, byte for byte.

mod host;
mod link;
mod native;
mod rig;
mod segment;

pub use link::{Delivery, Tamper, smi_forward, smi_return};
pub use native::{Leaves, NativeLink, packet_of};
pub use rig::VirtualRig;
pub use segment::Disturbance;
