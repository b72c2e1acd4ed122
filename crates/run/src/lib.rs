//! One run inside the calling process: open the rig, restore what an earlier run left, run the tests one after the
//! other, judge each from its record; and what is done with the bundles of earlier runs. Qualification runs the same
//! tests on the device model.
//!
//! | module | what |
//! |---|---|
//! | [`execute()`] | the run |
//! | [`resume`] | the rest of a run whose process died |
//! | [`recover_only`] | the restore of what an earlier run left |
//! | [`judge_bundle`], [`verify_bundle`], [`read_bundle`], [`export_pcapng`] | the bundle of an earlier run |
//! | [`sign_bundle`], [`PublicKey`], [`Signer`] | its signature |
//! | [`command()`] | the command line that makes a run again |
//! | [`mod@qualify`] | tests x (sound models + defects) |
//! | [`mod@coverage`] | statements x (rules + tests) |
//! | [`state`] | where journals and runs are kept |

mod command;
pub mod coverage;
mod device;
mod error;
mod execute;
mod id;
mod kept;
mod lease;
pub mod qualify;
mod recover;
mod reset;
mod shrink;
mod signature;
mod sink;
pub mod state;

pub use command::{command, quoted};
pub use device::{journal_owner, look};
pub use error::RunError;
pub use execute::{REPORT_SCHEMA, Report, Request, Resume, execute, execute_in, resume, worst};
pub use id::{RunId, now_ns};
pub use kept::{Kept, Verified, export_pcapng, judge_bundle, read_bundle, verify_bundle};
pub use lease::{Lease, boot_ns, last_token};
pub use recover::{is_left_changed, recover_only};
pub use signature::{PublicKey, SignatureError, Signer, sign_bundle};
pub use verbatim_record_proto::v1::run_event::Event;
pub use verbatim_record_proto::v1::{RunInfo, RunSpec};
