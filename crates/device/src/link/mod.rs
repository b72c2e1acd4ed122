//! The link layer of a port: what becomes of a data packet that arrives.
//!
//! Like the rest of the reference device it follows the specification, not any test, and performs no I/O and reads no
//! clock: the caller hands a [`LinkPort`] each [`Arrival`] and gets an [`Outcome`]; [`Counters`] tell what was wrong.
//!
//! The checks in the order in which the device reports them; the first that fails is counted, whichever the hardware
//! would see first:
//!
//! | check | file | who | counted in | architecture |
//! |---|---|---|---|---|
//! | the delimiter is EGP | `checks` | all | EBP: PortRcvRemotePhysicalErrors; else PortRcvErrors (physical) | 7.3 |
//! | VCRC | `checks` | all | PortRcvErrors (physical) | 7.8.2 |
//! | ICRC, but of raw packets | `icrc` | destination; others by choice | PortRcvErrors (physical) | 7.8.1 |
//! | LVer is 0 | `checks` | all | PortRcvErrors (malformed) | 7.7 |
//! | PktLen is what arrived; not too short; not over MTUCap | `length` | all | PortRcvErrors (malformed) | 7.4, 7.7 |
//! | VL is configured; VL15 carries no raw packets, and a GRH by choice | `lane` | all | PortRcvErrors (malformed) | 7.6 |
//! | the port's state lets it in | `lane` | all | - | 7.2 |
//! | raw packets are not filtered | `checks` | switch, router | PortRcvConstraintErrors | 14.2.5.6 |
//! | DLID | `address` | all | transit switch: PortRcvSwitchRelayErrors | 7.11 |
//! | whole SMPs for QP0 come on VL15, and nothing else does | `lane` | destination | - | 14.2 |
//! | GRH: IPVer, NxtHdr, PayLen | `header` | destination, router | - | 8.3, 9.6.1 |
//! | TVer is 0 | `header` | destination | - | 9.6.1 |
//! | P_Key is in the port's table, but for QP0 | `header` | destination; switch that enforces | P_KeyViolations; PortRcvConstraintErrors | 9.6.1, 10.9 |
//!
//! That the CRCs come before what they may have damaged is the architecture's; that the delimiter comes before them, and
//! LVer and the lengths behind, is likely; the order of what follows is the model's.
//!
//! A packet with a failed check is discarded. A switch or router that it only passes through may instead send it on with
//! a wrong VCRC and EBP ([`LinkChoices::corrupts_and_forwards`], [`relayed`]), if nothing but VCRC, ICRC, LVer,
//! the length and the MTU is wrong. Forwarding tables and routing lie behind this model.

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
