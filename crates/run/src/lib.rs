//! A run inside the calling process. The run opens the rig, restores the changes of an earlier run, and runs the tests
//! in sequence. It judges each test from its record. The crate also judges and exports the bundles of earlier runs.
//! Qualification runs the same tests on the device model.
//!
//! | module or function | content |
//! |---|---|
//! | [`execute()`] | the run |
//! | [`resume`] | continues a run whose process died |
//! | [`recover_only`] | restores the changes of an earlier run |
//! | [`judge_bundle`], [`verify_bundle`], [`read_bundle`], [`export_pcapng`] | the bundle of an earlier run |
//! | [`sign_bundle`], [`PublicKey`], [`Signer`] | the signature of a bundle |
//! | [`command()`] | the command line that repeats a run |
//! | [`mod@qualify`] | runs each test on sound models, and on models with defects |
//! | [`mod@coverage`] | the rules and tests of each statement |
//! | [`state`] | the directory of journals and runs |

mod command;
mod console;
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
mod stopped;

pub use command::command;
pub use console::check_consoles;
pub use device::{is_older, journal_owner, look, miss, prepare_locks};
pub use error::RunError;
pub use execute::{REPORT_SCHEMA, Report, Request, Resume, execute, execute_in, resume, worst};
pub use id::{RunId, now_ns};
pub use kept::{Rejudged, Verified, export_pcapng, export_pcapng_until, judge_bundle, read_bundle, verify_bundle};
pub use lease::{Lease, boot_ns, last_token};
pub use recover::{is_left_changed, recover_only};
pub use signature::{PublicKey, SignatureError, Signer, sign_bundle};
pub use verbatim_record_proto::v1::run_event::Event;
pub use verbatim_record_proto::v1::{RunInfo, RunSpec};
