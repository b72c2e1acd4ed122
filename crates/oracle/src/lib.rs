//! The rules: checks reliable connections, ports and single packets for conformance, from a record or a capture alone.
//!
//! A pure function of packets. [`Connections`] finds the connections in a stream of packets and pairs their directions;
//! [`Connection`] keeps what both ends have sent as far as a rule may ask for it. `rules/` is what the architecture
//! demands, a function each: to check one against the text, read that function alone.
//!
//! **What is not known is left open.** A capture does not say which path MTU was set, what was sent before it began, or
//! what the responder had counted by then. Each of these is kept as the set of values that it may still have (sizes,
//! an interval), every packet narrows the set, and a rule is broken when nothing is left of it.
//!
//! **Loss has a price.** A packet may be lost, on either side of the place where it was seen. What breaks a rule unless
//! that happened is told apart from what nothing explains; where nothing can be lost, nothing is excused. After either,
//! the state is what the packet says, so that one fault is one finding.
//!
//! **No empty pass.** Each rule counts how often it was asked.

mod access;
mod asked;
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

pub use asked::asked;
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
