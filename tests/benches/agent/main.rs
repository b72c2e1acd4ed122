//! Compares the agent with a loop in C. For the agent, the bench measures the time from a post to its completion,
//! both stamped by the agent. For the loop, the bench measures the time of a post and of the polls for its
//! completion. Agent and loop perform RDMA WRITEs of 8 bytes between rxe0 and rxe1 in one machine, in turns of 30
//! WRITEs. The bench prints the ratios.
//!
//! `cargo bench -p verbatim-tests --bench agent [-- --pairs N] [--rounds N] [--strict]`. One process runs the agent and
//! the loop for a pair of measurements. `--strict`: exit code 1 when the goal is missed.
//!
//! The bench runs in two emulated machines, one after the other, with the same goal. The clock of the first machine
//! counts instructions ([`BootOptions::with_counted_time`]). The result is the same in each run, and leaves out the
//! effects of two processors on each other. The clock of the second machine also measures effects of the emulator's
//! caches. For example, the loop in C takes longer if it formats a few numbers between two posts. A post then takes a
//! few percent longer, although it executes the same instructions.

#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)] // for ratios

#[path = "../shared/command.rs"]
mod command;
mod inside;
#[path = "../shared/ratio.rs"]
mod ratio;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use verbatim_lab::machine::{BootOptions, Image, Machine, PAIR_SCRIPT, Share, console_log};
use verbatim_lab::{build_binaries, build_c_programs};

/// Timeout of one measurement, also on a busy host.
const LIMIT: Duration = Duration::from_secs(120);
const GOAL: Option<f64> = Some(1.2);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--inside") {
        let c = arguments.get(at + 1);
        let rounds = arguments.get(at + 2).and_then(|word| word.parse().ok());
        return command::exit("agent", || {
            let (c, rounds) = c.zip(rounds).context("--inside PROGRAM N")?;
            inside::run(c, rounds).map(|()| true)
        });
    }
    command::exit("agent", run)
}

fn run() -> anyhow::Result<bool> {
    let (pairs, rounds) = (command::option("--pairs", 11)?, command::option("--rounds", 60)?);
    let c = build_c_programs()?.join("verbs_loop");
    let agent = build_binaries()?.join("verbatim-agent");
    let ours = std::env::current_exe().context("this program")?;

    let share = Share::new()?;
    share.write("pair.sh", PAIR_SCRIPT)?;
    share.program(&agent)?;
    let c = share.program(&c)?;
    let ours = share.program(&ours)?;
    let boot = |options: fn(BootOptions) -> BootOptions| {
        let usual = BootOptions::new(share.path(), "pair.sh", console_log("bench-agent")?).with_memory(768);
        anyhow::Ok(Machine::boot(&Image::ensure()?, &options(usual))?)
    };
    let command = format!("{} --inside {} {rounds}", ours.display(), c.display());

    // Counted time is the same in every run, so three runs suffice, and `--pairs` does not apply.
    let counted = boot(BootOptions::with_counted_time)?;
    let (mut p50, mut p99) = ratios(&counted, &command, 3)?;
    let counted_reached = ratio::report(
        "post to completion as the agent stamps them, p50, against post and poll in C, in counted instructions",
        &mut p50,
        GOAL,
    );
    ratio::report("the same, p99", &mut p99, None);
    drop(counted);

    let emulated = boot(|options| options.with_cpus(2))?;
    let (mut p50, mut p99) = ratios(&emulated, &command, pairs)?;
    let reached = ratio::report("the same by the clock of an emulated machine, p50", &mut p50, GOAL);
    ratio::report("the same by the clock of an emulated machine, p99", &mut p99, None);
    Ok(reached && counted_reached)
}

/// Returns, for each pair, the agent's p50 and p99 divided by the p50 and p99 of the loop in C.
fn ratios(machine: &Machine, command: &str, pairs: usize) -> anyhow::Result<(Vec<f64>, Vec<f64>)> {
    let (mut p50, mut p99) = (Vec::new(), Vec::new());
    for _ in 0..pairs {
        let times = measure(machine, command)?;
        let words = times.text.split_whitespace().filter(|word| word.contains('='));
        println!("{}", words.collect::<Vec<_>>().join(" "));
        p50.push(times.of("agent_p50_ns")? / times.of("c_p50_ns")?);
        p99.push(times.of("agent_p99_ns")? / times.of("c_p99_ns")?);
    }
    Ok((p50, p99))
}

/// The output of a measurement: words of the form "NAME=N".
struct Times {
    text: String,
}

impl Times {
    fn of(&self, name: &str) -> anyhow::Result<f64> {
        let mut words = self.text.split_whitespace();
        words
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
            .with_context(|| format!("no {name} in {:?}", self.text))
    }
}

/// Runs a command in the machine and returns its output.
fn measure(machine: &Machine, command: &str) -> anyhow::Result<Times> {
    let ran = machine.run(command, LIMIT)?;
    let text = ran.text().to_string();
    ensure!(ran.status == 0, "{command} ended with {}: {text}", ran.status);
    Ok(Times { text })
}
