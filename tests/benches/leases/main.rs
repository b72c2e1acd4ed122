//! A daemon of a large lab: 2,000 held rigs, 10,000 waiting runs, 200 watchers. The bench measures the time to
//! create a lease and to list the rigs, and compares with labgrid's coordinator under the same load. The bench
//! also measures the time to the first response of a daemon with 60,000 ended runs.
//!
//! `cargo bench -p verbatim-tests --bench leases [-- --program VERBATIMD] [--rigs N] [--queued N] [--watchers N]
//! [--kept N] [--times N] [--labgrid ENVIRONMENT] [--strict]`. Blocks of both daemons are interleaved. `--labgrid`
//! names a Python environment with labgrid (`pip install labgrid`); otherwise the comparison is left out. `--strict`:
//! exit code 1 when a goal is missed.

#![allow(clippy::cast_precision_loss)] // for times and ratios

#[path = "../shared/command.rs"]
mod command;
mod house;
mod labgrid;
#[allow(dead_code)]
#[path = "../shared/ratio.rs"]
mod ratio;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use command::{exit, option};
use house::{House, Load};
use labgrid::Labgrid;
use ratio::quantile;
use verbatim_client::{Client, LeaseName};
use verbatim_proto::v1::CreateLeaseRequest;

/// Number of blocks of measurements. Each block is paired with a block on labgrid's coordinator.
const BLOCKS: usize = 5;
/// Number of free rigs. A lease of a free rig is active at once.
const FREE: usize = 4;
/// Number of watchers that share a connection.
const EACH: usize = 20;
/// Duration of the measurement of the idle daemon's processor time.
const REST: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    exit("leases", run)
}

/// Returns the path after an option of the command line.
fn path(name: &str) -> Option<PathBuf> {
    std::env::args()
        .skip_while(|argument| argument != name)
        .nth(1)
        .map(PathBuf::from)
}

fn run() -> anyhow::Result<bool> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let program = match path("--program") {
        Some(program) => program,
        None => verbatim_lab::build_released("verbatim-daemon")?.with_file_name("verbatimd"),
    };
    let large = runtime.block_on(large(&program))?;
    let many = runtime.block_on(kept(&program))?;
    Ok(large && many)
}

/// Prints one measurement in milliseconds; returns whether the goal is reached.
fn told(what: &str, seconds: &mut [f64], cpu_s: f64, goal_ms: Option<f64>) -> bool {
    let median = quantile(seconds, 0.5) * 1e3;
    let reached = goal_ms.is_none_or(|goal| median < goal);
    let goal = goal_ms.map_or(String::new(), |goal| {
        format!(", goal under {goal} ms: {}", if reached { "reached" } else { "MISSED" })
    });
    println!(
        "{what}: p50 {median:.2} ms of {}, p99 {:.2} ms; {:.2} ms on the processor each{goal}",
        seconds.len(),
        quantile(seconds, 0.99) * 1e3,
        cpu_s * 1e3 / seconds.len() as f64
    );
    reached
}

async fn large(program: &Path) -> anyhow::Result<bool> {
    let (rigs, queued) = (option("--rigs", 2_000)?, option("--queued", 10_000)?);
    let (watchers, times) = (option("--watchers", 200)?, option("--times", 200)?);
    let load = Load {
        rigs,
        free: FREE,
        queued,
        kept: 0,
    };
    let mut house = House::furnish(program, load)?;
    let (client, first) = house.start().await?;
    println!(
        "{rigs} rigs, {queued} runs that wait: the first answer {:.0} ms after the start",
        first.as_secs_f64() * 1e3
    );
    for _ in 0..watchers.div_ceil(EACH) {
        let connection = Client::connect(client.address().clone()).await?;
        for _ in 0..EACH {
            let mut watch = connection.watch_rigs().await?;
            watch.next().await?;
            tokio::spawn(async move { while let Ok(Some(_)) = watch.next().await {} });
        }
    }
    let mut labgrid = match path("--labgrid") {
        Some(environment) => Some(Labgrid::start(&environment, rigs, queued, watchers)?),
        None => None,
    };
    let before = house.busy_s()?;
    tokio::time::sleep(REST).await;
    let idle = (house.busy_s()? - before) / REST.as_secs_f64();
    println!(
        "{watchers} watchers, nothing happens: {:.0} % of a processor",
        idle * 100.0
    );

    let (mut waits, mut gets, mut lists, mut theirs) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut busy = [0.0; 3];
    let mut ratios = Vec::new();
    for _ in 0..BLOCKS {
        let share = times.div_ceil(BLOCKS);
        let mut block = Vec::new();
        let before = house.busy_s()?;
        for number in 0..share {
            block.push(lease(&client, number % rigs).await?);
        }
        busy[0] += house.busy_s()? - before;
        if let Some(labgrid) = &mut labgrid {
            let mut other = labgrid.reserve(share)?;
            ratios.push(quantile(&mut other, 0.5) / quantile(&mut block, 0.5));
            theirs.extend(other);
        }
        waits.extend(block);
        let before = house.busy_s()?;
        for number in 0..share {
            gets.push(lease(&client, rigs + number % FREE).await?);
        }
        busy[1] += house.busy_s()? - before;
        let before = house.busy_s()?;
        for _ in 0..share {
            let began = Instant::now();
            let listed = client.list_rigs().await?;
            lists.push(began.elapsed().as_secs_f64());
            anyhow::ensure!(listed.len() >= rigs + FREE, "{} rigs are listed", listed.len());
        }
        busy[2] += house.busy_s()? - before;
    }
    let mut reached = told(
        "lease that waits, made (its end on the processor too)",
        &mut waits,
        busy[0],
        Some(1.0),
    );
    reached &= told(
        "lease that gets its rig, made (the same)",
        &mut gets,
        busy[1],
        Some(1.0),
    );
    reached &= told("list of rigs", &mut lists, busy[2], Some(5.0));
    if let Some(labgrid) = &labgrid {
        let median = quantile(&mut ratios, 0.5);
        reached &= median >= 10.0;
        println!(
            "labgrid, {} reservations that wait: p50 {:.2} ms of {}, {median:.1} x ours in the median of {BLOCKS} blocks \
             ({:.1}..{:.1}), goal at least 10: {}",
            labgrid.queued,
            quantile(&mut theirs, 0.5) * 1e3,
            theirs.len(),
            ratios[0],
            ratios[ratios.len() - 1],
            if median >= 10.0 { "reached" } else { "MISSED" }
        );
    }
    let memory = house.most_memory()?;
    println!(
        "memory at most {memory:.0} MiB, goal under 200: {}",
        if memory < 200.0 { "reached" } else { "MISSED" }
    );
    Ok(reached && memory < 200.0)
}

/// Returns the seconds that creating a lease of a rig takes, and ends the lease.
async fn lease(client: &Client, number: usize) -> anyhow::Result<f64> {
    let request = CreateLeaseRequest {
        rig: house::rig(number),
        lasts_s: 600,
        ..CreateLeaseRequest::default()
    };
    let began = Instant::now();
    let lease = client.create_lease(&request).await?;
    let took = began.elapsed().as_secs_f64();
    let name: LeaseName = lease.name.parse().ok().context("a lease without a name")?;
    client.end_lease(&name).await?;
    Ok(took)
}

/// Measures the time to the first response of a daemon with many ended runs. Returns whether the goal is reached.
async fn kept(program: &Path) -> anyhow::Result<bool> {
    let kept = option("--kept", 60_000)?;
    let load = Load {
        rigs: 0,
        free: 1,
        queued: 0,
        kept,
    };
    let mut house = House::furnish(program, load)?;
    let mut took = Vec::new();
    for _ in 0..BLOCKS {
        let (_, first) = house.start().await?;
        took.push(first.as_secs_f64());
        house.stop();
    }
    Ok(told(
        &format!("first answer, {kept} kept runs"),
        &mut took,
        0.0,
        Some(200.0),
    ))
}
