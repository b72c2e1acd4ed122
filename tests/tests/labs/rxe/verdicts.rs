//! The outcomes of the tests of chapter 9 on rxe. The tester is outside the machine and makes its packets itself. A
//! committed table has the expected outcomes, with a reason for every FAIL.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use verbatim_tests::outcomes::{Outcomes, in_words, sometimes};
use verbatim_tests::product::{Output, Place, Running};

use crate::rxe::guest::rxe_lab;

/// Returns the failed checks of a verdict, in the form of [`in_words`].
fn failed(verdict: &Value) -> BTreeSet<String> {
    let checks = verdict["findings"].as_array().unwrap().iter();
    checks.filter(|check| check["result"] == "FAIL").map(in_words).collect()
}

/// Runs `verbatim` in a new lab. Returns `None` if this host lacks a package and may skip the test.
fn run(place: &Place, arguments: &str, within: Duration) -> Option<Output> {
    let lab = rxe_lab()?;
    let mut command = place.verbatim(arguments);
    command.envs(lab.environment());
    Some(Running::start(&mut command).end(within))
}

/// Directory for the records of tests with unexpected outcomes.
const KEPT: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/rxe-surprises");

/// Stores the record of a test, because a rare outcome is hard to reproduce.
fn keep(records: &Path, test: &str) {
    let is_of_it = |name: &str| name.ends_with(&format!("-{test}.rec"));
    for entry in fs::read_dir(records).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        if name.to_str().is_some_and(is_of_it) {
            fs::create_dir_all(KEPT).unwrap();
            fs::copy(entry.path(), Path::new(KEPT).join(name)).unwrap();
        }
    }
}

#[test]
fn rxe_outcomes_match_table() {
    let place = Place::new();
    // Leave out covering arrays: rxe's timer decides which of their rows fail. `rows_come_to_their_end` runs some
    // of them.
    let tests = verbatim_catalog::TESTS.iter().map(|test| test.id);
    let tests: Vec<&str> = tests
        .filter(|id| id.starts_with("c09-") && !id.starts_with("c09-matrix-"))
        .collect();
    let arguments = format!("run --rig rxe --seed 0 {} --json --record records", tests.join(" "));
    let Some(output) = run(&place, &arguments, Duration::from_secs(2400)) else {
        return;
    };
    let report = output.json();
    let text = include_str!("../../../data/rxe-outcomes.toml");
    let mut outcomes = Outcomes::read(text);
    // Check all verdicts before the assertion: a run takes minutes, and the test must report every unexpected outcome.
    let mut surprises = Vec::new();
    let verdicts = report["verdicts"].as_array().unwrap();
    for verdict in verdicts {
        let test = verdict["test"].as_str().unwrap();
        let expected = outcomes.take(test);
        let outcome = verdict["outcome"].as_str().unwrap();
        let mut failed = failed(verdict);
        let sometimes = sometimes(text, test);
        failed.retain(|finding| expected.findings.contains(finding) || !sometimes.contains(finding));
        let only_sometimes = outcome == "FAIL" && failed.is_empty();
        let timing = expected.outcomes.len() > 1;
        if !only_sometimes && !expected.outcomes.iter().any(|allowed| allowed == outcome) {
            let allowed = &expected.outcomes;
            surprises.push((test, format!("came to {outcome}, not {allowed:?}: {verdict:#}")));
        } else if !failed.is_subset(&expected.findings) {
            let unexpected: Vec<_> = failed.difference(&expected.findings).collect();
            surprises.push((test, format!("{unexpected:?} failed, and is not in the table")));
        } else if outcome == "FAIL" && !timing && failed != expected.findings {
            let missing: Vec<_> = expected.findings.difference(&failed).collect();
            surprises.push((test, format!("{missing:?} of the table did not fail")));
        }
    }
    surprises
        .iter()
        .for_each(|(test, _)| keep(&place.path("records"), test));
    assert!(surprises.is_empty(), "{surprises:#?}; their records are in {KEPT}");
    assert_eq!(outcomes.left(), [""; 0], "these did not run");
    assert_eq!(verdicts.len(), tests.len());
    assert_eq!(output.code(), 1, "{output}");
}

/// Known kernels panic, and the console shows the panic. A fixed kernel refuses these packets and passes. A kernel that
/// drops them without a NAK fails.
#[test]
fn reserved_opcode_crash_is_a_finding() {
    let arguments = "run --rig rxe c09-nak-reserved-opcode --set soft_roce=1 --json";
    let Some(output) = run(&Place::new(), arguments, Duration::from_secs(1200)) else {
        return;
    };
    let report = output.json();
    let verdict = &report["verdicts"][0];
    let came_to = (
        verdict["outcome"].as_str().unwrap(),
        verdict["cause"].as_str().unwrap_or(""),
    );
    let reason = verdict["reason"].as_str().unwrap();
    match came_to {
        ("FAIL", "DUT") => assert!(
            reason.contains("kernel panic in ")
                || failed(verdict).iter().all(|check| check.contains("reserved opcode")),
            "{reason}"
        ),
        ("PASS", "") => {}
        other => panic!("{other:?}: {reason}"),
    }
}

/// Each run has another seed. The register lists the known deviations of rxe; any other FAIL is new.
#[test]
fn walk_takes_fresh_seed() {
    let place = Place::new();
    let Some(output) = run(
        &place,
        "run --rig rxe c09-walk --set steps=24 --json --record records",
        Duration::from_secs(1800),
    ) else {
        return;
    };
    let report = output.json();
    let verdict = &report["verdicts"][0];
    let known = report["known_deviations"].as_array().unwrap().iter();
    let is_known = known.clone().any(|known| known["explains_all"] == true);
    let again = format!(
        "cargo xtask lab rxe -- verbatim run --rig rxe c09-walk --set steps=24 --seed {}",
        report["run"]["seed"]
    );
    let outcome = verdict["outcome"].as_str().unwrap();
    assert!(
        outcome != "ERROR" && outcome != "SKIPPED",
        "{verdict:#}; again: {again}"
    );
    let seed = report["run"]["seed"].as_u64().unwrap();
    assert_ne!(seed, 0, "the seed of the virtual rig, and not a fresh one");
    // A fresh seed may show a new deviation of rxe, which is no fault of our code. Report the deviation and its record
    // without failing.
    if outcome == "FAIL" && !is_known {
        keep(&place.path("records"), "c09-walk");
        eprintln!("news: {:#?}; its record is in {KEPT}", failed(verdict));
    }
    eprintln!("{again}");
}

#[test]
fn rows_come_to_their_end() {
    let arguments = "run --rig rxe --seed 0 c09-matrix-* --set rows=4 --json";
    let Some(output) = run(&Place::new(), arguments, Duration::from_secs(1200)) else {
        return;
    };
    let report = output.json();
    let verdicts = report["verdicts"].as_array().unwrap();
    assert_eq!(verdicts.len(), 5);
    for verdict in verdicts {
        // rxe fails some rows, because its timer counts in ticks and an overlong SEND gets another NAK.
        let outcome = verdict["outcome"].as_str().unwrap();
        assert!(outcome != "ERROR" && outcome != "SKIPPED", "{verdict:#}");
        let names_rows = verdict["observations"].to_string().contains("--set row=");
        assert_eq!(outcome == "FAIL", names_rows, "{verdict:#}");
    }
}
