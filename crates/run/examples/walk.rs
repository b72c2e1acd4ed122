//! `cargo xtask campaign walk` and `matrix`: random walks, and the rows of covering arrays, on the device model,
//! with and without defects. Below, "walk" also means a test with rows.
//!
//! No walk may fail on a sound model, which has no defects, for any choices of the model and any disturbance of
//! its link. The program lists the defects that no walk finds. It also lists each defect whose walk could not be
//! shrunk to ten steps, with the first seed that finds it and the number of remaining steps. With `--table`, the
//! program lists all defects in this way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use verbatim_device::rc::RcDefect;
use verbatim_record_proto::v1::{Outcome, RunSpec, Verdict};
use verbatim_rig::{DeviceSeed, Disturbances, ProfileName, RigConfig, VirtualConfig};
use verbatim_run::{Request, RunId, command, execute};

/// The random walks. Only c09-walk also runs on models with defects: the defects are in the adapter, which
/// c14-walk does not use.
const WALKS: [&str; 2] = ["c09-walk", "c14-walk"];
/// The tests with rows of covering arrays. All of them also run on the models with defects.
const MATRICES: [&str; 13] = [
    "c09-matrix-asked",
    "c09-matrix-posted",
    "c09-matrix-refused",
    "c09-matrix-strays",
    "c09-matrix-datagrams",
    "c09-pair-rnr",
    "c09-pair-rnr-retry",
    "c09-pair-timeout",
    "c09-pair-sequence",
    "c09-pair-access",
    "c09-pair-length",
    "c09-pair-atomics",
    "c09-pair-order",
];
const THREADS: usize = 2;
/// Number of steps that a shrunk walk should not exceed.
const SHORT: u32 = 10;

fn main() -> std::process::ExitCode {
    let mut given: BTreeMap<String, u64> = BTreeMap::new();
    let (mut table, mut walks) = (false, WALKS.to_vec());
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--table" => table = true,
            "--matrix" => walks = MATRICES.to_vec(),
            _ => {}
        }
        if matches!(word.as_str(), "--table" | "--matrix") {
            continue;
        }
        match (word.as_str(), words.next().map(|value| (value.parse(), value))) {
            ("--walk", Some((_, value))) if walks.contains(&value.as_str()) => walks.retain(|walk| *walk == value),
            (name, Some((Ok(value), _))) => drop(given.insert(name.trim_start_matches('-').into(), value)),
            (name, _) => {
                eprintln!(
                    "{name}: expected a number; --seeds, --first, --defect-seeds, --steps, --strength, --rows, \
                     --table, --matrix, --walk TEST"
                );
                return std::process::ExitCode::from(2);
            }
        }
    }
    let get = |name: &str, usual: u64| given.get(name).copied().unwrap_or(usual);
    let (first, seeds) = (get("first", 0), get("seeds", 10_000));
    let extent: Extent = match walks.iter().all(|walk| MATRICES.contains(walk)) {
        true => [("strength", get("strength", 2)), ("rows", get("rows", 0))].into(),
        false => [("steps", get("steps", 48))].into(),
    };
    let mut all = 0;
    for walk in &walks {
        let alarms = on_sound(walk, first, seeds, &extent);
        println!(
            "{walk}: {seeds} seeds from {first} on, each by the rules of simulation and of hardware: {alarms} findings"
        );
        all += alarms;
    }
    let survivors = match get("defect-seeds", 0) {
        0 => 0,
        seeds => on_defects(&walks, seeds, &extent, table),
    };
    if survivors > 0 {
        println!("no walk finds {survivors} defects");
    }
    std::process::ExitCode::from(u8::from(all > 0))
}

/// Parameters of the tests.
type Extent = BTreeMap<&'static str, u64>;

/// Runs a walk on a device model.
fn walk(test: &str, config: VirtualConfig, seed: u64, extent: &Extent, shrinks: bool) -> (Request, Verdict) {
    let rig = RigConfig::built_in(config);
    let request = Request {
        id: RunId::new(0, 0),
        spec: RunSpec {
            rig: rig.name.clone(),
            patterns: vec![test.into()],
            parameters: extent
                .iter()
                .map(|(name, value)| ((*name).to_string(), *value))
                .collect(),
            seed,
            exit_first: false,
        },
        rig,
        record: None,
        cancel: Arc::default(),
        lease: Arc::default(),
        shrinks,
        rig_options: String::new(),
    };
    let mut report = execute(&request, &mut |_| {}).expect("a run on a device model that keeps no record");
    (request, report.verdicts.remove(0))
}

/// Runs walks on sound models, and returns the number of false alarms.
fn on_sound(test: &str, first: u64, seeds: u64, extent: &Extent) -> usize {
    let (next, alarms) = (AtomicU64::new(first), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + seeds {
                        break;
                    }
                    for rules_of_hardware in [false, true] {
                        // With every fourth seed, the device also has random capabilities.
                        let of_any_kind = seed % 4 == 3;
                        let config = VirtualConfig {
                            profile: if of_any_kind {
                                ProfileName::Any
                            } else {
                                ProfileName::default()
                            },
                            ..sound(seed, rules_of_hardware)
                        };
                        let (request, verdict) = walk(test, config, seed, extent, true);
                        let is_disturbed = request.rig.is_disturbed();
                        let is_alarm = match verdict.outcome() {
                            Outcome::Pass => false,
                            // A device with random capabilities may lack one that the walk needs.
                            Outcome::NotApplicable => !of_any_kind,
                            Outcome::Inconclusive => !is_disturbed,
                            _ => true,
                        };
                        if is_alarm {
                            alarms.fetch_add(1, Ordering::Relaxed);
                            println!("{} {}\n  {}", verdict.outcome(), verdict.reason, command(&request));
                            verdict.observations.iter().for_each(|seen| println!("  {}", seen.text));
                        }
                    }
                }
            });
        }
    });
    alarms.into_inner()
}

/// Returns the sound model of a seed. With the rules of hardware, the seed also selects the disturbances of the link.
fn sound(seed: u64, rules_of_hardware: bool) -> VirtualConfig {
    let bit = |of: u64| rules_of_hardware && seed >> of & 1 == 1;
    VirtualConfig {
        seed: if seed == 0 { DeviceSeed::None } else { DeviceSeed::OfRun },
        ipv6: seed % 2 == 1,
        rules_of_hardware,
        disturbance: Disturbances {
            loses: bit(1),
            swaps: bit(2),
            late: bit(3),
        },
        ..VirtualConfig::default()
    }
}

/// Runs walks on a model of each defect until one fails. Returns the number of defects that no walk found.
fn on_defects(walks: &[&str], seeds: u64, extent: &Extent, table: bool) -> usize {
    let walks: Vec<&str> = walks.iter().copied().filter(|walk| *walk != "c14-walk").collect();
    let next = AtomicUsize::new(0);
    let found = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(defect) = RcDefect::ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let caught = hunt(&walks, *defect, seeds, extent);
                    let mut found = found.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                    found.insert((defect.statement(), defect.name()), caught);
                }
            });
        }
    });
    let found = found.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    let survivors = found.values().filter(|caught| caught.is_none()).count();
    let longest = found.values().flatten().map(|(_, steps)| *steps).max().unwrap_or(0);
    println!(
        "walks find {} of {} defects within {seeds} seeds, in {longest} steps at most",
        found.len() - survivors,
        found.len()
    );
    for ((statement, name), caught) in found {
        match caught {
            Some((seed, steps)) if table => println!("| `{name}` | {statement} | {seed} | {steps} |"),
            Some((seed, steps)) if steps > SHORT => {
                println!("`{name}` ({statement}): found at seed {seed}, and not shrunk to {SHORT} steps: {steps}");
            }
            None => println!("`{name}` ({statement}): not found"),
            Some(_) => {}
        }
    }
    survivors
}

/// Returns the first seed whose walk finds the defect, and the number of steps of the shrunk walk.
fn hunt(walks: &[&str], defect: RcDefect, seeds: u64, extent: &Extent) -> Option<(u64, u32)> {
    let each = (1..=seeds).flat_map(|seed| walks.iter().map(move |walk| (seed, *walk)));
    each.into_iter().find_map(|(seed, test)| {
        let config = || VirtualConfig {
            adapter_defects: vec![defect],
            ..sound(seed, false)
        };
        let (_, verdict) = walk(test, config(), seed, extent, false);
        if verdict.outcome() != Outcome::Fail {
            return None;
        }
        let (_, verdict) = walk(test, config(), seed, extent, true);
        let keep = verdict.observations.iter().find_map(|seen| {
            let (_, keep) = seen.text.rsplit_once("keep=")?;
            keep.parse::<u64>().ok()
        });
        Some((seed, keep.map_or(u32::MAX, u64::count_ones)))
    })
}
