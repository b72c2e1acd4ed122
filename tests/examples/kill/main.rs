//! The kill campaign: kill -9 of daemon, worker or both at random instants while tests change a device, on the device
//! model as a process and on ibsim. After the next start every field that can be restored is as it was found, and the run
//! that was interrupted has ended ERROR with a cause and its record.
//!
//! `cargo xtask campaign kill --times N`. The last line counts; the exit code is the verdict.

mod device;
mod house;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use house::{House, Kind, Victim};
use verbatim_lab::campaign::{Dice, argument, number};

fn main() -> ExitCode {
    match campaign() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("kill campaign: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn campaign() -> anyhow::Result<usize> {
    let times = number("--times")?;
    let binaries = PathBuf::from(argument("--binaries").context("--binaries DIR")?);
    let seed = argument("--seed").map_or(Ok(1), |seed| seed.parse())?;
    let mut dice = Dice::of(seed, 0);
    let mut exceptions = Vec::new();
    let (mut interrupted, mut finished) = (0, 0);
    // ibsim's ten slots leak with each SIGKILLed client: a fresh house every few kills.
    let mut left = times;
    let mut turn = 0;
    while left > 0 {
        let kind = if turn % 2 == 0 { Kind::Model } else { Kind::Ibsim };
        turn += 1;
        let mut house = House::open(kind, &binaries)?;
        let found = house.fields()?;
        for _ in 0..left.min(5) {
            left -= 1;
            let victim = dice.pick(&[Victim::Daemon, Victim::Worker, Victim::Both]);
            let wait = Duration::from_millis(20 + dice.draw() % 1500);
            let what = format!("{kind:?}, {victim:?} killed after {} ms", wait.as_millis());
            match house.kill_in_mid_run(victim, wait, dice.below(2) == 0) {
                Ok(true) => interrupted += 1,
                Ok(false) => finished += 1,
                Err(error) => exceptions.push(format!("{what}: {error:#}")),
            }
            match house.fields() {
                Ok(now) => exceptions.extend(
                    device::differences(&found, &now)
                        .into_iter()
                        .map(|difference| format!("{what}: {difference}")),
                ),
                Err(error) => exceptions.push(format!("{what}: the device cannot be read: {error:#}")),
            }
            if let Some(last) = exceptions.last() {
                eprintln!("kill campaign: {last}");
            }
        }
        house.close()?;
    }
    for exception in &exceptions {
        println!("EXCEPTION {exception}");
    }
    println!(
        "{times} kills (seed {seed}): {interrupted} runs interrupted, {finished} had ended before; {} exceptions",
        exceptions.len()
    );
    if interrupted == 0 && times > 20 {
        bail!("no run was interrupted: the campaign tests nothing");
    }
    Ok(exceptions.len())
}
