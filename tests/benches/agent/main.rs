//! From a post to its completion, both as the agent stamps them, against the same post-and-poll loop in C: RDMA WRITEs of
//! 8 bytes between rxe0 and rxe1, in one machine, interleaved; ratios printed.
//!
//! `cargo bench -p verbatim-tests --bench agent [-- --pairs N] [--writes N] [--strict]`. `--strict`: exit code 1 when the
//! goal is missed. The machine is emulated: the times themselves say nothing.

#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)] // rates

mod inside;
#[path = "../shared/ratio.rs"]
mod ratio;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use verbatim_machine::{BootOptions, Image, Machine, PAIR_SCRIPT, Share, console_log};
use xtask::{build_c_programs, lab};

/// A measurement takes at most this, on the busiest host.
const LIMIT: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--inside") {
        let count = arguments.get(at + 1).and_then(|word| word.parse().ok());
        return ratio::exit("agent", || inside::run(count.context("--inside N")?).map(|()| true));
    }
    ratio::exit("agent", run)
}

fn run() -> anyhow::Result<bool> {
    let (pairs, writes) = (ratio::option("--pairs", 11)?, ratio::option("--writes", 1000)?);
    let c = build_c_programs()?.join("verbs_loop");
    lab::build_agent()?;
    let agent = lab::build_binaries()?.join("verbatim-agent");
    let ours = std::env::current_exe().context("this program")?;

    let share = Share::new()?;
    share.write("pair.sh", PAIR_SCRIPT)?;
    share.write(
        "agent.cmd",
        format!("exec verbatim-agent --listen unix:{} --device rxe0\n", inside::AGENT),
    )?;
    share.program(&agent)?;
    let c = share.program(&c)?;
    let ours = share.program(&ours)?;
    let options = BootOptions::new(share.path(), "pair.sh", console_log("bench-agent")?)
        .with_cpus(2)
        .with_memory(768);
    let machine = Machine::boot(&Image::ensure()?, &options)?;

    let (mut p50, mut p99) = (Vec::new(), Vec::new());
    for _ in 0..pairs {
        let agent = measure(&machine, &format!("{} --inside {writes}", ours.display()))?;
        let c = measure(&machine, &format!("{} rxe0 rxe1 {writes}", c.display()))?;
        println!(
            "agent p50 {:.1} us, p99 {:.1} us; C p50 {:.1} us, p99 {:.1} us",
            agent.0 / 1e3,
            agent.1 / 1e3,
            c.0 / 1e3,
            c.1 / 1e3
        );
        p50.push(agent.0 / c.0);
        p99.push(agent.1 / c.1);
    }
    let reached = ratio::report(
        "post to completion as the agent stamps them, p50, against post and poll in C",
        &mut p50,
        Some(1.2),
    );
    ratio::report("the same, p99", &mut p99, None);
    Ok(reached)
}

/// Runs a command in the machine and takes its "p50_ns=N p99_ns=N".
fn measure(machine: &Machine, command: &str) -> anyhow::Result<(f64, f64)> {
    let ran = machine.run(command, LIMIT)?;
    let text = ran.text();
    let number = |name: &str| -> Option<f64> {
        let mut words = text.split_whitespace();
        words.find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
    };
    ensure!(ran.status == 0, "{command} ended with {}: {text}", ran.status);
    number("p50_ns")
        .zip(number("p99_ns"))
        .with_context(|| format!("{command} printed no times: {text}"))
}
