//! Chapter 4, addressing: which LIDs and GIDs are a port's.

// DLID and LMC
mod c04_dlid_lmc;

use verbatim_tester::Test;

/// The chapter's tests, in the order of a run.
pub(crate) const TESTS: &[&Test] = &[&c04_dlid_lmc::TEST];
