//! Mechanical mutants: each mutant changes the device's code at one place. A test of the catalogue must then fail.
//!
//! All mutants are built into one program ([`build`]); each run of the program activates one mutant. The first run has
//! no mutant and records the places that each case reaches. A case is one test on one sound model. A mutant is then
//! tried only in the cases that reach its place.

mod build;
mod exceptions;
mod known;
mod report;
mod rewrite;
mod sites;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Parser;
use serde::Deserialize;

use self::build::Built;
use super::Options;

/// Constant part of a mutant's time limit. The other part is four times the duration of the same cases without a
/// mutant.
const LIMIT: Duration = Duration::from_secs(30);

/// Options of the campaign.
#[derive(Debug, Parser)]
#[command(name = "mutants", no_binary_name = true, disable_version_flag = true)]
pub(super) struct Arguments {
    /// Number of mutants to draw at random; 0: all.
    #[arg(long, default_value_t = 0)]
    sample: usize,
    /// Seed of the sample.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Processes at a time; 0: one for each core.
    #[arg(long, default_value_t = 0)]
    jobs: usize,
    /// The rules that records are judged by.
    #[arg(long, default_value = "simulated", value_parser = ["simulated", "hardware"])]
    rules: String,
    /// States of each sound model.
    #[arg(long, default_value_t = 8)]
    states: u64,
    /// Number of cases of each test, spread over models and states, to run before the other cases; 0: none.
    #[arg(long, default_value_t = 3)]
    cases: usize,
    /// Only mutants whose name contains this text; may be repeated.
    #[arg(long)]
    only: Vec<String>,
    /// Only mutants of the device's files in this folder, such as `rc`; `.`: files in no folder, the management agents.
    #[arg(long)]
    under: Vec<String>,
    /// Skip excepted mutants to save time; the score then lacks the excepted mutants that a test kills.
    #[arg(long)]
    skip_excepted: bool,
    /// List the mutants without trying them, one per line: name, tab, reason of the exception.
    #[arg(long)]
    list: bool,
    /// The least score in percent.
    #[arg(long, default_value_t = 95.0)]
    least: f64,
    /// Write the fate of each mutant to this file, as JSON.
    #[arg(long)]
    json: Option<std::path::PathBuf>,
}

/// The result of a case without a mutant.
#[derive(Debug, Deserialize)]
pub(super) struct Case {
    test: String,
    outcome: String,
    reason: String,
    micros: u64,
    reaches: Vec<usize>,
    repeat: String,
}

/// The case that noticed a mutant, and its outcome.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Noticed {
    case: usize,
    test: String,
    outcome: String,
    reason: String,
    checks: Vec<String>,
    /// Whether the model itself failed, so that the test could not judge a device.
    is_broken: bool,
}

/// The fate of a mutant.
#[derive(Clone, Debug)]
pub(super) enum Fate {
    /// A test fails that passes without the mutant.
    Killed(Noticed),
    /// No test fails, but a test that passes without the mutant has another outcome than PASS.
    Unsure(Noticed),
    /// The model does not run with the mutant: the model panics, or a case does not end.
    Broken,
    /// All cases that reach the mutant passed. The number counts these cases.
    Survived(usize),
}

pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    let arguments = Arguments::try_parse_from(&options.arguments).map_err(|error| anyhow::anyhow!("{error}"))?;
    let exceptions = exceptions::read()?;
    let found = build::find()?;
    let stale = exceptions::of_no_mutant(&exceptions, &found.0);
    if arguments.list {
        for mutant in &found.0 {
            let reason = exceptions.iter().find(|one| one.is_for(&mutant.name));
            println!("{}\t{}", mutant.name, reason.map_or("", |one| &one.reason));
        }
    }
    if !stale.is_empty() {
        bail!(
            "tests/mutants/exceptions.toml: no mutant has these names; check each name, the code may have moved:\n  {}",
            stale.join("\n  ")
        );
    }
    if arguments.list {
        return Ok(());
    }
    let built = build::build(found)?;
    let began = Instant::now();
    let cases = cases(&built, &arguments)?;
    let mut chosen = chosen(&built, &arguments)?;
    let all = chosen.len();
    if arguments.skip_excepted {
        let is_excepted = |id: &usize| exceptions.iter().any(|one| one.is_for(&built.mutants[*id].name));
        chosen.retain(|id| !is_excepted(id));
    }
    eprintln!(
        "xtask: {} of {} mutants ({} more do not build), {} cases in {:.1} s without a change",
        chosen.len(),
        built.mutants.len() - built.refused.len(),
        built.refused.len(),
        cases.len(),
        began.elapsed().as_secs_f64()
    );
    let fates = judge(&built, &cases, &chosen, &arguments)?;
    report::report(&built, &cases, (&fates, all - chosen.len()), &exceptions, &arguments)
}

/// Runs all cases without a mutant. No case may fail: only then does a failure prove the effect of a mutant.
fn cases(built: &Built, arguments: &Arguments) -> anyhow::Result<Vec<Case>> {
    let output = Command::new(&built.program)
        .args(["cases", &arguments.rules, &arguments.states.to_string()])
        .stderr(Stdio::inherit())
        .output()
        .context("the program of the mutants could not be started")?;
    let lines = output
        .stdout
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    let cases = lines
        .map(serde_json::from_slice)
        .collect::<Result<Vec<Case>, _>>()
        .context("its cases")?;
    if !output.status.success() || cases.is_empty() {
        bail!(
            "the program of the mutants failed without any change ({})",
            output.status
        );
    }
    let fine = ["OUTCOME_PASS", "OUTCOME_NOT_APPLICABLE"];
    if let Some(case) = cases.iter().find(|case| !fine.contains(&case.outcome.as_str())) {
        bail!(
            "a sound model does not pass {}: {} {}; `{}`",
            case.test,
            case.outcome,
            case.reason,
            case.repeat
        );
    }
    Ok(cases)
}

/// Returns the mutants to try: all, or a sample.
fn chosen(built: &Built, arguments: &Arguments) -> anyhow::Result<Vec<usize>> {
    let wanted = |id: &usize| {
        let name = &built.mutants[*id].name;
        let folder = name.split_once('/').map_or(".", |(folder, _)| folder);
        let is_under = arguments.under.is_empty()
            || arguments
                .under
                .iter()
                .any(|under| under.trim_end_matches('/') == folder);
        !built.refused.contains(id)
            && is_under
            && (arguments.only.is_empty() || arguments.only.iter().any(|part| name.contains(part.as_str())))
    };
    let mut all: Vec<usize> = (0..built.mutants.len()).filter(wanted).collect();
    if all.is_empty() {
        bail!("no mutant has {:?} in its name", arguments.only.join(" or "));
    }
    if arguments.sample > 0 && arguments.sample < all.len() {
        // SplitMix64 suffices for a sample.
        let mut state = arguments.seed;
        let mut draw = || {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut mixed = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
            mixed ^ mixed >> 31
        };
        for place in 0..arguments.sample {
            let left = all.len() - place;
            let other = place + (draw() % left as u64) as usize;
            all.swap(place, other);
        }
        all.truncate(arguments.sample);
        all.sort_unstable();
    }
    Ok(all)
}

/// Tries every chosen mutant.
fn judge(
    built: &Built,
    cases: &[Case],
    chosen: &[usize],
    arguments: &Arguments,
) -> anyhow::Result<BTreeMap<usize, Fate>> {
    let reaching = reaching(built, cases);
    let next = AtomicUsize::new(0);
    let kills: Mutex<BTreeMap<(String, String), usize>> = Mutex::default();
    let fates: Mutex<BTreeMap<usize, anyhow::Result<Fate>>> = Mutex::default();
    let jobs = match arguments.jobs {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        some => some,
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(&id) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let function = function(&built.mutants[id].name);
                    let mut order = reaching.get(&id).cloned().unwrap_or_default();
                    {
                        // A few cases of each test come first. Among these, tests that killed other mutants of the
                        // function come first, then fast cases.
                        let kills = kills.lock().unwrap_or_else(PoisonError::into_inner);
                        let of = |case: usize| kills.get(&(function.clone(), cases[case].test.clone())).copied();
                        let few = spread(cases, &order, arguments.cases);
                        let rank = |case: &usize| {
                            let is_first = few.is_empty() || few.contains(case);
                            (!is_first, std::cmp::Reverse(of(*case)), cases[*case].micros)
                        };
                        order.sort_by_cached_key(rank);
                    }
                    let fate = attempt(built, cases, id, &order, arguments);
                    if let Ok(Fate::Killed(by)) = &fate {
                        let mut kills = kills.lock().unwrap_or_else(PoisonError::into_inner);
                        *kills.entry((function, by.test.clone())).or_default() += 1;
                    }
                    if !matches!(fate, Ok(Fate::Killed(_))) {
                        eprintln!("xtask: not killed: {}", built.mutants[id].name);
                    }
                    let mut fates = fates.lock().unwrap_or_else(PoisonError::into_inner);
                    fates.insert(id, fate);
                    if fates.len().is_multiple_of(100) {
                        eprintln!("xtask: {} of {} mutants tried", fates.len(), chosen.len());
                    }
                }
            });
        }
    });
    let fates = fates.into_inner().unwrap_or_else(PoisonError::into_inner);
    fates.into_iter().map(|(id, fate)| Ok((id, fate?))).collect()
}

/// Returns the cases that reach each mutant. A case lists the first mutant of each site that it reaches.
fn reaching(built: &Built, cases: &[Case]) -> BTreeMap<usize, Vec<usize>> {
    let mut of: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (place, case) in cases
        .iter()
        .enumerate()
        .filter(|(_, case)| case.outcome == "OUTCOME_PASS")
    {
        for first in &case.reaches {
            for id in built.site_from(*first) {
                of.entry(id).or_default().push(place);
            }
        }
    }
    of
}

/// Returns at most `most` cases of each test, spread evenly over `order`.
fn spread(cases: &[Case], order: &[usize], most: usize) -> BTreeSet<usize> {
    let mut of: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for case in order {
        of.entry(&cases[*case].test).or_default().push(*case);
    }
    let few = of.values().flat_map(|of| {
        let some = most.min(of.len());
        (0..some).map(move |place| of[place * (of.len() - 1) / some.saturating_sub(1).max(1)])
    });
    few.collect()
}

/// Returns the part of a mutant's name that names file and function.
pub(super) fn function(name: &str) -> String {
    name.split(": ").next().unwrap_or_default().to_owned()
}

fn attempt(built: &Built, cases: &[Case], id: usize, order: &[usize], arguments: &Arguments) -> anyhow::Result<Fate> {
    if order.is_empty() {
        return Ok(Fate::Survived(0));
    }
    let usual: u64 = order.iter().map(|case| cases[*case].micros).sum();
    let limit = LIMIT + Duration::from_micros(usual * 4);
    let mut command = Command::new(&built.program);
    command.args(["try", &arguments.rules, &arguments.states.to_string(), &id.to_string()]);
    command.args(order.iter().map(usize::to_string));
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("the program of the mutants could not be started")?;
    let mut stdout = child.stdout.take().context("no pipe")?;
    let (sender, receiver) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = stdout.read_to_string(&mut text);
        // After the time limit, the receiver no longer exists, so ignore the error.
        let _ = sender.send(text);
    });
    let Ok(text) = receiver.recv_timeout(limit) else {
        child.kill()?;
        child.wait()?;
        let _ = reader.join();
        // A FAIL ends the program. This program did not end, so no test has noticed the mutant.
        return Ok(Fate::Broken);
    };
    let status = child.wait()?;
    match (status.success(), text.trim()) {
        (true, "") => Ok(Fate::Survived(order.len())),
        (true, lines) => {
            let last = lines.lines().next_back().unwrap_or_default();
            let noticed: Noticed = serde_json::from_str(last).context("what noticed a mutant")?;
            Ok(match noticed.outcome.as_str() {
                "OUTCOME_FAIL" => Fate::Killed(noticed),
                _ if noticed.is_broken => Fate::Broken,
                _ => Fate::Unsure(noticed),
            })
        }
        // The mutant made the program crash, for example by endless recursion.
        (false, _) => Ok(Fate::Broken),
    }
}
