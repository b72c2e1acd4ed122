//! The vib campaign: defects of the management agents die through the kernel's own road, and the device gets back what was
//! its own after kill -9 of whoever takes part.
//!
//! `cargo xtask campaign vib --sample N --seed S --kills K`. The last line counts; the exit code is the verdict.

mod defects;
mod kills;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use verbatim_lab::machine::Ran;
use verbatim_lab::{SubnetManager, VibLab, VibOptions};

/// What a command in the machine may take. The longest are tests that prove silence again and again.
const LIMIT: Duration = Duration::from_secs(900);

fn main() -> ExitCode {
    match campaign() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("vib campaign: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A small generator. The seed is printed, so that a campaign can be repeated.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn argument(name: &str) -> Option<String> {
    let arguments: Vec<String> = std::env::args().collect();
    // The last one holds: what people give comes behind what the campaign's start says.
    let place = arguments.iter().rposition(|argument| argument == name)?;
    arguments.get(place + 1).cloned()
}

fn number(name: &str) -> anyhow::Result<u64> {
    let text = argument(name).with_context(|| format!("{name} N is missing"))?;
    text.parse()
        .with_context(|| format!("{name}: a number was expected, seen {text:?}"))
}

fn campaign() -> anyhow::Result<usize> {
    let (sample, kills, seed) = (number("--sample")?, number("--kills")?, number("--seed")?);
    let binaries = PathBuf::from(argument("--binaries").context("--binaries DIR")?);
    let reader = PathBuf::from(argument("--reader").context("--reader PROGRAM")?);
    let mut dice = Dice(seed);
    let mut exceptions = Vec::new();
    let mut house = House {
        binaries,
        reader,
        exceptions: &mut exceptions,
    };
    let tried = house.defects(sample, &mut dice)?;
    let killed = house.kills(kills, &mut dice)?;
    for exception in &exceptions {
        println!("EXCEPTION {exception}");
    }
    println!(
        "{tried} defects on vib, {} kills, {} of them in mid-run (seed {seed}); {} exceptions",
        killed.times,
        killed.interrupted,
        exceptions.len()
    );
    ensure!(
        killed.interrupted > 0 || killed.times < 6,
        "no run was interrupted: the kills test nothing"
    );
    Ok(exceptions.len())
}

/// What the campaign's parts have in common.
struct House<'a> {
    binaries: PathBuf,
    /// The program `umad_read`.
    reader: PathBuf,
    exceptions: &'a mut Vec<String>,
}

impl House<'_> {
    fn lab(&self, model: &[&str], subnet_manager: SubnetManager) -> anyhow::Result<VibLab> {
        let options = VibOptions {
            model: model.iter().map(Into::into).collect(),
            programs: vec![self.reader.clone()],
            subnet_manager,
            ..VibOptions::default()
        };
        VibLab::start(&self.binaries, options)
    }

    fn except(&mut self, exception: String) {
        eprintln!("vib campaign: {exception}");
        self.exceptions.push(exception);
    }
}

/// Runs a command in the machine.
fn run(lab: &VibLab, command: &str) -> anyhow::Result<Ran> {
    Ok(lab.machine().run(&format!("{}{command}", lab.environment()), LIMIT)?)
}
