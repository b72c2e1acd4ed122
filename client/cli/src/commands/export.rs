//! `verbatim export DIR --pcapng FILE`: exports a record in another format.

use std::path::PathBuf;
use std::process::ExitCode;

use verbatim_run as run;

use crate::print;

/// Export a record.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The directory that `verbatim run --record` left
    directory: PathBuf,
    /// Write a capture for Wireshark: frames as they were, MADs as InfiniBand packets with reconstructed headers
    #[arg(long, value_name = "FILE")]
    pcapng: PathBuf,
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    run::export_pcapng(&arguments.directory, &arguments.pcapng, arguments.force)?;
    print::note(format_args!("wrote {}", arguments.pcapng.display()));
    Ok(ExitCode::SUCCESS)
}
