//! Code shared by the benches of `verbatim inspect`: packets per second of processor time, and the program to measure.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// Returns the path of the release build of `verbatim`, or the path after `--program`, to measure another version.
pub(crate) fn verbatim() -> anyhow::Result<PathBuf> {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--program");
    if arguments.next().is_some() {
        return Ok(arguments.next().context("--program PATH")?.into());
    }
    verbatim_lab::build_released("verbatim")
}

/// Returns a program's packets per second of processor time. Other load on the machine hardly affects processor time.
pub(crate) fn rate(packets: u32, command: &mut Command) -> anyhow::Result<f64> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("{}", command.get_program().display()))?;
    let mut stdout = child.stdout.take().context("stdout is piped")?;
    io::copy(&mut stdout, &mut io::sink())?;
    // The program has closed its stdout but is not yet reaped, so the kernel still has its times. The first field is
    // its processor time in nanoseconds.
    let times = fs::read_to_string(format!("/proc/{}/schedstat", child.id()))?;
    let status = child.wait()?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    let busy: f64 = times.split(' ').next().context("no time in schedstat")?.parse()?;
    Ok(f64::from(packets) * 1e9 / busy)
}

/// Prints the median of the rates with their range; returns whether the median is at least the goal.
pub(crate) fn report(what: &str, values: &mut [f64], least: f64) -> bool {
    values.sort_by(f64::total_cmp);
    let median = values[values.len() / 2];
    let reached = median >= least;
    println!(
        "{what}: median {median:.0} of {} ({:.0}..{:.0}), goal at least {least}: {}",
        values.len(),
        values[0],
        values[values.len() - 1],
        if reached { "reached" } else { "MISSED" }
    );
    reached
}
