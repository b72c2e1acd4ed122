//! Chapter 7, the link layer: which packets a port accepts or discards, and which counters it increments.
//!
//! `native` sends packets, reads counters and judges the results. Tests of all chapters that probe single packets
//! use it.

pub(crate) mod native;

// Tests of one field or rule: CRCs, delimiter, directed routes, DLID, length, LVer, VL
mod c07_link_crcs;
mod c07_link_delimiter;
mod c07_link_directed_routes;
mod c07_link_dlid;
mod c07_link_length;
mod c07_link_version;
mod c07_link_vl;

// Precedence of two faults
mod c07_link_precedence;

// Accepted packets by port state
mod c07_link_states;

use verbatim_tester::Test;

/// The chapter's tests, in the order of a run.
pub(crate) const TESTS: &[&Test] = &[
    &c07_link_crcs::TEST,
    &c07_link_delimiter::TEST,
    &c07_link_dlid::TEST,
    &c07_link_length::TEST,
    &c07_link_precedence::TEST,
    &c07_link_states::TEST,
    &c07_link_version::TEST,
    &c07_link_vl::TEST,
    &c07_link_directed_routes::TEST,
];
