//! `verbatim explain`: shows a finding with the packets that it is based on.

use std::process::ExitCode;

use verbatim_report::{
    Commands, Detail, Digest, Reported, Selected, explain, explain_verdict, list, list_without_findings, selected,
};
use verbatim_text::Text;

use crate::commands::report::Source;
use crate::exit::Usage;
use crate::print;
use crate::server::Finder;

/// Explain findings: list them, or show premise, stimulus, answer and statement of one.
#[derive(clap::Args)]
#[command(
    after_help = "Findings are checks that failed or could not be decided; they are numbered from 1 within a test. \
    Several findings are listed, one line each; one finding is explained in at most 40 lines. The verdicts are judged \
    anew from the record. For a test without findings, the command shows the verdict, the passed checks and the last \
    step of the test. Exit codes: 0 a finding or verdict is explained, or the run has no findings; 2 no finding has \
    this name; 3 the record cannot be read or judged."
)]
pub(crate) struct Arguments {
    /// The directory that `verbatim run --record` left; or a run of the daemon: runs/ID, ID, or latest; or a run of
    /// another daemon: ADDR/runs/ID
    run: String,
    /// The findings: TEST, TEST#NUMBER or a statement; by default, list all
    finding: Option<String>,
    /// Explain each of these findings, with the fields of its packets
    #[arg(long)]
    fields: bool,
    /// Explain each of these findings, with the bytes of its packets
    #[arg(long)]
    hex: bool,
}

pub(crate) fn run(arguments: &Arguments, finder: Finder<'_>) -> anyhow::Result<ExitCode> {
    let bundle = Source::find(&arguments.run, finder)?;
    let kept = verbatim_run::read_bundle(bundle.directory(), Digest::of)?;
    print::judged_otherwise(&kept.report, &kept.drift);
    let reported = Reported {
        run: &kept.report.run,
        verdicts: &kept.report.verdicts,
        records: &kept.records,
        before: &[],
        not_judged_anew: &kept.report.not_judged_anew,
        known: &[],
        tolerates_known: false,
        seal: &kept.seal,
    };
    let wanted = arguments.finding.as_deref().map(Wanted::of).transpose()?;
    let of = match &wanted {
        None => Selected::default(),
        Some(Wanted::Statement(id)) => Selected {
            statement: Some(id),
            ..Selected::default()
        },
        Some(Wanted::Test(test, number)) => Selected {
            test: Some(test),
            number: *number,
            ..Selected::default()
        },
    };
    let detail = Detail {
        fields: arguments.fields,
        bytes: arguments.hex,
    };
    let run = verbatim_text::quoted(&arguments.run);
    let export = match bundle {
        Source::Here(_) => format!("verbatim export {run} --pcapng run.pcapng"),
        Source::Fetched(_) => format!("verbatim runs export {run} --pcapng run.pcapng"),
    };
    let commands = Commands {
        explain: &format!("verbatim explain {run}"),
        export: &export,
    };
    let is_list = selected(&reported, of).nth(1).is_some() || wanted.is_none();
    let mut text = match is_list && !arguments.fields && !arguments.hex {
        true => list(&reported, of),
        false => explain(&reported, of, detail, commands),
    };
    match &wanted {
        None => text.extend([list_without_findings(&reported)]),
        Some(Wanted::Test(test, None)) if text.is_empty() => {
            text = explain_verdict(&reported, test).unwrap_or_default();
        }
        _ => {}
    }
    if !text.is_empty() {
        print::text(&text)?;
        if is_list && !arguments.fields && !arguments.hex {
            print::note(format_args!("`{} TEST#NUMBER` explains one of them", commands.explain));
        }
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
        Some(Wanted::Test(test, _)) if !test.is_empty() && !is_here(&test) => {
            Err(Usage(format!("this run has no test {test}")).into())
        }
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
