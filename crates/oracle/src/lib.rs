//! Checks reliable connections, ports and single packets for conformance, from a record or a capture alone.
//!
//! The checks are a pure function of packets. [`Connections`] finds the connections in a stream of packets and pairs
//! their directions. [`Connection`] stores the state of both ends that the rules need. `rules/` holds the demands of
//! the architecture, one function for each, so that each function can be compared with the architecture's text.
//!
//! **Unknown values stay open.** A capture does not state the path MTU, nor how many messages the responder completed
//! before the capture began. For each such fact, the crate stores all values that are still possible. A packet may
//! exclude some of these values. A packet that excludes all of them breaks a rule.
//!
//! **Loss is an excuse.** A packet may be lost on either side of the capture point. A finding states whether a lost
//! packet would explain the violation. If no packet can be lost, no violation is excused. After every violation,
//! the crate continues with the state that the packet shows, so that one fault makes one finding.
//!
//! **No empty pass.** Each rule counts how often it was applied, so that a rule that never applied is visible.

mod access;
mod applications;
pub mod causes;
mod connection;
mod connections;
mod freedom;
mod managed;
pub mod management;
pub mod packet_check;
mod parsed;
mod partition;
mod pmtu;
pub mod rc;
mod record;
mod registry;
mod request;
mod responses;
mod rule;
mod rules;
mod verbs;
mod window;
mod words;

pub use applications::applications;
pub use connection::{Connection, Count, KEPT, Loss};
pub use connections::{Address, Connections, End, Ended, Unclaimed};
pub use managed::{Managed, ServiceId};
pub use parsed::Event;
pub use registry::{Layer, Rule};
pub use rule::{Excuse, Finding};
pub use rules::every as rules;

pub use freedom::measured;
pub use record::{first_refused, judge};
pub use verbs::OWN_VERBS;
pub use verbs::habit::{Habit, Habits};
pub use verbs::pace::in_record as habits;

#[cfg(test)]
mod tests;
