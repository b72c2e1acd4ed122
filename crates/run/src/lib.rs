//! One run inside the calling process: open the rig, restore what an earlier run left, run the tests one after the
//! other, judge each from its record; and what is done with the bundles of earlier runs. Qualification runs the same
//! tests on the device model.
//!
//! | module | what |
//! |---|---|
//! | [`execute()`] | the run |
//! | [`recover_only`] | the restore of what an earlier run left |
//! | [`judge_bundle`], [`export_pcapng`] | the bundle of an earlier run |
//! | [`mod@qualify`] | tests x (sound models + defects) |
//! | [`state`] | where journals and runs are kept |

mod error;
mod execute;
mod kept;
pub mod qualify;
mod sink;
pub mod state;

pub use error::RunError;
pub use execute::{Event, REPORT_SCHEMA, Report, Request, RunInfo, execute, execute_in, is_left_changed, recover_only};
pub use kept::{export_pcapng, judge_bundle};
