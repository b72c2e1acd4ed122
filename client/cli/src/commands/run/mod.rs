//! `verbatim run`: runs tests on a rig and judges them.

mod inside;
mod remote;

use std::path::PathBuf;
use std::process::ExitCode;

use verbatim_catalog::{expected_of, select};
use verbatim_client::v1::RunSpec;

use crate::commands::leases::Priority;
use crate::exit::Usage;
use crate::server::Place;

pub(crate) use remote::{Followed, follow, show_end};

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
    /// Set a key of the rig for this run alone, as in the rig file: `seed=7`, `'profile="minimal"'`; rigs of kind virtual
    #[arg(long, value_name = "KEY=VALUE")]
    rig_key: Vec<String>,
    /// Set a parameter of the tests that have it; `verbatim tests --long` lists them
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Seed of all random choices: one seed, one run
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Keep the records in a new directory, for `verbatim judge` and `verbatim export`
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    /// Leave as soon as the daemon has taken the run, and print its name
    #[arg(long, conflicts_with = "record")]
    detach: bool,
    /// Run under this lease, on its rig: leases/ID or ID, of `verbatim reserve`
    #[arg(long, value_name = "LEASE", conflicts_with = "rig")]
    lease: Option<String>,
    /// Who goes first among those who wait for the rig: low, normal or high, which takes an admin of it
    #[arg(long, value_name = "P", default_value = "normal")]
    priority: Priority,
    /// While it waits for the rig, say its place each time that changes
    #[arg(long)]
    wait: bool,
    /// Print one JSON document on stdout
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// What to run. Whether the rig takes it is not known here.
    fn spec(&self) -> Result<RunSpec, Usage> {
        let parameter = |given: &String| {
            let (name, value) = given
                .split_once('=')
                .ok_or_else(|| Usage(format!("--set {given}: NAME=VALUE was expected")))?;
            let value = number(value).ok_or_else(|| {
                // A daemon may have other tests, and then it says what they take.
                let tests = select(&self.patterns).unwrap_or_default();
                let expected = expected_of(&tests, name).unwrap_or_else(|| "a number was expected".into());
                Usage(format!(
                    "--set {given}: {expected}, in decimal or, with 0x in front, in hexadecimal"
                ))
            })?;
            Ok((name.to_string(), value))
        };
        Ok(RunSpec {
            // That of a lease, the daemon knows.
            rig: self.lease.as_ref().map_or_else(|| self.rig.clone(), |_| String::new()),
            patterns: self.patterns.clone(),
            parameters: self.set.iter().map(parameter).collect::<Result<_, Usage>>()?,
            seed: self.seed,
        })
    }
}

pub(crate) fn run(arguments: &Arguments, place: &Place) -> anyhow::Result<ExitCode> {
    match place {
        Place::Server(address) => remote::run(arguments, address),
        Place::Inside(_) if arguments.detach || arguments.lease.is_some() => {
            place.server(if arguments.detach { "--detach" } else { "--lease" })?;
            Ok(ExitCode::SUCCESS)
        }
        Place::Inside(_) => inside::run(arguments),
    }
}

/// A number in decimal or, with 0x in front, in hexadecimal.
fn number(value: &str) -> Option<u64> {
    match value.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => value.parse().ok(),
    }
}
