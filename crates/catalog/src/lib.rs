//! The catalogue of tests. Each test has a procedure, which sends stimuli and records, and a judge, a pure function of
//! the record.
//!
//! A folder is a chapter of the specification; its `mod.rs` lists the chapter's tests. A file is a test or a family of
//! tests. Its documentation states the behavior of a conforming device, the reading of unclear steps, and possible
//! false alarms. "The public page" is the description of the test in the public compliance suite, under an alias such
//! as `C14_016_Get`.
//!
//! `cargo xtask new test NAME` adds a test.

mod addressing;
mod chapters;
mod cover;
mod estimate;
mod glob;
mod judging;
mod kernel;
mod kernel_reports;
mod management;
mod network;
mod parameters;
mod register;
mod select;
mod services;
mod statements;
mod transport;
mod words;

pub mod deviations;
pub mod link;

pub use chapters::{TESTS, chapter};
pub use estimate::{Extent, estimate, runs_on};
pub use judging::{JudgeError, judge, judge_trace};
pub use kernel_reports::KERNEL;
pub use parameters::{WrongParameter, expected_of, wrong_parameters};
pub use register::Register;
pub use select::{SelectError, is_exact, select, select_or_all_errors};
pub use statements::{Statement, canonical, statement, statements, typable};
pub use transport::{Rows, broken_values, failed_rows, rows};
pub use words::{has_word, mentions, nearest_word, stem};

/// The version of the catalogue, stored in every record.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
