//! What the tests of chapter 9 come to on rxe, the tester outside the machine with packets of its own making: against a
//! committed table, in which every FAIL has its reason.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use verbatim_tests::outcomes::{in_words, sometimes, table};
use verbatim_tests::product::{Output, Place, Running};

use crate::guest::rxe_lab;

/// The checks that failed.
fn failed(verdict: &Value) -> BTreeSet<String> {
    let checks = verdict["findings"].as_array().unwrap().iter();
    checks.filter(|check| check["result"] == "FAIL").map(in_words).collect()
}

/// Runs `verbatim` in a lab of its own; nothing where this host lacks something and need not have it.
fn run(arguments: &str, within: Duration) -> Option<Output> {
    let lab = rxe_lab()?;
    let place = Place::new();
    let mut command = place.verbatim(arguments);
    command.envs(lab.environment());
    Some(Running::start(&mut command).end(within))
}

#[test]
fn every_outcome_is_the_one_in_the_table() {
    let Some(output) = run("run --rig rxe c09-* --json", Duration::from_secs(900)) else {
        return;
    };
    let report = output.json();
    let text = include_str!("../../data/rxe-outcomes.toml");
    let (mut expected, sometimes) = (table(text), sometimes(text));
    for verdict in report["verdicts"].as_array().unwrap() {
        let test = verdict["test"].as_str().unwrap();
        let expected = expected
            .remove(test)
            .unwrap_or_else(|| panic!("{test} is not in tests/data/rxe-outcomes.toml: {verdict:#}"));
        let outcome = verdict["outcome"].as_str().unwrap();
        let mut failed = failed(verdict);
        failed.retain(|finding| expected.findings.contains(finding) || !sometimes.contains(finding));
        let only_sometimes = outcome == "FAIL" && failed.is_empty();
        assert!(
            only_sometimes || expected.outcomes.iter().any(|allowed| allowed == outcome),
            "{test} came to {outcome}, not {:?}: {verdict:#}",
            expected.outcomes
        );
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
    let arguments = "run --rig rxe c09-nak-reserved-opcode --set soft_roce=1 --json";
    let Some(output) = run(arguments, Duration::from_secs(300)) else {
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
        ("ERROR", "RIG") => assert!(reason.contains("the connection is lost"), "{reason}"),
        ("FAIL", "DUT") => assert!(
            failed(verdict).iter().all(|check| check.contains("reserved opcode")),
            "{reason}"
        ),
        ("PASS", "") => {}
        other => panic!("{other:?}: {reason}"),
    }
}
