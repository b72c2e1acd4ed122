//! `verbatim judge DIR`: the same verdicts, offline, from the record alone.

use std::path::PathBuf;
use std::process::ExitCode;

use verbatim_run as run;

use crate::{exit, print};

/// Judge a record anew.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The directory that `verbatim run --record` left
    directory: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Show each finding, also those that are like others or known of such devices
    #[arg(long, conflicts_with = "json")]
    all: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let (report, drift) = run::judge_bundle(&arguments.directory)?;
    for difference in &drift {
        eprintln!("verbatim: judged otherwise than by the run: {difference}");
    }
    if arguments.json {
        print::json(&report)?;
    } else {
        let lines: String = report
            .verdicts
            .iter()
            .map(|verdict| print::line(verdict) + "\n")
            .collect();
        print::text(&format!(
            "{lines}{}\n{}\n",
            print::explanation(
                &report,
                print::Telling {
                    all: arguments.all,
                    quiet: false
                }
            ),
            print::summary_with(&report, &format!("; record in {}", arguments.directory.display()))
        ))?;
    }
    Ok(ExitCode::from(exit::of_verdicts(&report.verdicts)))
}
