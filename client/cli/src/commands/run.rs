//! `verbatim run`: runs tests on a rig and judges them.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use signal_hook::consts::{SIGINT, SIGTERM};
use verbatim_daemon::embedded::{self, Event, Request};
use verbatim_daemon::rig;
use verbatim_tester::Test;

use crate::commands::rigs;
use crate::exit::Usage;
use crate::{exit, print};

/// Run tests and judge them.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Tests to run: ids, public names, statements such as C14-16, or globs; all of them when none is given
    patterns: Vec<String>,
    /// The rig
    #[arg(long, default_value = "virtual")]
    rig: String,
    /// The rig file; else $VERBATIM_RIG_FILE, else /etc/verbatim/rigs.toml
    #[arg(long, value_name = "FILE")]
    rig_file: Option<PathBuf>,
    /// Set a parameter of the tests that have it; `verbatim tests --long` lists them
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Seed of all random choices: one seed, one run
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Keep the records in a new directory, for `verbatim judge` and `verbatim export`
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    /// Print one JSON document on stdout
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let tests = verbatim_catalog::select(&arguments.patterns).map_err(|error| Usage(error.to_string()))?;
    let parameters = parameters(&arguments.set, &tests)?;
    let file = rigs::load(arguments.rig_file.as_ref())?;
    let mut config = file
        .find(&arguments.rig)
        .map_err(|error| Usage(error.to_string()))?
        .clone();
    if let rig::RigKind::Virtual(model) = &mut config.kind {
        model.seed.get_or_insert(arguments.seed);
    }
    // A rig may need variables that count only when the process starts: then this starts it again.
    rig::env::enter(&config).context("cannot start again with the rig's environment")?;
    let record = arguments
        .record
        .as_ref()
        .map(std::path::absolute)
        .transpose()
        .context("--record")?;
    let request = Request {
        rig: config,
        tests,
        parameters,
        seed: arguments.seed,
        record,
        cancel: cancel()?,
    };
    let mut progress = Progress::new(arguments.json);
    let report = embedded::execute(&request, &mut |event| progress.show(&event))?;
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
        .map(|pair| {
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| Usage(format!("--set {pair}: NAME=VALUE was expected")))?;
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
            let parsed = match value.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16),
                None => value.parse(),
            };
            let (least, most) = declared.range;
            match parsed {
                Ok(value) if (least..=most).contains(&value) => Ok((name.to_string(), value)),
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

/// A progress bar on a terminal, and a line per test as it ends.
struct Progress {
    bar: ProgressBar,
    test: &'static str,
    quiet: bool,
}

impl Progress {
    fn new(quiet: bool) -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        if !std::io::stderr().is_terminal() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len} {wide_msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar, test: "", quiet }
    }

    fn show(&mut self, event: &Event<'_>) {
        match event {
            Event::Begun(test, place, all) => {
                self.test = test.id;
                self.bar.set_length(*all as u64);
                self.bar.set_position(*place as u64);
                self.bar.set_message(test.id);
            }
            Event::Step(label) => self.bar.set_message(format!("{}: {label}", self.test)),
            Event::Ended(verdict) => {
                if !self.quiet {
                    let line = print::line(verdict);
                    // A closed pipe shows at the end of the run: the device is restored before anything else.
                    self.bar
                        .suspend(|| print::text(&format!("{line}\n")).unwrap_or_default());
                }
            }
            Event::Recovered(restored) => {
                let areas: Vec<_> = restored.iter().map(|restored| restored.area.as_str()).collect();
                self.bar.suspend(|| {
                    eprintln!(
                        "verbatim: an earlier run left the device changed; restored first: {}",
                        areas.join(", ")
                    )
                });
            }
        }
    }

    fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
