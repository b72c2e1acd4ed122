//! The tests: each a procedure that stimulates and records, and a judge, a pure function of the record.
//!
//! A folder is a chapter of the specification, and its `mod.rs` the chapter's table of contents. A file is a test or a
//! family: it says what a correct device does, how unclear steps are read, and where a false alarm could come from.
//!
//! `cargo xtask new test NAME` adds one.

mod addressing;
mod chapters;
mod glob;
mod judging;
mod kernel;
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
pub use judging::{JudgeError, judge, judge_trace};
pub use parameters::{WrongParameter, expected_of, wrong_parameters};
pub use register::Register;
pub use select::{SelectError, select};
pub use statements::{Statement, canonical, statement, statements, typable};
pub use words::{has_word, mentions, nearest_word};

/// Version of the catalogue, kept in every record.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
