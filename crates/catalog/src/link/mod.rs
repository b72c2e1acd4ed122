//! Chapter 7, the link layer: which packets a port takes, which it discards, and what it counts then.
//!
//! `native` sends packets, reads counters and judges by it, for the tests of every chapter that look at single packets.

pub(crate) mod native;

// One field or rule each: CRCs, delimiter, directed routes, DLID, length, LVer, VL
mod c07_link_crcs;
mod c07_link_delimiter;
mod c07_link_directed_routes;
mod c07_link_dlid;
mod c07_link_length;
mod c07_link_version;
mod c07_link_vl;

// Which of two faults counts
mod c07_link_precedence;

// What each port state lets in
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
