//! The campaign `kill`: sends SIGKILL to one or several processes at random instants, while tests change a device
//! and runs wait. The processes are daemon, worker, client, restore and agent. The devices are the device model as
//! a process, ibsim, and a Python device that shares a process with its agent. After the next start the campaign
//! checks that every restorable field has its original value, and that the daemon serves the next test. Each run
//! must exist once. An interrupted run must have ended with ERROR, a cause and its record.
//!
//! `cargo xtask campaign kill --times N --jobs J`. The last line has the counts. The exit code is 0 if every check
//! passed.

mod device;
mod house;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use house::{CORRUPT, DOUBLED, House, Kind, LOST, Victim};
use verbatim_lab::campaign::{Dice, argument, number};

/// Word in a report about a device that differs from its original state.
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

/// Number of kills for one device and daemon. The number is small, because each killed client leaks one of ibsim's ten
/// slots.
const KILLS: u64 = 4;

/// Draws the processes to kill together: one or several.
fn draw(dice: &mut Dice, kind: Kind) -> BTreeSet<Victim> {
    let all: &[Victim] = match kind {
        Kind::Model | Kind::Ibsim => &[Victim::Daemon, Victim::Worker, Victim::Client, Victim::Restore],
        // The agent's queue pairs end with their session, so there is no restore to kill.
        Kind::Agent => &[Victim::Daemon, Victim::Worker, Victim::Client, Victim::Agent],
    };
    let mut victims: BTreeSet<Victim> = all.iter().copied().filter(|_| dice.below(3) == 0).collect();
    if victims.contains(&Victim::Restore) && victims.len() == 1 {
        // A restore only happens when a killed process left the device changed.
        victims.insert(Victim::Worker);
    }
    if victims.is_empty() {
        victims.insert(dice.pick(&all[..3]));
    }
    victims
}

/// Returns the number of reports of one kind.
fn of_kind(exceptions: &[String], kind: &str) -> usize {
    exceptions.iter().filter(|exception| exception.contains(kind)).count()
}

/// The outcomes of all kills.
#[derive(Default)]
struct Tally {
    exceptions: Vec<String>,
    interrupted: usize,
    restores: usize,
    dead: usize,
    agents: usize,
    quarantined: u64,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.exceptions.extend(other.exceptions);
        self.interrupted += other.interrupted;
        self.restores += other.restores;
        self.dead += other.dead;
        self.agents += other.agents;
        self.quarantined += other.quarantined;
    }
}

/// Starts a device and a daemon, and performs `kills` kills with them.
fn in_a_house(kind: Kind, binaries: &Path, kills: u64, mut dice: Dice) -> anyhow::Result<Tally> {
    let mut tally = Tally::default();
    let mut house = House::open(kind, binaries)?;
    let found = house.fields()?;
    for _ in 0..kills {
        let victims = draw(&mut dice, kind);
        let wait = Duration::from_millis(20 + dice.draw() % 1500);
        let what = format!("{kind:?}, {victims:?} killed after {} ms", wait.as_millis());
        let (long, short) = kind.tests();
        let queue = [dice.pick(long), short, short];
        match house.kill_in_mid_run(&victims, wait, &queue[..1 + dice.below(3)]) {
            Ok(came) => {
                tally.interrupted += came.interrupted;
                tally.quarantined += u64::from(came.quarantined);
                tally.restores += usize::from(came.restore_killed);
                tally.agents += usize::from(victims.contains(&Victim::Agent));
                tally.dead += victims.len();
            }
            Err(error) => tally.exceptions.push(format!("{what}: {error:#}")),
        }
        match house.fields() {
            Ok(now) => tally.exceptions.extend(
                device::differences(&found, &now)
                    .into_iter()
                    .map(|difference| format!("{what}: {ALTERED}: {difference}")),
            ),
            Err(error) => tally
                .exceptions
                .push(format!("{what}: the device cannot be read: {error:#}")),
        }
        if !tally.exceptions.is_empty() {
            // Stop here: later failures may be consequences of this failure, for example of an ended simulator.
            break;
        }
    }
    if let Err(error) = house.close() {
        tally.exceptions.push(format!("{kind:?}: {error:#}"));
    }
    Ok(tally)
}

fn campaign() -> anyhow::Result<usize> {
    let times = number("--times")?;
    let binaries = PathBuf::from(argument("--binaries").context("--binaries DIR")?);
    let seed = argument("--seed").map_or(Ok(1), |seed| seed.parse())?;
    let jobs: usize = argument("--jobs").map_or(Ok(2), |jobs| jobs.parse())?;
    let (next, all) = (AtomicU64::new(0), Mutex::new(Tally::default()));
    let work = || {
        loop {
            let turn = next.fetch_add(1, Ordering::Relaxed);
            let kills = times.saturating_sub(turn * KILLS).min(KILLS);
            if kills == 0 {
                return;
            }
            let kind = [Kind::Model, Kind::Ibsim, Kind::Agent][(turn % 3) as usize];
            let came = in_a_house(kind, &binaries, kills, Dice::of(seed, turn)).unwrap_or_else(|error| Tally {
                exceptions: vec![format!("{kind:?}: {error:#}")],
                ..Tally::default()
            });
            for exception in &came.exceptions {
                eprintln!("kill campaign: house {turn}: {exception}");
            }
            all.lock().unwrap_or_else(PoisonError::into_inner).add(came);
        }
    };
    std::thread::scope(|scope| (0..jobs.max(1)).for_each(|_| drop(scope.spawn(work))));
    let Tally {
        exceptions,
        interrupted,
        restores,
        dead,
        agents,
        quarantined,
    } = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    for exception in &exceptions {
        println!("EXCEPTION {exception}");
    }
    println!(
        "{times} kills of {dead} processes (seed {seed}), {restores} of them restores, {agents} agents: {interrupted} runs \
         interrupted; {} lost, {} doubled, {} devices altered, {} corrupt stores, {quarantined} quarantined; {} exceptions",
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
