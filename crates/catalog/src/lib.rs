//! The tests: each a procedure that stimulates and records, and a judge, a pure function of the record.
//!
//! To add one: a file under `tests/`, one line in [`TESTS`], a defect of the device model that it catches.

mod adapter;
mod judging;
mod keys;
mod native;
mod rc;
mod select;
mod statements;
mod tests;

pub mod link;

pub use judging::{JudgeError, judge};
pub use select::{SelectError, select};
pub use statements::{Statement, canonical, statement, statements};
pub use tests::TESTS;

/// Version of the catalogue, kept in every record.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
