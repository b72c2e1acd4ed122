//! The kill campaign: kill -9 of daemon, worker, client and restore at random instants, one or several of them, while tests change a
//! device and runs wait, on the device model as a process and on ibsim. After the next start every field that can be restored is as
//! it was found, each run is there once, and one that was interrupted has ended ERROR with a cause and its record.
//!
//! `cargo xtask campaign kill --times N`. The last line counts; the exit code is the verdict.

mod device;
mod house;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use house::{CORRUPT, DOUBLED, House, Kind, LOST, Victim};
use verbatim_lab::campaign::{Dice, argument, number};

/// How an exception is told that is of a device which is not as it was found.
const ALTERED: &str = "altered";

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

/// Tests of which a run changes the device, and is under way long enough to be killed.
const TESTS: [&str; 2] = ["c14-016-set-protect-2", "c14-024-vl-arbitration-ca"];
/// A short one, for those who wait.
const SHORT: &str = "c14-024-node-info";

/// Who is killed at a time: each alone, and several together.
fn draw(dice: &mut Dice) -> BTreeSet<Victim> {
    let all = [Victim::Daemon, Victim::Worker, Victim::Client, Victim::Restore];
    let mut victims: BTreeSet<Victim> = all.into_iter().filter(|_| dice.below(3) == 0).collect();
    if victims.contains(&Victim::Restore) && victims.len() == 1 {
        // There is one when somebody left the device changed.
        victims.insert(Victim::Worker);
    }
    if victims.is_empty() {
        victims.insert(dice.pick(&all[..3]));
    }
    victims
}

/// Exceptions of one kind.
fn of_kind(exceptions: &[String], kind: &str) -> usize {
    exceptions.iter().filter(|exception| exception.contains(kind)).count()
}

fn campaign() -> anyhow::Result<usize> {
    let times = number("--times")?;
    let binaries = PathBuf::from(argument("--binaries").context("--binaries DIR")?);
    let seed = argument("--seed").map_or(Ok(1), |seed| seed.parse())?;
    let mut dice = Dice::of(seed, 0);
    let mut exceptions = Vec::new();
    let (mut interrupted, mut restores, mut dead) = (0, 0, 0);
    let mut quarantined = 0_u64;
    // ibsim's ten slots leak with each SIGKILLed client: a fresh house every few kills.
    let mut left = times;
    let mut turn = 0;
    while left > 0 {
        let kind = if turn % 2 == 0 { Kind::Model } else { Kind::Ibsim };
        turn += 1;
        let mut house = House::open(kind, &binaries)?;
        let found = house.fields()?;
        for _ in 0..left.min(4) {
            left -= 1;
            let victims = draw(&mut dice);
            let wait = Duration::from_millis(20 + dice.draw() % 1500);
            let what = format!("{kind:?}, {victims:?} killed after {} ms", wait.as_millis());
            let first = dice.pick(&TESTS);
            let queue = [first, SHORT, SHORT];
            let before = exceptions.len();
            match house.kill_in_mid_run(&victims, wait, &queue[..1 + dice.below(3)]) {
                Ok(came) => {
                    interrupted += came.interrupted;
                    quarantined += u64::from(came.quarantined);
                    restores += usize::from(came.restore_killed);
                    dead += victims.len();
                }
                Err(error) => exceptions.push(format!("{what}: {error:#}")),
            }
            match house.fields() {
                Ok(now) => exceptions.extend(
                    device::differences(&found, &now)
                        .into_iter()
                        .map(|difference| format!("{what}: {ALTERED}: {difference}")),
                ),
                Err(error) => exceptions.push(format!("{what}: the device cannot be read: {error:#}")),
            }
            for new in &exceptions[before..] {
                eprintln!("kill campaign: {new}");
            }
            if exceptions.len() > before {
                // What comes after is to be told apart from it: such as of a simulator that has ended.
                break;
            }
        }
        if let Err(error) = house.close() {
            exceptions.push(format!("{kind:?}: {error:#}"));
        }
    }
    for exception in &exceptions {
        println!("EXCEPTION {exception}");
    }
    println!(
        "{times} kills of {dead} processes (seed {seed}), {restores} of them restores: {interrupted} runs interrupted; {} lost, {} \
         doubled, {} devices altered, {} corrupt stores, {quarantined} quarantined; {} exceptions",
        of_kind(&exceptions, LOST),
        of_kind(&exceptions, DOUBLED),
        of_kind(&exceptions, ALTERED),
        of_kind(&exceptions, CORRUPT),
        exceptions.len()
    );
    if interrupted == 0 && times > 20 {
        bail!("no run was interrupted: the campaign tests nothing");
    }
    if quarantined * 100 > times && quarantined > 1 {
        bail!("{quarantined} of {times} rounds ended quarantined, at most 1 % was expected");
    }
    Ok(exceptions.len())
}
