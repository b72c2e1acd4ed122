//! A run inside this process.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use verbatim_run::{self as run, Request};

use verbatim_tester::Test;

use crate::commands::rigs;
use crate::commands::run::{Arguments, number, pair};
use crate::exit::Usage;
use crate::print::progress::Progress;
use crate::{exit, print};

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let tests = verbatim_catalog::select(&arguments.patterns).map_err(|error| Usage(error.to_string()))?;
    let parameters = parameters(&arguments.set, &tests)?;
    let file = rigs::load(arguments.rig_file.as_ref())?;
    let mut config = file
        .find(&arguments.rig)
        .map_err(|error| Usage(error.to_string()))?
        .clone();
    if let verbatim_rig::RigKind::Virtual(model) = &mut config.kind {
        model.seed.get_or_insert(arguments.seed);
    }
    // A rig may need variables that count only when the process starts: then this starts it again.
    verbatim_rig::env::enter(&config).context("cannot start again with the rig's environment")?;
    let record = arguments
        .record
        .as_ref()
        .map(std::path::absolute)
        .transpose()
        .context("--record")?;
    let request = Request {
        id: None,
        rig: config,
        tests,
        parameters,
        seed: arguments.seed,
        record,
        cancel: cancel()?,
    };
    let mut progress = Progress::new(arguments.json);
    let report = run::execute(&request, &mut |event| progress.show(&event))?;
    progress.finish();
    if arguments.json {
        print::json(&report)?;
    } else {
        print::text(&format!(
            "{}\n{}\n",
            print::explanation(&report),
            print::summary(&report)
        ))?;
    }
    Ok(ExitCode::from(exit::of_verdicts(&report.verdicts)))
}

/// `name=value` pairs, each of a parameter that one of the chosen tests has, within its range.
fn parameters(given: &[String], tests: &[&'static Test]) -> Result<Vec<(String, u64)>, Usage> {
    given
        .iter()
        .map(|given| {
            let (name, value) = pair(given)?;
            let known: Vec<_> = tests.iter().flat_map(|test| test.parameters).collect();
            let declared = known.iter().find(|parameter| parameter.name == name).ok_or_else(|| {
                let mut names: Vec<_> = known.iter().map(|parameter| parameter.name).collect();
                names.sort_unstable();
                names.dedup();
                let names = if names.is_empty() {
                    "none".into()
                } else {
                    names.join(", ")
                };
                Usage(format!(
                    "--set {name}: none of the chosen tests has this parameter; theirs are: {names}"
                ))
            })?;
            let (least, most) = declared.range;
            match number(value) {
                Some(value) if (least..=most).contains(&value) => Ok((name.to_string(), value)),
                _ => Err(Usage(format!(
                    "--set {name}={value}: a number from {least} to {most} was expected"
                ))),
            }
        })
        .collect()
}

/// Set by the first Ctrl-C or SIGTERM; the second ends the process at once.
fn cancel() -> anyhow::Result<Arc<AtomicBool>> {
    let cancel = Arc::new(AtomicBool::new(false));
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&asked))?;
        signal_hook::flag::register(signal, Arc::clone(&asked))?;
        signal_hook::flag::register(signal, Arc::clone(&cancel))?;
    }
    Ok(cancel)
}
