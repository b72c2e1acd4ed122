//! The campaign `link`: makes sound packets for random ports, damages each packet in up to three ways, and
//! compares two verdicts on the packet. The judge is the oracle's link-layer check. The device is the reference
//! device's link layer. Both were written independently. They must agree on the possible outcomes of each packet.
//! If the judge names a counter, they must also agree on the counter.
//!
//! `cargo xtask campaign link --packets 10000000`. The last line has the counts. The exit code is 1 when judge and
//! device disagree on any packet, and 2 when the campaign could not begin. The campaign shows each kind of disagreement
//! once, with the simplest case found. The arguments `--seed S --only N` make that packet again. `--defect NAME` gives
//! the device a defect, which must cause a disagreement. `--every-defect` tries all defects with at most `--packets`
//! packets each, and names the undetected defects.

mod case;
mod compare;
mod damage;
mod shrink;
mod tally;

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::{Context, bail};
use case::Case;
use compare::Opinions;
use tally::Tally;
use verbatim_device::link::LinkDefect;

/// Number of packets that a thread takes at a time.
const PORTION: u64 = 4096;

struct Arguments {
    packets: u64,
    seed: u64,
    jobs: usize,
    only: Option<u64>,
    defects: Vec<LinkDefect>,
    every_defect: bool,
}

fn main() -> ExitCode {
    match campaign() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("link campaign: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn arguments() -> anyhow::Result<Arguments> {
    let mut parsed = Arguments {
        packets: 10_000_000,
        seed: 1,
        jobs: thread::available_parallelism().map_or(1, usize::from),
        only: None,
        defects: Vec::new(),
        every_defect: false,
    };
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        let mut value = || {
            given
                .next()
                .with_context(|| format!("{name} expects a value, and none follows"))
        };
        let number = |text: String| {
            let seen = text.replace('_', "");
            seen.parse::<u64>()
                .with_context(|| format!("{name} expects a whole number, not {text:?}"))
        };
        match name.as_str() {
            "--packets" => parsed.packets = number(value()?)?,
            "--seed" => parsed.seed = number(value()?)?,
            "--jobs" => parsed.jobs = number(value()?)?.clamp(1, 256) as usize,
            "--only" => parsed.only = Some(number(value()?)?),
            "--defect" => parsed.defects.push(value()?.parse()?),
            "--every-defect" => parsed.every_defect = true,
            _ => bail!(
                "no option {name:?}; there are --packets N, --seed N, --jobs N, --only N, --defect NAME, --every-defect"
            ),
        }
    }
    Ok(parsed)
}

/// Returns whether judge and device agree. With `--every-defect`, returns true.
fn campaign() -> anyhow::Result<bool> {
    let arguments = arguments()?;
    if let Some(number) = arguments.only {
        return Ok(show(&arguments, number));
    }
    if arguments.every_defect {
        every_defect(&arguments);
        return Ok(true);
    }
    let tally = run(&arguments, &arguments.defects, false);
    tally.print(arguments.seed, &arguments.defects);
    Ok(tally.agrees())
}

/// Prints one case in full. Returns whether judge and device agree.
fn show(arguments: &Arguments, number: u64) -> bool {
    let case = Case::draw(arguments.seed, number);
    let bytes = case.bytes();
    let opinions = Opinions::of(&case, &bytes, &arguments.defects);
    println!("{case:#?}\nbytes {}\n{opinions:#?}", tally::hex(&bytes));
    match opinions.disagreement() {
        Some(disagreement) => println!("They disagree: {disagreement}"),
        None => println!("They agree."),
    }
    opinions.disagreement().is_none()
}

fn every_defect(arguments: &Arguments) {
    let mut hidden = Vec::new();
    for &defect in LinkDefect::ALL {
        let tally = run(arguments, &[defect], true);
        match tally.first() {
            Some(number) => println!("{defect:<42} shows in packet {number}"),
            None => {
                println!("{defect:<42} does not show in {} packets", tally.packets());
                hidden.push(defect.name());
            }
        }
    }
    println!(
        "{} of {} defects show; not: {}",
        LinkDefect::ALL.len() - hidden.len(),
        LinkDefect::ALL.len(),
        if hidden.is_empty() {
            "none".to_owned()
        } else {
            hidden.join(", ")
        }
    );
}

/// Tries all packets. With `until_first`, stops soon after the first disagreement; the counts then vary from run to
/// run. Otherwise the result depends only on the seed and the number of packets.
fn run(arguments: &Arguments, defects: &[LinkDefect], until_first: bool) -> Tally {
    let next = AtomicU64::new(0);
    let worker = || {
        let mut tally = Tally::default();
        loop {
            let start = next.fetch_add(PORTION, Ordering::Relaxed);
            if start >= arguments.packets {
                return tally;
            }
            let end = arguments.packets.min(start.saturating_add(PORTION));
            for number in start..end {
                let case = Case::draw(arguments.seed, number);
                let bytes = case.bytes();
                let opinions = Opinions::of(&case, &bytes, defects);
                tally.add(number, &opinions);
            }
            if until_first && !tally.agrees() {
                next.store(arguments.packets, Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..arguments.jobs).map(|_| scope.spawn(worker)).collect();
        let mut whole = Tally::default();
        for worker in workers {
            match worker.join() {
                Ok(tally) => whole.join(tally),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        whole
    })
}
