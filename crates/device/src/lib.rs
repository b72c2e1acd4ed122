//! The reference device: the management agents of a channel adapter, as the architecture describes them.
//!
//! It follows the specification, not any test: testers are tested with it. It performs no I/O and reads no clock:
//! the caller hands it packets ([`Device::handle`]) and the time, asks when it wants to be woken
//! ([`Device::poll_at`], [`Device::tick`]) and takes what it sends ([`Device::poll_transmit`]).
//!
//! A [`Profile`] says what the device can do and in which state it is found; a [`Defect`] makes it break one
//! compliance statement.
//!
//! | module | what | architecture |
//! |---|---|---|
//! | `smi` | directed routes | 14.2.2 |
//! | `m_key` | the M_Key check, violations, the lease | 14.2.4 |
//! | `agent` | method, attribute and modifier; error statuses | 13.4.7, 14.2.3 |
//! | `port_info`, `node`, `tables`, `vl_arbitration` | attributes | 14.2.5 |
//! | `traps` | trap 256 and its repetition | 13.4.9, 14.3.9 |
//! | `performance` | PortCounters | 16.1 |
//!
//! [`rc`] is its other half: the reliable connections of a RoCEv2 adapter. [`link`] is the link layer of a port.

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
