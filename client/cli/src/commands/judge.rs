//! `verbatim judge DIR`: judges a record again, offline.

use std::path::PathBuf;
use std::process::ExitCode;

use verbatim_catalog::Register;
use verbatim_run as run;
use verbatim_text::Text;

use super::known;
use crate::{exit, print};

/// Judge a record anew.
#[derive(clap::Args)]
#[command(
    after_help = "If a record has another revision of its test than this version, the command shows the verdict of \
    the run, and marks it as not judged anew. Exit codes, by the verdicts that are shown: 0 all judged tests passed; \
    1 a FAIL; 2 usage; 3 an ERROR, or the record is damaged; 4 inconclusive, or no test judged."
)]
pub(crate) struct Arguments {
    /// The directory that `verbatim run --record` left
    directory: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    known: known::Arguments,
    /// Show every finding, including similar findings and known deviations
    #[arg(long, conflicts_with = "json")]
    all: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let deviations = arguments.known.added_to(&Register::default())?;
    let (report, drift) = run::judge_bundle(&arguments.directory)?;
    let report = report.knowing(&deviations);
    print::judged_otherwise(&report, &drift);
    if arguments.json {
        print::unless_closed(print::json(&report))?;
    } else {
        let telling = print::Telling {
            all: arguments.all,
            ..print::Telling::default()
        };
        let place = format!("; record in {}", arguments.directory.display());
        let mut text: Text = report.verdicts.iter().map(|verdict| print::line(verdict, "")).collect();
        text.extend([print::explanation(&report, &telling)]);
        text.line("");
        text.line(print::summary_with(&report, &place));
        print::text_of_run(&text)?;
    }
    Ok(ExitCode::from(exit::of_report(&report, arguments.known.known)))
}
