//! What the benches of `verbatim inspect` have in common: packets for each second on the processor, and the program.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// `verbatim` as it is given out, or what `--program PATH` names: another version, to compare.
pub(crate) fn verbatim() -> anyhow::Result<PathBuf> {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--program");
    if arguments.next().is_some() {
        return Ok(arguments.next().context("--program PATH")?.into());
    }
    verbatim_lab::build_released("verbatim")
}

/// Packets per second that a program is on the processor, so that a busy machine does not count.
pub(crate) fn rate(packets: u32, command: &mut Command) -> anyhow::Result<f64> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("{}", command.get_program().display()))?;
    let mut stdout = child.stdout.take().context("stdout is piped")?;
    io::copy(&mut stdout, &mut io::sink())?;
    // It has written all and is not yet waited for, so its times are still there: the first is its own, in nanoseconds.
    let times = fs::read_to_string(format!("/proc/{}/schedstat", child.id()))?;
    let status = child.wait()?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    let busy: f64 = times.split(' ').next().context("no time in schedstat")?.parse()?;
    Ok(f64::from(packets) * 1e9 / busy)
}

/// Prints the median of rates with their range; whether it is at least the goal.
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
