//! The lab: devices under test that other people wrote, without hardware, brought up for one command or one test.
//!
//! [`IbsimLab`] is a subnet management agent behind the real libibumad. It cleans up when it is dropped, and the
//! simulator ends with this process, however that ends.

mod command;
mod ibsim;

pub use command::{build_binaries, run_in_ibsim};
pub use ibsim::{IbsimLab, LabError, TWO_ADAPTERS};
