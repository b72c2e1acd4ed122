//! Options `--deviations` and `--known`: known deviations of devices, and whether they count as failures.

use std::path::PathBuf;

use verbatim_catalog::Register;

use crate::exit::Usage;

/// Known deviations.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A file of known deviations of the device, in addition to the built-in files and the files of the rig file; may
    /// be given several times
    #[arg(long, value_name = "FILE")]
    pub(crate) deviations: Vec<PathBuf>,
    /// Do not count known deviations as failures in the exit code, in JUnit and in TAP; the verdicts stay the same
    #[arg(long)]
    pub(crate) known: bool,
}

impl Arguments {
    /// Adds the files of deviations to a register.
    pub(crate) fn added_to(&self, known: &Register) -> Result<Register, Usage> {
        known.with(&self.deviations).map_err(|error| Usage(error.to_string()))
    }
}
