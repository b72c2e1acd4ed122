//! `verbatim qualify`: the tests are tested.

use std::io::IsTerminal;
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};
use verbatim_run::qualify::{AnyDefect, Extent, Qualification, qualify, sound_models};

use crate::exit::Usage;
use crate::{exit, print};

/// Test the tests.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only these tests and the defects of their statements: an id, a public name, a statement, or a glob
    patterns: Vec<String>,
    /// States of each sound model, one a seed
    #[arg(long, default_value_t = 10)]
    seeds: u64,
    /// Illegal values that a sweep tries, telling ones first
    #[arg(long, default_value_t = 512)]
    sweep: u64,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let tests = verbatim_catalog::select(&arguments.patterns).map_err(|error| Usage(error.to_string()))?;
    let extent = Extent {
        seeds: arguments.seeds,
        sweep: arguments.sweep,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        tests,
        models: sound_models(),
        defects: AnyDefect::all().collect(),
    };
    let bar = if std::io::stderr().is_terminal() {
        ProgressBar::new(0)
    } else {
        ProgressBar::hidden()
    };
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} models {elapsed}") {
        bar.set_style(style);
    }
    let qualification = qualify(&extent, &|done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    if arguments.json {
        print::json(&qualification)?;
    } else {
        print::text(&words(&qualification, !arguments.patterns.is_empty()))?;
    }
    let good = qualification.survived.is_empty() && qualification.false_alarms.is_empty();
    Ok(ExitCode::from(if good { 0 } else { exit::ERROR }))
}

/// What it came to. Of `chosen` tests it says which defects they catch, and of all tests which defects survived.
fn words(qualification: &Qualification, chosen: bool) -> String {
    let mut out = String::new();
    for test in &qualification.tests {
        out.push_str(&format!(
            "{:<34} passed {:>4} sound models, {:>3} not applicable, catches {:>3} defects\n",
            test.id,
            test.passed,
            test.not_applicable,
            test.catches.len()
        ));
        if chosen {
            out.push_str(&caught(&test.catches));
        }
    }
    for defect in qualification
        .defects
        .iter()
        .filter(|defect| qualification.survived.contains(&defect.name))
    {
        out.push_str(&format!(
            "SURVIVED    {} {} ({})\n            repeat: {}\n",
            defect.statement, defect.name, defect.about, defect.repeat
        ));
    }
    for alarm in &qualification.false_alarms {
        out.push_str(&format!(
            "FALSE ALARM {} on {} seed {}: {} {}\n            repeat: {}\n",
            alarm.test, alarm.model, alarm.seed, alarm.outcome, alarm.reason, alarm.repeat
        ));
    }
    let survived = if chosen {
        "survivors count in a run of all tests alone".into()
    } else {
        format!("{} survived", qualification.survived.len())
    };
    out.push_str(&format!(
        "{} defects, {survived}; {} false alarms; {} cases\n",
        qualification.defects.len(),
        qualification.false_alarms.len(),
        qualification.cases
    ));
    out
}

/// The names of the defects that a test catches, a line each.
fn caught(names: &[String]) -> String {
    if names.is_empty() {
        return "    catches none of the defects of its statements: give the device model one that it catches\n".into();
    }
    names.iter().map(|name| format!("    catches {name}\n")).collect()
}
