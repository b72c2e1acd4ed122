//! `verbatim explain`: shows a finding with the packets that it is based on.

use std::process::ExitCode;

use verbatim_catalog::Register;
use verbatim_report::{Digest, Reported};
use verbatim_text::Text;

use crate::commands::report::Source;
use crate::exit::Usage;
use crate::print;
use crate::server::Place;

/// Explain a finding: show the statement, and each packet field by field beside the expected values.
#[derive(clap::Args)]
#[command(
    after_help = "Findings are checks that failed or could not be decided; they are numbered from 1 within a test. \
    The verdicts are judged anew from the record. For a test without findings, the command shows the verdict, the \
    passed checks and the last step of the test. Exit codes: 0 a finding or verdict is explained, or the run has no \
    findings; 2 no finding has this name; 3 the record cannot be read or judged."
)]
pub(crate) struct Arguments {
    /// The directory that `verbatim run --record` left; or a run of the daemon: runs/ID, ID, or latest
    run: String,
    /// The findings: TEST, TEST#NUMBER or a statement; by default all
    finding: Option<String>,
}

pub(crate) fn run(arguments: &Arguments, place: impl FnOnce() -> anyhow::Result<Place>) -> anyhow::Result<ExitCode> {
    let bundle = Source::find(&arguments.run, place)?;
    let kept = verbatim_run::read_bundle(bundle.directory(), Digest::of)?;
    print::judged_otherwise(&kept.report, &kept.drift);
    let reported = Reported {
        run: &kept.report.run,
        verdicts: &kept.report.verdicts,
        records: &kept.records,
        before: &[],
        not_judged_anew: &kept.report.not_judged_anew,
        deviations: &Register::default(),
        tolerates_known: false,
        seal: &kept.seal,
    };
    let wanted = arguments.finding.as_deref().map(Wanted::of).transpose()?;
    let text = match &wanted {
        None => verbatim_report::explain(&reported, None, None, None),
        Some(Wanted::Statement(id)) => verbatim_report::explain(&reported, None, Some(id), None),
        Some(Wanted::Test(test, number)) => verbatim_report::explain(&reported, Some(test), None, *number),
    };
    let text = match &wanted {
        Some(Wanted::Test(test, None)) if text.is_empty() => {
            verbatim_report::explain_verdict(&reported, test).unwrap_or_default()
        }
        _ => text,
    };
    if !text.is_empty() {
        print::text(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let all: Vec<String> = kept
        .report
        .verdicts
        .iter()
        .flat_map(|verdict| (1..=verdict.findings.len()).map(|number| format!("{}#{number}", verdict.test)))
        .collect();
    let is_here = |test: &String| kept.report.verdicts.iter().any(|verdict| verdict.test == *test);
    match wanted {
        Some(Wanted::Test(test, _)) if !is_here(&test) => Err(Usage(format!("this run has no test {test}")).into()),
        Some(_) if !all.is_empty() => Err(Usage(format!(
            "this run has no finding {:?}; it has {}",
            arguments.finding.as_deref().unwrap_or_default(),
            shortened(&all)
        ))
        .into()),
        _ => {
            print::text(&Text::of("no finding: nothing failed, and nothing was left undecided"))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Lists the first names, and the number of the rest.
pub(super) fn shortened(all: &[String]) -> String {
    const FEW: usize = 8;
    let few = all.get(..FEW).unwrap_or(all).join(", ");
    match all.len().saturating_sub(FEW) {
        0 => few,
        more => format!("{few} and {more} more"),
    }
}

/// The findings to explain.
enum Wanted {
    Test(String, Option<usize>),
    Statement(String),
}

impl Wanted {
    fn of(text: &str) -> anyhow::Result<Self> {
        let (name, number) = match text.split_once('#') {
            Some((name, number)) if !name.starts_with("v1") => (name, Some(number)),
            _ => (text, None),
        };
        let number = number
            .map(|number| {
                let parsed = number.parse().ok().filter(|number| *number > 0);
                parsed.ok_or_else(|| Usage(format!("{text:?}: expected the number of a finding after #, from 1 on")))
            })
            .transpose()?;
        Ok(match verbatim_catalog::canonical(name) {
            Some(statement) if number.is_none() => Self::Statement(statement),
            _ => Self::Test(name.to_owned(), number),
        })
    }
}
