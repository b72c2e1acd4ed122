//! Compares the tester's speed on ibsim with that of a C loop over libibmad on the same simulator. Runs of both
//! alternate. The bench prints the ratios.
//!
//! `cargo bench -p verbatim-tests --bench ibsim [-- --pairs N]`. Absolute numbers mean little on a shared machine, so
//! the result is the median of the pairwise ratios.

mod measured;

use std::process::{Command, ExitCode};

use anyhow::{Context, bail};
use verbatim_lab::{IbsimLab, build_c_programs};

/// Environment variable that names the measurement. The variable is set only in the child process, which runs under the
/// simulator's preload.
pub(crate) const MODE: &str = "VERBATIM_BENCH_MODE";
/// Round trips of one measurement.
const ROUND_TRIPS: &str = "20000";

fn main() -> ExitCode {
    let done = match std::env::var(MODE) {
        Ok(mode) => measured::run(&mode),
        Err(_) => parent(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench ibsim: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn parent() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let pairs = match arguments.iter().position(|argument| argument == "--pairs") {
        Some(at) => arguments.get(at + 1).context("--pairs N")?.parse()?,
        None => 11,
    };
    let lab = IbsimLab::start()?;
    let c_loop = build_c_programs()?.join("ibmad_loop");
    let c = || {
        measure(
            &lab,
            Command::new(&c_loop).args(["ibsim0", "1", ROUND_TRIPS, "nodeinfo"]),
        )
    };
    let ours = |mode: &str| {
        let program = std::env::current_exe()?;
        measure(
            &lab,
            Command::new(program)
                .env(MODE, mode)
                .env("VERBATIM_BENCH_COUNT", ROUND_TRIPS),
        )
    };
    let (mut one, mut sixteen) = (Vec::new(), Vec::new());
    for _ in 0..pairs {
        one.push(ours("window 1")? / c()?);
        sixteen.push(ours("window 16")? / c()?);
    }
    report(
        "one at a time, against C over libibmad",
        &mut one,
        "at least 0.95",
        |ratio| ratio >= 0.95,
    );
    report(
        "window 16, against C over libibmad one at a time",
        &mut sixteen,
        "at least 2.5",
        |ratio| ratio >= 2.5,
    );
    let (mut sweep, mut judged, mut bytes) = (Vec::new(), Vec::new(), 0.0);
    for _ in 0..pairs.min(5) {
        let bare = ours("sweep bare")?;
        sweep.push(ours("sweep recorded")? / bare);
        judged.push(ours("sweep judged")?);
        bytes = ours("sweep bytes")?;
    }
    report(
        "sweep of 65,536 parts recorded, against bare pipelined sends (time)",
        &mut sweep,
        "at most 1.5",
        |r| r <= 1.5,
    );
    report("sweep judged, seconds", &mut judged, "below 1", |seconds| seconds < 1.0);
    println!(
        "record of the sweep: {:.1} MB, goal below 60: {}",
        bytes / 1e6,
        verdict(bytes < 60e6)
    );
    Ok(())
}

/// Runs a command on the simulator and returns the number after an `=` in its output.
fn measure(lab: &IbsimLab, command: &mut Command) -> anyhow::Result<f64> {
    lab.attach(command, "A");
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let number = text.lines().find_map(|line| {
        line.split_whitespace()
            .find_map(|word| word.split_once('=')?.1.parse().ok())
    });
    match number {
        Some(number) if output.status.success() => Ok(number),
        _ => bail!(
            "{command:?} ended with {}: {text}{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        ),
    }
}

fn report(what: &str, values: &mut [f64], goal: &str, reached: impl Fn(f64) -> bool) {
    values.sort_by(f64::total_cmp);
    let median = values[values.len() / 2];
    println!(
        "{what}: median {median:.3} of {} ({:.3}..{:.3}), goal {goal}: {}",
        values.len(),
        values[0],
        values[values.len() - 1],
        verdict(reached(median))
    );
}

fn verdict(reached: bool) -> &'static str {
    if reached { "reached" } else { "MISSED" }
}
