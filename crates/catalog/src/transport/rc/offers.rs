//! Capabilities of the DUT, as its host reported them when it was opened.

use verbatim_tester::Stop;

pub(crate) use verbatim_oracle::rc::offers::*;

/// Why a procedure ends before anything is sent: without what the DUT lacks, nothing is left of it.
pub(crate) fn nothing_left(of: &str) -> Stop {
    Stop::NotOffered(format!(
        "the DUT's device has no {of}, as its agent says, and the test has nothing without"
    ))
}
