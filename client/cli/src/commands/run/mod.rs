//! `verbatim run`: runs tests on a rig and judges them.

mod ad_hoc;
mod choice;
mod inside;
mod labelled;
mod last;
mod remote;
mod repeated;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;
use verbatim_catalog::deviations::Known;
use verbatim_catalog::{Extent, expected_of, select};
use verbatim_client::v1::{Cause, RunSpec, Verdict};
use verbatim_rig::file::BUILT_IN;
use verbatim_run::Report;

use crate::commands::known;
use crate::commands::leases::{Lasts, Priority, wait_at_most};
use crate::commands::report::Files;
use crate::exit::{self, Usage};
use crate::print::Telling;
use crate::print::progress::Lines;
use crate::server::Place;
use choice::Expression;

pub(crate) use remote::{Followed, follow, show_end};

/// Run tests and judge them.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Tests to run: ids, public names, statements such as C14-16, globs, or words such as rnr or m_key, which are
    /// looked for in ids, titles, public names and the texts of statements; or a selection by duration: `quick` (under
    /// two minutes), `standard`, `full`. When none is given: `standard`, and on a virtual rig all tests. A selection
    /// has only the tests that the rig can run
    patterns: Vec<String>,
    /// Run only the tests that match this expression: words as above, with `and`, `or`, `not` and parentheses, as in
    /// `-k 'm_key and not walk'`
    #[arg(short = 'k', value_name = "EXPR", value_parser = expression)]
    expression: Option<Expression>,
    /// Run only the tests that did not pass in the last run on this rig: FAIL, ERROR, INCONCLUSIVE, SKIPPED
    #[arg(long)]
    failed: bool,
    /// End the run at the first FAIL or ERROR
    #[arg(short = 'x', long)]
    exitfirst: bool,
    /// Run N times, each time with the next seed; with --record each run has a directory 1, 2, ... in DIR
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    repeat: Option<u32>,
    /// The rig
    #[arg(long, default_value = "virtual")]
    rig: String,
    /// The rig file; else $VERBATIM_RIG_FILE, else /etc/verbatim/rigs.toml
    #[arg(long, value_name = "FILE")]
    rig_file: Option<PathBuf>,
    /// Set a key of the rig for this run only, as in the rig file: `seed=7`, `'profile="minimal"'`; for rigs of kind
    /// virtual, and for a rig without a rig file; for rigs of kind umad and model m_key, shared_subnet, subnet_timeout
    /// and assign_lid
    #[arg(long, value_name = "KEY=VALUE")]
    rig_key: Vec<String>,
    #[command(flatten)]
    ad_hoc: ad_hoc::AdHoc,
    /// Set a parameter of the tests that have it; `verbatim tests --long` lists them
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Seed of all random choices; by default 0 on a model, and a random seed for each run on other rigs
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    known: known::Arguments,
    /// Keep the records in a new directory, for `verbatim judge` and `verbatim export`
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    #[command(flatten)]
    reports: Files,
    /// Sign the record with this private key of ed25519, in PEM, as `verbatim sign` does
    #[arg(long, value_name = "KEY.pem", requires = "record")]
    sign: Option<PathBuf>,
    /// Print the run's name and leave, as soon as the daemon has accepted the run
    #[arg(long, conflicts_with = "record")]
    detach: bool,
    /// Run under this lease, on its rig: leases/ID or ID, of `verbatim reserve`
    #[arg(long, value_name = "LEASE", conflicts_with = "rig")]
    lease: Option<String>,
    /// Run on any rig of the daemon that has this label of its rig file, or kind=KIND; may be given several times
    #[arg(long = "label", value_name = "LABEL", conflicts_with_all = ["rig", "lease", "detach"])]
    labels: Vec<String>,
    /// Priority in the queue of the rig: low, normal or high; high needs an admin of the rig
    #[arg(long, value_name = "P", default_value = "normal")]
    priority: Priority,
    /// On a rig that you hold, wait in the queue for a separate lease, and do not run under your own lease
    #[arg(long, conflicts_with = "lease")]
    own_lease: bool,
    /// While the run waits for the rig, print its place in the queue each time the place changes
    #[arg(long)]
    wait: bool,
    /// Longest wait for the rig: 90s, 30m, 2h; then the run ends before it begins, with exit code 3. By default the run
    /// waits 10 minutes for an unreachable device
    #[arg(long, value_name = "TIME")]
    wait_at_most: Option<Lasts>,
    /// Start at once, or end with exit code 3
    #[arg(long, conflicts_with_all = ["wait", "wait_at_most"])]
    no_wait: bool,
    /// Print one JSON document on stdout
    #[arg(long)]
    json: bool,
    /// Print only tests that did not pass, and the summary
    #[arg(short, long, conflicts_with_all = ["verbose", "json"])]
    quiet: bool,
    /// Also print the checks and the duration of each test
    #[arg(short, long, conflicts_with = "json")]
    verbose: bool,
    /// Show every finding, including similar findings and known deviations, and every observation
    #[arg(long, conflicts_with = "json")]
    all: bool,
    /// At the end, print the duration of the run and its N longest tests
    #[arg(long, value_name = "N", conflicts_with = "json")]
    durations: Option<usize>,
}

/// The result of a run.
#[derive(Default)]
struct Done {
    code: u8,
    verdicts: Vec<Verdict>,
    /// The known deviations of the device, for reports.
    known: Vec<Known>,
    /// The JSON document; None if other output was printed instead.
    json: Option<Document>,
    /// Whether a signal ended the run. The run is then not repeated.
    interrupted: bool,
    /// Why the run ended without a record, for reports.
    why: (Cause, String),
}

/// The document that `--json` prints of a run.
#[derive(serde::Serialize)]
#[serde(untagged)]
enum Document {
    /// The report of a run in this process.
    Report(Box<Report>),
    /// The document of a run at a daemon, which may contain more than a report.
    Value(Value),
}

/// Parses the value of `-k`.
fn expression(text: &str) -> Result<Expression, String> {
    text.parse()
}

impl Arguments {
    /// Returns the run's settings. Does not check that the rig can run them.
    fn spec(&self) -> Result<RunSpec, Usage> {
        let parameter = |given: &String| {
            let (name, value) = given
                .split_once('=')
                .ok_or_else(|| Usage(format!("--set {given}: NAME=VALUE was expected")))?;
            let value = number(value).ok_or_else(|| {
                // If the patterns name tests that only the daemon has, the message gives no bounds.
                let tests = select(&self.patterns).unwrap_or_default();
                let expected = expected_of(&tests, name).unwrap_or_else(|| "a number was expected".into());
                Usage(format!(
                    "--set {given}: {expected}; write it in decimal, or in hexadecimal with 0x"
                ))
            })?;
            Ok((name.to_string(), value))
        };
        Ok(RunSpec {
            // With a lease or labels, the daemon determines the rig.
            rig: if self.lease.is_some() || !self.labels.is_empty() {
                String::new()
            } else {
                self.rig_name()
            },
            patterns: self.patterns.clone(),
            parameters: self.set.iter().map(parameter).collect::<Result<_, Usage>>()?,
            seed: self.seed.unwrap_or_default(),
            exit_first: self.exitfirst,
        })
    }

    /// Returns the rig's name. A rig without a rig file may have a name from `--rig`.
    fn rig_name(&self) -> String {
        let name = self.ad_hoc.name().filter(|_| self.rig == BUILT_IN);
        name.unwrap_or_else(|| self.rig.clone())
    }

    /// Returns whether `-k` or `--failed` selects among the tests.
    const fn chooses(&self) -> bool {
        self.expression.is_some() || self.failed
    }

    /// Returns the time limit of the wait for the rig; None for no limit.
    fn waits(&self) -> Option<Duration> {
        wait_at_most(self.wait_at_most, self.no_wait)
    }

    /// Returns the amount of detail at the end of the run. `is_own` tells that the run is in this process.
    fn telling(&self, is_own: bool) -> Telling {
        Telling {
            quiet: self.quiet,
            all: self.all,
            again: Some(self.set.clone()),
            is_own,
        }
    }

    /// Returns the given patterns, else the default for a rig of this kind.
    fn patterns_on(&self, kind: &str) -> Vec<String> {
        match kind != "virtual" && self.patterns.is_empty() && !self.chooses() {
            true => vec![Extent::BY_DEFAULT.into()],
            false => self.patterns.clone(),
        }
    }

    /// Returns the given seed, else the default for a rig of this kind.
    fn seed_on(&self, kind: &str) -> u64 {
        self.seed
            .unwrap_or_else(|| if MODELS.contains(&kind) { 0 } else { fresh_seed() })
    }

    /// Returns whether stdout has a document, and no lines of the run.
    fn is_document(&self) -> bool {
        self.json || self.reports.prints_ktap()
    }

    /// Returns the lines to print during the run.
    fn lines(&self) -> Lines {
        match self {
            _ if self.is_document() => Lines::None,
            _ if self.quiet => Lines::NotPassed,
            _ if self.verbose => Lines::Long,
            _ => Lines::All,
        }
    }
}

pub(crate) fn run(
    arguments: &mut Arguments,
    place: impl FnOnce() -> anyhow::Result<Place>,
) -> anyhow::Result<ExitCode> {
    arguments.reports.remove_earlier()?;
    let done = place().and_then(|place| carried_out(arguments, &place));
    if let Err(error) = &done {
        let spec = RunSpec {
            rig: arguments.rig_name(),
            seed: arguments.seed.unwrap_or_default(),
            ..RunSpec::default()
        };
        let cause = match exit::of_error(error) {
            exit::USAGE => Cause::Operator,
            _ => Cause::Rig,
        };
        let why = verbatim_text::in_words(&**error).to_string();
        arguments.reports.write_missing(&spec, &(cause, why))?;
    }
    done
}

/// Writes the reports of a run whose command line is invalid.
pub(crate) fn report_usage_error(words: &[String], error: &str) -> anyhow::Result<()> {
    let reports = Files::named_in(words);
    reports.remove_earlier()?;
    reports.write_missing(&RunSpec::default(), &(Cause::Operator, error.into()))
}

fn carried_out(arguments: &mut Arguments, place: &Place) -> anyhow::Result<ExitCode> {
    let options = [
        (arguments.detach, "--detach"),
        (arguments.lease.is_some(), "--lease"),
        (arguments.own_lease, "--own-lease"),
        (!arguments.labels.is_empty(), "--label"),
    ];
    if let Some((_, option)) = options.iter().find(|(is_given, _)| *is_given) {
        place.server(option)?;
    }
    if !arguments.reports.wanted().is_empty() && (arguments.repeat.is_some() || arguments.detach) {
        let option = if arguments.detach { "--detach" } else { "--repeat" };
        return Err(Usage(format!(
            "the options of reports cannot be used with {option}; `verbatim report` makes reports later"
        ))
        .into());
    }
    arguments.reports.refuse_unwritable(arguments.json)?;
    let spec = arguments.spec()?;
    match place {
        Place::Server(address) => {
            let spec = remote::chosen(arguments, spec, address)?;
            repeated::run(arguments, spec, &mut |spec, record| {
                remote::run(arguments, spec, record, address)
            })
        }
        Place::Inside(looked) => {
            let spec = inside::chosen(arguments, spec)?;
            let cancel = inside::cancel()?;
            repeated::run(arguments, spec, &mut |spec, record| {
                inside::run(arguments, spec, record, &cancel, looked.is_none())
            })
        }
    }
}

/// Kinds of rigs whose device is a model. Their runs are repeatable, so their default seed is fixed.
const MODELS: [&str; 2] = ["virtual", "model"];

/// Returns a random seed that is short enough to type.
fn fresh_seed() -> u64 {
    // The standard library draws the keys of `RandomState` from the operating system.
    RandomState::new().build_hasher().finish() >> 32
}

/// Parses a decimal number, or a hexadecimal one with the prefix 0x.
fn number(value: &str) -> Option<u64> {
    match value.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => value.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        run: Arguments,
    }

    #[test]
    fn model_has_seed_0_and_real_rig_a_random_seed() {
        let of = |given: &[&str]| Cli::parse_from([&["run"], given].concat()).run;
        let none = of(&[]);
        assert_eq!(MODELS.map(|kind| none.seed_on(kind)), [0, 0]);
        assert_ne!(none.seed_on("umad"), none.seed_on("umad"));
        assert_eq!(of(&["--seed", "7"]).seed_on("umad"), 7);
    }

    #[test]
    fn real_rig_runs_standard_tests_by_default() {
        let of = |given: &[&str], kind| Cli::parse_from([&["run"], given].concat()).run.patterns_on(kind);
        assert_eq!(of(&[], "umad"), ["standard"]);
        assert_eq!(of(&[], "virtual"), [""; 0], "all tests");
        assert_eq!(of(&["C14-16"], "umad"), ["C14-16"]);
        assert_eq!(of(&["-k", "lease"], "umad"), [""; 0]);
    }
}
