//! `cargo xtask test`: builds all test programs, then runs them in parallel, according to their load of the processors.

mod jobs;
mod programs;
mod schedule;
mod times;

use std::process::Command;
use std::time::Instant;

use anyhow::bail;
use verbatim_lab::LAB_PROFILE;
use verbatim_lab::workspace::cargo;

use self::times::{Row, Table};

/// Returns a cargo command for all packages, in the profile of labs and campaigns, so that all share one build.
pub(crate) fn of_workspace(command: &str) -> Command {
    let mut cargo = cargo();
    cargo.args([command, "--profile", LAB_PROFILE, "--workspace"]);
    cargo
}

/// Builds and runs all tests, including the documentation's examples, and prints the times.
///
/// With `every_job`, the table has a line for each job, otherwise for the ten longest jobs.
///
/// # Errors
///
/// Returns an error when a build fails, or an error that names all failed jobs.
pub(crate) fn test(every_job: bool) -> anyhow::Result<()> {
    let start = Instant::now();
    let (programs, building) = programs::build()?;
    verbatim_lab::machine::choose_accelerator()?;
    let jobs = jobs::all(&programs)?;
    let ran = schedule::run(jobs)?;
    let failed: Vec<&str> = ran
        .iter()
        .filter(|row| row.failed)
        .map(|row| row.name.as_str())
        .collect();
    let table = Table {
        rows: std::iter::once(building).chain(ran.iter().cloned()).collect(),
        wall: start.elapsed(),
    };
    println!("{}", table.text(every_job));
    let (passed, broken) = ran.iter().fold((0, 0), |(passed, broken), row: &Row| {
        (passed + row.passed, broken + row.broken)
    });
    println!("{passed} passed, {broken} failed");
    if !failed.is_empty() {
        bail!("tests failed in: {}", failed.join(", "));
    }
    Ok(())
}
