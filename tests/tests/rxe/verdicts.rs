//! What the tests of chapter 9 come to on rxe, the tester outside the machine with packets of its own making: against a
//! committed table, in which every FAIL has its reason.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use verbatim_lab::RxeLab;
use verbatim_tests::product::{Place, Running};

use crate::deaths::BINARIES;
use crate::guest::image;

/// What is expected of one test.
#[derive(Debug, PartialEq, Eq)]
struct Expected {
    outcomes: Vec<String>,
    findings: BTreeSet<String>,
}

fn expected() -> BTreeMap<String, Expected> {
    let file: toml::Table = include_str!("../../data/rxe-outcomes.toml").parse().unwrap();
    let mut expected = BTreeMap::new();
    for group in file["group"].as_array().unwrap() {
        let list = |key: &str| -> Vec<String> {
            let values = group.get(key).map_or(&[][..], |value| value.as_array().unwrap());
            values.iter().map(|value| value.as_str().unwrap().to_owned()).collect()
        };
        let outcome = group["outcome"].as_str().unwrap().to_owned();
        let reason = group.get("reason").and_then(|reason| reason.as_str());
        let plain = outcome == "PASS" && list("or").is_empty();
        assert!(plain || reason.is_some_and(|reason| reason.ends_with('.')), "{group}");
        assert!(outcome != "FAIL" || !list("findings").is_empty(), "{group}");
        let mut outcomes = list("or");
        assert!(!outcomes.iter().any(|or| or == "PASS" || or == "FAIL"), "{group}");
        outcomes.push(outcome);
        for test in list("tests") {
            let one = Expected {
                outcomes: outcomes.clone(),
                findings: list("findings").into_iter().collect(),
            };
            assert_eq!(expected.insert(test.clone(), one), None, "{test} is there twice");
        }
    }
    expected
}

/// The checks that failed: statement and subject, with N for every number in the subject.
fn failed(verdict: &Value) -> BTreeSet<String> {
    let checks = verdict["findings"].as_array().unwrap().iter();
    checks
        .filter(|check| check["result"] == "FAIL")
        .map(|check| {
            let mut about = String::new();
            for character in check["about"].as_str().unwrap().chars() {
                match character {
                    '0'..='9' if about.ends_with('N') => {}
                    '0'..='9' => about.push('N'),
                    other => about.push(other),
                }
            }
            format!("{} {about}", check["statement"].as_str().unwrap())
        })
        .collect()
}

#[test]
fn every_outcome_is_the_one_in_the_table() {
    if image().is_none() {
        return;
    }
    let lab = RxeLab::start(Some(&BINARIES)).unwrap_or_else(|error| panic!("{error:#}"));
    let place = Place::new();
    let mut command = place.verbatim("run --rig rxe c09-* --json");
    command.envs(lab.environment());
    let output = Running::start(&mut command).end(Duration::from_secs(900));
    let report = output.json();
    let mut expected = expected();
    for verdict in report["verdicts"].as_array().unwrap() {
        let test = verdict["test"].as_str().unwrap();
        let expected = expected
            .remove(test)
            .unwrap_or_else(|| panic!("{test} is not in the table: {verdict:#}"));
        let outcome = verdict["outcome"].as_str().unwrap();
        assert!(
            expected.outcomes.iter().any(|allowed| allowed == outcome),
            "{test} came to {outcome}, not {:?}: {verdict:#}",
            expected.outcomes
        );
        let failed = failed(verdict);
        let unexpected: Vec<_> = failed.difference(&expected.findings).collect();
        assert!(unexpected.is_empty(), "{test}: {unexpected:?}");
        let timing = expected.outcomes.len() > 1;
        assert!(
            outcome != "FAIL" || timing || failed == expected.findings,
            "{test}: {failed:?}, not {:?}",
            expected.findings
        );
    }
    assert_eq!(expected, BTreeMap::new(), "these did not run");
    assert_eq!(output.code(), 1, "{output}");
}

/// The kernels that are known panic. One that is mended refuses such packets; one that drops them does not pass either.
#[test]
fn a_reserved_opcode_that_takes_the_host_down_is_an_error_of_the_rig_and_no_verdict_on_the_device() {
    if image().is_none() {
        return;
    }
    let lab = RxeLab::start(Some(&BINARIES)).unwrap_or_else(|error| panic!("{error:#}"));
    let place = Place::new();
    let mut command = place.verbatim("run --rig rxe c09-nak-reserved-opcode --set soft_roce=1 --json");
    command.envs(lab.environment());
    let report = Running::start(&mut command).end(Duration::from_secs(300)).json();
    let verdict = &report["verdicts"][0];
    let came_to = (
        verdict["outcome"].as_str().unwrap(),
        verdict["cause"].as_str().unwrap_or(""),
    );
    let reason = verdict["reason"].as_str().unwrap();
    match came_to {
        ("ERROR", "RIG") => assert!(reason.contains("the connection broke"), "{reason}"),
        ("FAIL", "DUT") => assert!(
            failed(verdict).iter().all(|check| check.contains("reserved opcode")),
            "{reason}"
        ),
        ("PASS", "") => {}
        other => panic!("{other:?}: {reason}"),
    }
}
