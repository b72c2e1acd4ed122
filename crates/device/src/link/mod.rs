//! The link layer of a port: its checks of a received data packet, and the outcome.
//!
//! The model implements the specification independently of the tests. The model performs no I/O and reads no clock. The
//! caller passes each [`Arrival`] to a [`LinkPort`] and gets an [`Outcome`]. [`Counters`] count the errors.
//!
//! The table lists the checks in order of precedence. The model counts only the first failed check of a packet. The
//! counters `physical` and `malformed` mean PortRcvErrors and the matching counter of PortRcvErrorDetails.
//!
//! | check | file | at | counter | architecture |
//! |---|---|---|---|---|
//! | the delimiter is EGP | `checks` | all | EBP: PortRcvRemotePhysicalErrors; else physical | 7.3 |
//! | VCRC | `checks` | all | physical | 7.8.2 |
//! | ICRC, except of raw packets | `icrc` | destination; others by choice | physical | 7.8.1 |
//! | LVer is 0 | `checks` | all | malformed | 7.7 |
//! | PktLen equals the received length; not too short; not over MTUCap | `length` | all | malformed | 7.4, 7.7 |
//! | VL is configured; VL15 carries no raw packets, and a GRH by choice | `lane` | all | malformed | 7.6 |
//! | the port's state allows the packet | `lane` | all | - | 7.2 |
//! | raw packets are not filtered | `checks` | switch, router | PortRcvConstraintErrors | 14.2.5.6 |
//! | DLID | `address` | all | transit switch: PortRcvSwitchRelayErrors | 7.11 |
//! | whole SMPs for QP0 arrive on VL15, and no other packets do | `lane` | destination | - | 14.2 |
//! | GRH: IPVer, NxtHdr, PayLen | `header` | destination, router | - | 8.3, 9.6.1 |
//! | TVer is 0 | `header` | destination | - | 9.6.1 |
//! | P_Key is in the port's table, except for QP0 | `header` | destination | P_KeyViolations | 9.6.1, 10.9 |
//! | P_Key in transit, except on VL15 | `header` | switch that enforces | PortRcvConstraintErrors | 9.6.1, 10.9 |
//!
//! The architecture requires that a port checks the CRCs before the fields that they protect. The architecture probably
//! intends the check of the delimiter before the CRCs, and the checks of LVer and the lengths after the CRCs. The order
//! of the later checks is a choice of this model.
//!
//! The port discards a packet with a failed check. A switch or router in transit may instead forward the packet
//! with a wrong VCRC and EBP ([`LinkChoices::corrupts_and_forwards`], [`relayed`]). The switch or router may do so
//! only if every failed check concerns the VCRC, the ICRC, LVer, a length or the MTU. The model contains no
//! forwarding tables and no routing.

mod address;
mod arrival;
mod checks;
mod counters;
mod defect;
mod header;
mod icrc;
mod lane;
mod length;
mod port;
mod profile;

pub use arrival::{Arrival, Outcome, relayed};
pub use counters::Counters;
pub use defect::LinkDefect;
pub use port::LinkPort;
pub use profile::{LinkChoices, LinkProfile, PortKind};
pub use verbatim_wire::Delimiter;
