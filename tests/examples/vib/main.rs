//! The campaign `vib`: tests must find defects of the management agents through the kernel's own umad interface. After
//! a SIGKILL of any process of the run, the device must get its original state back.
//!
//! `cargo xtask campaign vib --sample N --jobs J --kills K --seed S`. The last line has the counts. The exit code is 0
//! if every check passed.

mod defects;
mod kills;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use verbatim_lab::campaign::{Dice, argument, number};
use verbatim_lab::machine::Ran;
use verbatim_lab::{SubnetManager, VibLab, VibOptions};

/// Longest time of a command in the machine. Tests with many proofs of silence take longest.
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

fn campaign() -> anyhow::Result<usize> {
    let (sample, kills, seed) = (number("--sample")?, number("--kills")?, number("--seed")?);
    let binaries = PathBuf::from(argument("--binaries").context("--binaries DIR")?);
    let reader = PathBuf::from(argument("--reader").context("--reader PROGRAM")?);
    let mut dice = Dice::of(seed, 0);
    let mut exceptions = Vec::new();
    let mut house = House {
        binaries,
        reader,
        exceptions: &mut exceptions,
    };
    let jobs = u8::try_from(number("--jobs")?).context("--jobs")?;
    let tried = house.defects(sample, jobs, &mut dice)?;
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

/// State shared by the campaign's parts.
struct House<'a> {
    binaries: PathBuf,
    /// The program `umad_read`.
    reader: PathBuf,
    exceptions: &'a mut Vec<String>,
}

impl House<'_> {
    fn lab(&self, ports: u8, subnet_manager: SubnetManager) -> anyhow::Result<VibLab> {
        let options = VibOptions {
            ports,
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

fn run(lab: &VibLab, command: &str) -> anyhow::Result<Ran> {
    Ok(lab.machine().run(&format!("{}{command}", lab.environment()), LIMIT)?)
}
