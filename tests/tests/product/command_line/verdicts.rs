//! The output of a run, for people and for programs.

use std::time::Duration;

use serde_json::Value;
use verbatim_tests::product::{Place, Running, program, run};
use verbatim_tests::schema::breaches;

use crate::command_line::{BROKEN, WHOLE};

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("{key} of {value}"))
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().unwrap_or_else(|| panic!("{key} of {value}"))
}

/// Returns the ids of all tests, as `verbatim tests` lists them.
fn listed(place: &Place) -> Vec<String> {
    let document = run(&mut place.verbatim("tests --json")).json();
    let tests: Vec<_> = list(&document, "tests")
        .iter()
        .map(|test| text(test, "id").to_owned())
        .collect();
    assert!(tests.len() > 20, "{tests:?}");
    tests
}

fn schema() -> Value {
    serde_json::from_str(include_str!("../../../../docs/schema/report.v1.json")).unwrap()
}

#[test]
fn run_prints_line_per_test() {
    let place = Place::new();
    let output = run(&mut place.verbatim("run"));
    assert_eq!(output.code(), 0, "{output}");
    assert_eq!(output.stderr, "");
    let lines: Vec<_> = output.stdout.lines().take_while(|line| !line.is_empty()).collect();
    let tests = listed(&place);
    assert_eq!(lines.len(), tests.len(), "{output}");
    for (line, test) in lines.iter().zip(&tests) {
        let words: Vec<_> = line.split_whitespace().collect();
        assert!(
            ["PASS", "NOT_APPLICABLE"].contains(&words[0]) && words[1] == test,
            "{line}, expected {test}"
        );
    }
    let summary = output.stdout.lines().last().unwrap();
    assert!(
        summary.starts_with(&format!("{} tests on virtual, seed 0: ", tests.len())),
        "{summary}"
    );
}

#[test]
fn run_json_follows_schema() {
    let place = Place::new();
    let report = WHOLE.output.json();
    assert_eq!(breaches(&schema(), &report), [] as [String; 0]);
    let tests: Vec<_> = list(&report, "verdicts")
        .iter()
        .map(|verdict| text(verdict, "test"))
        .collect();
    assert_eq!(tests, listed(&place));
    assert_eq!(report["run"]["seed"], 0);
    assert_eq!(text(&report["run"], "record"), WHOLE.record.to_str().unwrap());
    for verdict in list(&report, "verdicts") {
        assert_eq!(verdict["outcome"] == "PASS", verdict["cause"].is_null(), "{verdict}");
        assert_eq!(
            verdict["outcome"] == "PASS",
            text(verdict, "reason").is_empty(),
            "{verdict}"
        );
    }
}

#[test]
fn schema_rejects_incomplete_reports() {
    let place = Place::new();
    place.write("rigs.toml", BROKEN);
    let report = run(&mut place.verbatim("run --rig-file rigs.toml --rig broken C14_016_Get --json")).json();
    assert_eq!(breaches(&schema(), &report), [] as [String; 0]);
    let worst = list(&report, "verdicts")
        .iter()
        .position(|verdict| verdict["outcome"] == "FAIL")
        .unwrap();
    for (pointer, keys) in [
        (String::new(), vec!["schema", "run", "verdicts"]),
        (
            format!("/verdicts/{worst}"),
            vec!["test", "aliases", "outcome", "cause", "statements", "findings"],
        ),
        (
            format!("/verdicts/{worst}/findings/0"),
            vec!["statement", "expected", "seen", "evidence"],
        ),
    ] {
        for key in keys {
            let mut less = report.clone();
            assert!(
                less.pointer_mut(&pointer)
                    .unwrap()
                    .as_object_mut()
                    .unwrap()
                    .remove(key)
                    .is_some()
            );
            assert_eq!(breaches(&schema(), &less).len(), 1, "{pointer}/{key}");
        }
    }
}

#[test]
fn fail_shows_statement_and_evidence() {
    let place = Place::new();
    place.write("rigs.toml", BROKEN);
    let run_it = |more: &str| run(&mut place.verbatim(&format!("run --rig-file rigs.toml --rig broken {more}")));
    let output = run_it("c14-016-get-protect-2");
    assert_eq!((output.code(), output.stderr.as_str()), (1, ""), "{output}");
    let (_, explained) = output
        .stdout
        .split_once("\nFAIL c14-016-get-protect-2, cause DUT\n")
        .unwrap();
    for words in [
        "  public name: C14_016_Get\n",
        "  C14-16 ",
        "\n    expected  no answer\n",
        "\n    seen      SubnGetResp(PortInfo) status 0x0000 (success)\n",
        "\n    evidence  #",
    ] {
        assert!(explained.contains(words), "{words:?} is not in: {explained}");
    }

    let json = run_it("c14-016-get-protect-2 --json");
    assert_eq!(json.code(), 1);
    let report = json.json();
    let verdict = &list(&report, "verdicts")[0];
    assert_eq!((text(verdict, "outcome"), text(verdict, "cause")), ("FAIL", "DUT"));
    assert!(list(verdict, "statements").contains(&"C14-16".into()));
    assert!(!list(verdict, "findings").is_empty());
    for finding in list(verdict, "findings") {
        assert_eq!(text(finding, "statement"), "C14-16");
        assert!(!text(finding, "expected").is_empty() && !text(finding, "seen").is_empty());
        assert!(
            list(finding, "evidence")[0].as_str().unwrap().contains("SubnGet("),
            "{finding}"
        );
    }
}

#[test]
fn defective_device_fails_without_errors() {
    let place = Place::new();
    place.write("rigs.toml", BROKEN);
    let output = run(&mut place.verbatim("run --rig-file rigs.toml --rig broken c14-* c16-*"));
    let errors: Vec<_> = output.stdout.lines().filter(|line| line.starts_with("ERROR")).collect();
    assert_eq!(errors, [] as [&str; 0]);
    assert_eq!(output.code(), 1, "{output}");
}

#[test]
fn qualification_has_no_survivors() {
    let place = Place::new();
    // Every test runs on every defect, with both sets of rules.
    let output = Running::start(&mut place.verbatim("qualify --seeds 1 --json")).end(Duration::from_secs(1800));
    let document = output.json();
    let qualifications = list(&document, "qualifications");
    assert_eq!(qualifications.len(), 2);
    for (of, rules) in qualifications.iter().zip(["simulated", "hardware"]) {
        assert_eq!(of["rules"], rules);
        assert_eq!(list(of, "survived"), [] as [Value; 0]);
        assert_eq!(list(of, "stale"), [] as [Value; 0]);
        assert_eq!(list(of, "false_alarms"), [] as [Value; 0]);
        assert_eq!(list(of, "tests").len(), listed(&place).len());
        assert!(list(of, "defects").len() > 50);
        let largest = of["largest_state_set"].as_u64();
        assert!(largest.is_some_and(|largest| (2..64).contains(&largest)), "{largest:?}");
    }
    assert_eq!(output.code(), 0, "{}", output.stderr);
}

#[test]
fn pipes_and_no_color_disable_colours() {
    let place = Place::new();
    let line = format!(
        "{} run c14-016-get-protect-0 2>/dev/null",
        program("verbatim").display()
    );
    // `script`, which every system has, runs the command on a terminal.
    let on_terminal = |no_color: Option<&str>| {
        let mut command = place.command("script");
        command
            .args(["--quiet", "--return", "--command", &line, "/dev/null"])
            .env("TERM", "xterm");
        if let Some(value) = no_color {
            command.env("NO_COLOR", value);
        }
        let output = run(&mut command);
        assert_eq!(output.code(), 0, "{output}");
        assert!(output.stdout.contains("PASS"), "{output}");
        output.stdout
    };
    assert!(on_terminal(None).contains("\x1b[32mPASS"));
    assert!(
        on_terminal(Some("")).contains("\x1b[32mPASS"),
        "an empty NO_COLOR counts as none"
    );
    assert!(!on_terminal(Some("1")).contains('\x1b'));
    let piped = run(&mut place.verbatim("run c14-016-get-protect-0"));
    assert!(
        !piped.stdout.contains('\x1b') && !piped.stderr.contains('\x1b'),
        "{piped}"
    );
}
