//! Whole runs: their outcomes, and the state of the device afterwards.

use std::collections::BTreeSet;
use std::time::Duration;

use verbatim_tests::outcomes::{Outcomes, count, in_words};
use verbatim_tests::product::{Output, Running, run};

use crate::ibsim::lab::{LONG, Sim, came_to};

#[test]
fn ibsim_outcomes_match_table() {
    let Some(sim) = Sim::start() else { return };
    let before = sim.tables();
    let mut command = sim.verbatim(
        "run --rig ibsim --seed 0 c13-* c14-* --set illegal_parts=2000 --set wait_s=5 --json --record record",
    );
    let output = Running::start(&mut command).end(Duration::from_secs(1800));
    let report = output.json();
    let mut outcomes = Outcomes::read(include_str!("../../../data/ibsim-outcomes.toml"));
    let verdicts = report["verdicts"].as_array().unwrap();
    for verdict in verdicts {
        let test = verdict["test"].as_str().unwrap();
        let expected = outcomes.take(test);
        let checks = verdict["findings"].as_array().unwrap();
        let findings: BTreeSet<String> = checks.iter().map(in_words).collect();
        assert_eq!(verdict["outcome"], expected.outcomes[0], "{test}: {verdict:#}");
        assert_eq!(
            verdict["cause"].as_str(),
            expected.cause.as_deref(),
            "{test}: {verdict:#}"
        );
        assert_eq!(findings, expected.findings, "{test}");
    }
    assert_eq!(outcomes.left(), [""; 0], "these did not run");
    assert_eq!(verdicts.len(), count(&["c13-", "c14-"]));
    assert_eq!(output.code(), 1);
    assert_progress_alone(&output);
    assert_eq!(sim.tables(), before);
    assert!(!sim.journal().exists());

    let judged = run(&mut sim.place.verbatim("judge record --json"));
    assert_eq!(judged.code(), 1);
    assert_eq!(judged.json()["verdicts"], output.json()["verdicts"], "judged offline");
}

#[test]
fn sweep_of_illegal_parts_restores_device() {
    let Some(sim) = Sim::start() else { return };
    let before = sim.tables();
    let output = run(&mut sim.verbatim(&format!("run --rig ibsim {LONG} --json --record record")));
    assert_eq!(came_to(&output), ("PASS".into(), String::new()), "{output}");
    assert_progress_alone(&output);
    assert_eq!(output.code(), 0);
    assert_eq!(sim.tables(), before);
    let record = std::fs::metadata(sim.place.path(&format!("record/001-{LONG}.rec"))).unwrap();
    assert!(
        (10_000_000..60_000_000).contains(&record.len()),
        "{} bytes",
        record.len()
    );
}

/// Checks that stderr has nothing but the progress of the run.
fn assert_progress_alone(output: &Output) {
    let is_progress = |line: &str| line.starts_with("verbatim: ");
    assert!(output.stderr.lines().all(is_progress), "{output}");
}
