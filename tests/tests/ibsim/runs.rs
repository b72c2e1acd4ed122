//! Whole runs: what they come to, and that the device is as before.

use std::collections::BTreeMap;

use serde_json::Value;
use verbatim_tests::product::{Running, run};

use crate::lab::{LONG, Sim, came_to};

/// What is expected of one test.
#[derive(Debug, PartialEq, Eq)]
struct Expected {
    outcome: String,
    cause: Option<String>,
    findings: Vec<String>,
}

/// The committed outcomes, by test; each that is no PASS has a reason.
fn expected() -> BTreeMap<String, Expected> {
    let file: toml::Table = include_str!("../../data/ibsim-outcomes.toml").parse().unwrap();
    let mut expected = BTreeMap::new();
    for group in file["group"].as_array().unwrap() {
        let text = |key: &str| group.get(key).map(|value| value.as_str().unwrap().to_owned());
        let list = |key: &str| -> Vec<String> {
            let values = group.get(key).map_or(&[][..], |value| value.as_array().unwrap());
            values.iter().map(|value| value.as_str().unwrap().to_owned()).collect()
        };
        let outcome = text("outcome").unwrap();
        assert!(
            outcome == "PASS" || text("reason").is_some_and(|reason| reason.ends_with('.')),
            "{group}"
        );
        assert!(outcome != "FAIL" || !list("findings").is_empty(), "{group}");
        for test in list("tests") {
            let one = Expected {
                outcome: outcome.clone(),
                cause: text("cause"),
                findings: list("findings"),
            };
            assert_eq!(expected.insert(test.clone(), one), None, "{test} is there twice");
        }
    }
    expected
}

/// A check's statement and subject, with N for every number in the subject.
fn in_words(check: &Value) -> String {
    let mut about = String::new();
    for character in check["about"].as_str().unwrap().chars() {
        match character {
            '0'..='9' if about.ends_with('N') => {}
            '0'..='9' => about.push('N'),
            other => about.push(other),
        }
    }
    format!("{} {about}", check["statement"].as_str().unwrap())
}

fn seen(report: &Value) -> BTreeMap<String, Expected> {
    let verdicts = report["verdicts"].as_array().unwrap().iter();
    verdicts
        .map(|verdict| {
            let mut findings = Vec::new();
            for check in verdict["findings"].as_array().unwrap() {
                let words = in_words(check);
                if !findings.contains(&words) {
                    findings.push(words);
                }
            }
            let text = |key: &str| verdict[key].as_str().map(str::to_owned);
            let outcome = text("outcome").unwrap();
            (
                text("test").unwrap(),
                Expected {
                    outcome,
                    cause: text("cause"),
                    findings,
                },
            )
        })
        .collect()
}

#[test]
fn every_outcome_is_the_one_in_the_table_and_the_device_is_as_before() {
    let Some(sim) = Sim::start() else { return };
    let before = sim.tables();
    let mut command =
        sim.verbatim("run --rig ibsim c13-* c14-* --set illegal_parts=2000 --set wait_s=5 --json --record record");
    let output = Running::start(&mut command).end(std::time::Duration::from_secs(600));
    let (seen, mut expected) = (seen(&output.json()), expected());
    for (test, seen) in &seen {
        let expected = expected
            .remove(test)
            .unwrap_or_else(|| panic!("{test} is not in the table: {seen:?}"));
        assert_eq!(seen, &expected, "{test}");
    }
    assert_eq!(expected, BTreeMap::new(), "these did not run");
    assert_eq!((output.code(), output.stderr.as_str()), (1, ""));
    assert_eq!(sim.tables(), before);
    assert!(!sim.journal().exists());

    let judged = run(&mut sim.place.verbatim("judge record --json"));
    assert_eq!(judged.code(), 1);
    assert_eq!(judged.json()["verdicts"], output.json()["verdicts"], "judged offline");
}

#[test]
fn all_65532_illegal_parts_are_tried_and_the_device_is_as_before() {
    let Some(sim) = Sim::start() else { return };
    let before = sim.tables();
    let output = run(&mut sim.verbatim(&format!("run --rig ibsim {LONG} --json --record record")));
    assert_eq!(came_to(&output), ("PASS".into(), String::new()), "{output}");
    assert_eq!((output.code(), output.stderr.as_str()), (0, ""));
    assert_eq!(sim.tables(), before);
    let record = std::fs::metadata(sim.place.path(&format!("record/001-{LONG}.rec"))).unwrap();
    assert!(
        (10_000_000..60_000_000).contains(&record.len()),
        "{} bytes",
        record.len()
    );
}
