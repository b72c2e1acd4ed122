//! Capabilities of the DUT, as its host reported them when it opened the device.

use verbatim_tester::Stop;

pub(crate) use verbatim_oracle::rc::offers::*;

/// Returns the reason to stop a procedure that cannot run without `of`, which the DUT lacks.
pub(crate) fn nothing_left(of: &str) -> Stop {
    Stop::NotOffered(format!(
        "the DUT's device has no {of}, as its agent says, and every case of the test needs them"
    ))
}
