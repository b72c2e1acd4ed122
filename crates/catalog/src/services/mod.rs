//! Chapter 16, general services: performance management.

// Counters of a port
mod c16_link_counters;
mod c16_port_counters;

use verbatim_tester::Test;

/// The chapter's tests, in the order of a run.
pub(crate) const TESTS: &[&Test] = &[&c16_link_counters::TEST, &c16_port_counters::TEST];
