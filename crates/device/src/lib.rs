//! The reference device: a model of a channel adapter's management agents, written from the architecture.
//!
//! The model serves to check the tests, so it implements the specification independently of them. The model performs no
//! I/O and reads no clock. The caller passes packets ([`Device::handle`]) and the time ([`Device::tick`]). The caller
//! queries the time of the next event ([`Device::poll_at`]) and takes the packets that the device sends
//! ([`Device::poll_transmit`]).
//!
//! A [`Profile`] holds the capabilities and the initial state of the device. A [`Defect`] makes the device break one
//! compliance statement.
//!
//! | module | contents | architecture |
//! |---|---|---|
//! | `smi` | directed routes | 14.2.2 |
//! | `m_key` | the M_Key check, violations, the lease | 14.2.4 |
//! | `agent` | method, attribute and modifier; error statuses | 13.4.7, 14.2.3 |
//! | `port_info`, `node`, `tables`, `vl_arbitration` | attributes | 14.2.5 |
//! | `traps` | trap 256 and its repetition | 13.4.9, 14.3.9 |
//! | `performance` | PortCounters | 16.1 |
//!
//! [`rc`] models the reliable connections of a RoCEv2 adapter. [`link`] models the link layer of a port.

mod agent;
mod choices;
mod defect;
mod defects;
mod device;
mod m_key;
mod node;
mod on_link;
mod performance;
mod port;
mod port_info;
mod profile;
mod smi;
mod tables;
mod traps;
mod vl_arbitration;

pub mod link;
pub mod rc;

pub use choices::{Choices, CounterWrite, Unassigned};
pub use defect::Defect;
pub use defects::UnknownDefect;
pub use device::{Device, Transmit};
pub use profile::Profile;
