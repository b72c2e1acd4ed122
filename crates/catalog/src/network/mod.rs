//! Chapter 8, the network layer: the global route header.

// Fields of the GRH
mod c08_link_grh;

use verbatim_tester::Test;

/// The chapter's tests, in the order of a run.
pub(crate) const TESTS: &[&Test] = &[&c08_link_grh::TEST];
