//! Chapter 4, addressing: the LIDs and GIDs of a port.

// DLID and LMC
mod c04_dlid_lmc;

use verbatim_tester::Test;

/// The chapter's tests, in the order of a run.
pub(crate) const TESTS: &[&Test] = &[&c04_dlid_lmc::TEST];
