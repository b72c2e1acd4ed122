//! The campaign `leases`: several clients create, renew and end leases, and run tests on rigs. The rigs belong to
//! one daemon, or to three daemons that share one PostgreSQL. Meanwhile the campaign kills and restarts daemons,
//! cuts daemons off from the database, or kills the database. Then the campaign checks the stored history and each
//! device.
//!
//! `cargo xtask campaign leases --ops N [--store postgres]`. The last line has the counts. The exit code is 0 if every
//! check passed.

mod clients;
mod house;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use clients::{Told, Wanted, all_ended, client};
use house::{Cable, House};
use tokio::task::JoinSet;
use verbatim_daemon::store::{Filter, HistoryStore, LeaseStore, SqlStore};
use verbatim_lab::campaign::{Dice, argument, number};
use verbatim_proto::v1::{LeaseState, RunState};
use verbatim_tests::reading;

/// Concurrent clients of each daemon.
const CLIENTS: u64 = 4;
/// Largest difference between two clock readings on a machine under load, in nanoseconds.
const JITTER_NS: u64 = 100_000_000;

#[tokio::main]
async fn main() -> ExitCode {
    match campaign().await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("leases campaign: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn campaign() -> anyhow::Result<bool> {
    let operations = number("--times")?;
    let binaries = PathBuf::from(argument("--binaries").context("--binaries DIR")?);
    let seed = argument("--seed").map_or(Ok(1), |seed| seed.parse())?;
    let mishaps: u64 = argument("--kills").map_or(Ok((operations / 500).max(3)), |kills| kills.parse())?;
    let shared = match argument("--store").as_deref() {
        None | Some("sqlite") => false,
        Some("postgres") => true,
        Some(other) => bail!("--store {other}: expected sqlite or postgres"),
    };
    let mut house = House::open(&binaries, shared)?;
    let sound = hold(&mut house, operations, seed, mishaps).await;
    if !matches!(sound, Ok(true)) {
        println!("what is left of it: {}", house.keep().display());
    }
    sound
}

/// Runs the campaign; returns whether every check passed.
async fn hold(house: &mut House, operations: u64, seed: u64, mishaps: u64) -> anyhow::Result<bool> {
    let found = devices(house)?;
    let left = Arc::new(AtomicU64::new(operations));
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS * house.hosts.len() as u64 {
        let wanted = Wanted {
            socket: house.hosts[number as usize % house.hosts.len()].socket(),
            rigs: house.hosts.iter().flat_map(house::Host::rigs).collect(),
            models: house.hosts.iter().map(house::Host::model_rig).collect(),
        };
        clients.spawn(client(wanted, number, seed, Arc::clone(&left)));
    }
    let (mut dice, mut count) = (Dice::of(seed, u64::MAX), [0; 6]);
    for mishap in 0..mishaps {
        // Inject the faults at equal distances among the operations.
        let next = operations - operations * (mishap + 1) / (mishaps + 1);
        while left.load(Ordering::Relaxed) > next {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        count[befall(house, &mut dice).await?] += 1;
    }
    let told = clients.join_all().await;
    let socket = house.hosts[0].socket();
    all_ended(&socket).await?;
    let runs: Vec<String> = told.iter().flat_map(|told| told.runs.values().cloned()).collect();
    let silent = clients::silent(&socket, &runs).await?;
    for host in &mut house.hosts {
        host.stop()?;
    }
    let store = tokio::task::block_in_place(|| house.store())?;
    let mut checked = tokio::task::spawn_blocking(move || check(&store, &told, &silent)).await??;
    let now = devices(house)?;
    let altered = found.iter().zip(&now).filter(|(found, now)| found != now).count();
    checked.strange.truncate(10);
    for strange in &checked.strange {
        println!("STRANGE {strange}");
    }
    println!(
        "leases: {operations} operations (seed {seed}), {} daemons killed, {} cut off, {} cut off silently, {} times the \
         database, {} killed while cut off, {} times all and the database; {}; {altered} devices altered",
        count[0], count[1], count[2], count[3], count[4], count[5], checked.line
    );
    Ok(checked.sound && altered == 0)
}

/// Injects a random fault and repairs it. Returns the number of the fault.
async fn befall(house: &mut House, dice: &mut Dice) -> anyhow::Result<usize> {
    let which = dice.below(house.hosts.len());
    let what = if house.database.is_some() { dice.below(6) } else { 0 };
    let pause = Duration::from_millis(100 + dice.draw() % 2000);
    match what {
        0 => {
            let starting = house.hosts[which].kill()?;
            tokio::task::block_in_place(|| starting.serving())?;
        }
        1 | 2 => {
            let host = &house.hosts[which];
            host.plug(if what == 1 { Cable::Severed } else { Cable::Silent });
            tokio::time::sleep(pause).await;
            host.plug(Cable::Whole);
        }
        4 => {
            let host = &mut house.hosts[which];
            host.plug(Cable::Severed);
            let starting = host.kill()?;
            tokio::time::sleep(pause).await;
            host.plug(Cable::Whole);
            tokio::task::block_in_place(|| starting.serving())?;
        }
        _ => {
            if let Some(database) = &mut house.database {
                database.kill();
                // Fault 5: the daemons are killed too, as when the lab's power fails.
                let hosts = house.hosts.iter_mut().filter(|_| what == 5);
                let starting = hosts.map(house::Host::kill).collect::<anyhow::Result<Vec<_>>>()?;
                tokio::time::sleep(pause).await;
                database.go_on()?;
                for starting in starting {
                    tokio::task::block_in_place(|| starting.serving())?;
                }
            }
        }
    }
    Ok(what)
}

/// Reads the devices that outlive their daemons.
fn devices(house: &House) -> anyhow::Result<Vec<Vec<(String, String)>>> {
    let of = |host: &house::Host| {
        let fields = reading::fields(&host.rig_file(), &host.model_rig())?;
        let counts = |name: &str| name.ends_with("Violations") || name.starts_with("PortCounters");
        Ok(fields.into_iter().filter(|(name, _)| !counts(name)).collect())
    };
    house.hosts.iter().map(of).collect()
}

struct Checked {
    sound: bool,
    line: String,
    strange: Vec<String>,
}

fn check(store: &SqlStore, told: &[Told], silent: &[String]) -> anyhow::Result<Checked> {
    let leases = store.leases(true, usize::MAX)?;
    let runs = store.list(&Filter::default(), None, usize::MAX)?;
    let names: BTreeSet<String> = leases.iter().map(|lease| format!("leases/{}", lease.id)).collect();
    let run_names: BTreeSet<String> = runs.iter().map(|kept| format!("runs/{}", kept.run.id)).collect();
    let told_leases: Vec<&String> = told.iter().flat_map(|told| told.leases.values()).collect();
    let told_runs: Vec<&String> = told.iter().flat_map(|told| told.runs.values()).collect();
    let lost = told_leases.iter().filter(|name| !names.contains(**name)).count()
        + told_runs.iter().filter(|name| !run_names.contains(**name)).count();
    let doubled = (told_leases.len() - told_leases.iter().collect::<BTreeSet<_>>().len())
        + (told_runs.len() - told_runs.iter().collect::<BTreeSet<_>>().len())
        + (runs.len() - run_names.len());
    let unfinished = leases.iter().filter(|lease| lease.state != LeaseState::Ended).count()
        + runs.iter().filter(|kept| kept.run.state != RunState::Ended).count();
    let rigs: BTreeSet<&str> = leases
        .iter()
        .map(|lease| lease.rig.as_str())
        .filter(|rig| !rig.is_empty())
        .collect();
    let mut overlaps = 0;
    for rig in rigs {
        let held = leases.iter().filter(|lease| lease.rig == rig);
        overlaps += overlapping(held.filter_map(|lease| lease.granted_ns.zip(lease.ended_ns)).collect());
        let ran = runs.iter().map(|kept| &kept.run).filter(|run| run.spec.rig == rig);
        overlaps += overlapping(ran.filter_map(|run| run.started_ns.zip(run.ended_ns)).collect());
    }
    let tokens: Vec<u64> = leases
        .iter()
        .map(|lease| lease.token)
        .filter(|token| *token > 0)
        .collect();
    let repeated = tokens.len() - tokens.iter().collect::<BTreeSet<_>>().len();
    let mut latencies: Vec<Duration> = told.iter().flat_map(|told| told.latencies.iter().copied()).collect();
    latencies.sort_unstable();
    let at = |per_cent: usize| {
        let at = latencies.get(latencies.len() * per_cent / 100);
        at.map_or(0.0, |at| at.as_secs_f64() * 1e3)
    };
    let refused: u64 = told.iter().map(|told| told.refused).sum();
    let strange: Vec<String> = told.iter().flat_map(|told| told.strange.iter().cloned()).collect();
    // Count the reasons in which a daemon reports its own defect.
    let of_leases = leases.iter().map(|lease| &lease.reason);
    let reasons = of_leases.chain(runs.iter().map(|kept| &kept.run.reason));
    let reported = reasons.filter(|reason| reason.contains("please report")).count();
    let wrong = reported + lost + doubled + overlaps + repeated + unfinished + silent.len() + strange.len();
    let line = format!(
        "{refused} refused, {} strange; {} leases, {} runs, {} grants: {lost} lost, {doubled} doubled, {overlaps} overlapping, \
         {repeated} tokens repeated, {unfinished} unfinished, {} whose watchers hear no end, {reported} ended by a defect; creation p50 {:.2} ms, p99 {:.2} ms",
        strange.len(),
        leases.len(),
        runs.len(),
        tokens.len(),
        silent.len(),
        at(50),
        at(99),
    );
    Ok(Checked {
        sound: wrong == 0,
        line,
        strange,
    })
}

/// Returns how many of these intervals (nanoseconds) of one rig overlap.
fn overlapping(mut intervals: Vec<(u64, u64)>) -> usize {
    intervals.sort_unstable();
    let pairs = intervals.windows(2);
    pairs.filter(|pair| pair[1].0 + JITTER_NS < pair[0].1).count()
}
