//! Runs inside this process.

use std::path::Path;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use verbatim_catalog::wrong_parameters;
use verbatim_client::v1::RunSpec;
use verbatim_rig::RigFile;
use verbatim_rig::file::BUILT_IN;
use verbatim_run::{self as run, Request, RunId};

use super::{Arguments, Document, Done, choice, last};
use crate::commands::{rigs, tests};
use crate::exit::Usage;
use crate::print::progress::Progress;
use crate::{exit, print};

/// Returns the run's settings with the selected tests, and with the default seed of the rig. `--failed` without
/// `--rig-key` takes the rig keys of the run that it repeats.
pub(super) fn chosen(arguments: &mut Arguments, mut spec: RunSpec) -> anyhow::Result<RunSpec> {
    let last = arguments.failed.then(|| last::of(&spec.rig)).transpose()?;
    if let Some(last) = last.as_ref().filter(|_| arguments.rig_key.is_empty()) {
        for key in &last.rig_keys {
            print::note(format_args!(
                "verbatim: --rig-key {} as in the last run on {}",
                verbatim_text::quoted(key),
                spec.rig
            ));
        }
        arguments.rig_key.clone_from(&last.rig_keys);
    }
    let file = rig_file(arguments)?;
    // The run itself reports an unknown rig.
    let mut offers = Vec::new();
    if let Ok(rig) = file.find_any(&spec.rig) {
        spec.seed = arguments.seed_on(rig.kind.name());
        spec.patterns = arguments.patterns_on(rig.kind.name());
        offers = rig.offers_in_words();
    }
    let tests = verbatim_catalog::select(&spec.patterns).map_err(|error| Usage(error.to_string()))?;
    let failed = last.map(|last| last.tests);
    let listed = tests.into_iter().map(tests::ours).collect();
    spec.patterns = choice::patterns(arguments, &spec, listed, &offers, failed.as_deref())?;
    Ok(spec)
}

pub(super) fn run(
    arguments: &Arguments,
    spec: RunSpec,
    record: Option<&Path>,
    cancel: &Arc<AtomicBool>,
    is_told: bool,
) -> anyhow::Result<Done> {
    let tests = verbatim_catalog::select(&spec.patterns).map_err(|error| Usage(error.to_string()))?;
    if let Some(wrong) = wrong_parameters(&tests, &spec.parameters).first() {
        return Err(Usage(format!("--set {}={}: {wrong}", wrong.name, wrong.value)).into());
    }
    let file = rig_file(arguments)?;
    let config = file.find_any(&spec.rig).map_err(|error| Usage(error.to_string()))?;
    let mut config = match arguments.ad_hoc.name() {
        Some(_) => config.clone(),
        None => config
            .with_keys(&arguments.rig_key)
            .map_err(|error| Usage(format!("--rig-key {error}")))?,
    };
    config.deviations = arguments.known.added_to(&config.deviations)?;
    // Some rigs need environment variables that must be set at process start. For such a rig, this call executes
    // the program again.
    verbatim_rig::env::enter(&config).context("cannot start again with the rig's environment")?;
    // A rig of the file that VERBATIM_RIG_FILE names needs the option, too, in another environment.
    let names_rig = |rig_file: &RigFile| rig_file.rigs.iter().any(|rig| rig.name == spec.rig);
    let has_variable = std::env::var_os(verbatim_rig::file::VARIABLE).is_some_and(|value| !value.is_empty());
    let rig_file = file
        .path
        .as_deref()
        .filter(|_| arguments.rig_file.is_some() || has_variable && names_rig(&file));
    let names = file.rigs.iter().map(|rig| rig.name.as_str());
    let others: Vec<&str> = names.filter(|name| *name != BUILT_IN).collect();
    if arguments.rig_file.is_some() && spec.rig == BUILT_IN && !others.is_empty() {
        print::note(format_args!(
            "verbatim: the rig is {BUILT_IN}; --rig selects another one of the rig file: {}",
            others.join(", ")
        ));
    }
    let rig_options = rig_options(arguments, rig_file, is_told);
    let request = Request {
        id: RunId::of_now(),
        rig: config,
        spec,
        record: record.map(Path::to_path_buf),
        cancel: Arc::clone(cancel),
        shrinks: true,
        rig_options,
        lease: Arc::default(),
    };
    let mut progress = Progress::new(arguments.lines());
    let ids: Vec<String> = tests.iter().map(|test| test.id.into()).collect();
    progress.expects(&request.rig.name, request.rig.kind.name(), &ids);
    let mut report = run::execute(&request, &mut |event| progress.show(&event))?;
    if arguments.record.is_none() {
        // The record is temporary, for reports.
        report.run.record = None;
    }
    progress.finish();
    last::keep(&arguments.rig_name(), &arguments.rig_key, &report.verdicts);
    let code = exit::of_report(&report, arguments.known.known);
    let (verdicts, known) = (report.verdicts.clone(), report.known_deviations.clone());
    let json = if arguments.is_document() {
        Some(Document::Report(Box::new(report)))
    } else {
        print::text_of_run(&print::run_ends(&report, &arguments.telling(true)))?;
        print::text_of_run(&progress.took(arguments.durations, arguments.verbose))?;
        None
    };
    Ok(Done {
        code,
        verdicts,
        known,
        json,
        interrupted: cancel.load(Ordering::Relaxed),
        ..Done::default()
    })
}

/// Returns a rig file with the rig of the command line, else the configured rig file.
fn rig_file(arguments: &Arguments) -> anyhow::Result<RigFile> {
    match arguments.ad_hoc.file(&arguments.rig_name(), &arguments.rig_key)? {
        Some(file) => Ok(file),
        None => rigs::load(arguments.rig_file.as_ref()),
    }
}

/// Returns the options that select the rig, for repeating the run from any directory. `is_told` means that
/// `--server none` was given.
fn rig_options(arguments: &Arguments, rig_file: Option<&Path>, is_told: bool) -> String {
    let mut words: Vec<String> = Vec::new();
    if is_told {
        words.extend(["--server", "none"].map(String::from));
    }
    if let Some(file) = rig_file {
        words.extend(["--rig-file".into(), verbatim_text::quoted(&file.display().to_string())]);
    }
    words.extend(arguments.ad_hoc.words());
    for file in &arguments.known.deviations {
        words.extend([
            "--deviations".into(),
            verbatim_text::quoted(&file.display().to_string()),
        ]);
    }
    for key in &arguments.rig_key {
        words.extend(["--rig-key".into(), verbatim_text::quoted(key)]);
    }
    words.join(" ")
}

/// A signal within this time after the first does not count as the second, because timeout(1) sends its signal
/// twice: to its child, and to the child's process group. A run at a daemon needs no such limit: after the second
/// signal, the daemon still restores the device.
const SAME: Duration = Duration::from_millis(500);
/// Exit code after an interrupt, as in shells.
const INTERRUPTED: i32 = 130;

/// Returns a flag that the first SIGINT or SIGTERM sets. The second signal ends the process at once.
pub(super) fn cancel() -> anyhow::Result<Arc<AtomicBool>> {
    let cancel = Arc::new(AtomicBool::new(false));
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot catch signals")?;
    let asked = Arc::clone(&cancel);
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            let mut first: Option<Instant> = None;
            for _ in signals.forever() {
                asked.store(true, Ordering::Relaxed);
                if first.get_or_insert_with(Instant::now).elapsed() > SAME {
                    print::note(
                        "verbatim: left at once, before the device was restored; the next run on this rig restores it \
                         from the restore journal",
                    );
                    process::exit(INTERRUPTED);
                }
            }
        })
        .context("cannot catch signals")?;
    Ok(cancel)
}
