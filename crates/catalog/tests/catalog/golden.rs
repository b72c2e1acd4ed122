//! Golden records, judged anew: what a catalogue says of an old record may not change unnoticed.
//!
//! `golden/TEST.tar.zst` holds a test's records: `TEST.rec` is of a sound device and passes, `TEST@DEFECT.rec` is of one
//! with a defect and does not. The verdicts stand in `golden/verdicts.txt`, in the order of `TESTS`. `cargo xtask golden
//! TEST` makes a record and its lines. A change that is meant goes into CHANGELOG.md under "Drift", then `cargo xtask
//! golden` writes the lines anew. A record is replaced only when its test's revision goes up.

use verbatim_archives::golden::{self, test_of};
use verbatim_catalog::{TESTS, judge};
use verbatim_record::{Outcome, Verdict};

/// Set: the verdicts are written, not compared.
const WRITE: &str = "VERBATIM_WRITE_GOLDEN";
/// Findings of a verdict that are kept, each with its line; of more, their number.
const FINDINGS: usize = 12;

/// The names of the records, in the order of `TESTS`; a test's sound device first.
fn names() -> Vec<String> {
    let mut placed: Vec<(usize, String)> = golden::names()
        .into_iter()
        .map(|name| {
            let id = test_of(&name);
            let place = TESTS.iter().position(|test| test.id == id);
            let place = place.unwrap_or_else(|| panic!("golden/{name}.rec: the catalogue has no test {id}"));
            (place, name)
        })
        .collect();
    placed.sort();
    placed.into_iter().map(|(_, name)| name).collect()
}

fn verdict(name: &str) -> Verdict {
    let verdict = judge(golden::entries(name)).unwrap_or_else(|error| panic!("golden/{name}.rec: {error}"));
    assert_eq!(verdict.test, test_of(name), "golden/{name}.rec is of another test");
    verdict
}

/// The outcome and how many checks passed; then a line for each check that did not, further in where it follows from another.
fn lines(name: &str, verdict: &Verdict) -> Vec<String> {
    let mut lines = vec![format!("{name} {} checks {}", verdict.outcome(), verdict.passed.len())];
    let findings = verdict.findings.iter().take(FINDINGS);
    lines.extend(findings.map(|check| {
        let result = if check.is_failure() { "FAIL" } else { "INCONCLUSIVE" };
        let under = if check.follows_from.is_some() { "  " } else { "" };
        format!("  {under}{result} {check}")
    }));
    if verdict.findings.len() > FINDINGS {
        lines.push(format!("  and {} more", verdict.findings.len() - FINDINGS));
    }
    if verdict.findings.is_empty() && verdict.outcome() != Outcome::Pass {
        lines.push(format!("  {}", verdict.reason));
    }
    lines
}

/// Where the lines that are kept and those that are seen part, in words; one place for each record.
fn differences(kept: &str, seen: &[(String, Vec<String>)]) -> Vec<String> {
    let kept: Vec<(usize, &str)> = kept.lines().enumerate().map(|(at, line)| (at + 1, line)).collect();
    let mut blocks: Vec<(&str, &[(usize, &str)])> = kept
        .chunk_by(|_, (_, next)| next.starts_with(' '))
        .map(|block| (block[0].1.split(' ').next().unwrap_or_default(), block))
        .collect();
    let mut differences = Vec::new();
    for (name, lines) in seen {
        let block = match blocks.iter().position(|(kept, _)| kept == name) {
            Some(place) => blocks.remove(place).1,
            None => &[],
        };
        let count = block.len().max(lines.len());
        let differs = (0..count).find(|at| block.get(*at).map(|(_, line)| *line) != lines.get(*at).map(String::as_str));
        if let Some(at) = differs {
            let place = match (block.get(at), block.last()) {
                (Some((number, _)), _) => format!("line {number} of verdicts.txt"),
                (None, Some((number, _))) => format!("after line {number} of verdicts.txt"),
                (None, None) => "not in verdicts.txt".into(),
            };
            let or_none = |line: Option<&str>| line.unwrap_or("no line").trim().to_string();
            differences.push(format!(
                "{name}, {place}:\n  expected  {}\n  seen      {}",
                or_none(block.get(at).map(|(_, line)| *line)),
                or_none(lines.get(at).map(String::as_str)),
            ));
        }
    }
    let left = blocks.iter();
    differences
        .extend(left.map(|(name, block)| format!("{name}, line {} of verdicts.txt: it has no record", block[0].0)));
    differences
}

#[test]
fn the_verdict_on_each_golden_record_is_the_one_that_is_kept() {
    let seen: Vec<(String, Vec<String>)> = names()
        .into_iter()
        .map(|name| {
            let lines = lines(&name, &verdict(&name));
            (name, lines)
        })
        .collect();
    let text: String = seen
        .iter()
        .flat_map(|(_, lines)| lines)
        .map(|line| format!("{line}\n"))
        .collect();
    let file = golden::directory().join("verdicts.txt");
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&file, text).unwrap();
        return;
    }
    let kept = std::fs::read_to_string(&file).unwrap();
    let differences = differences(&kept, &seen);
    assert!(
        differences.is_empty(),
        "the verdicts on golden records drifted: explain it in CHANGELOG.md, unless the test is new, then `cargo xtask golden`\n{}",
        differences.join("\n")
    );
    assert_eq!(
        kept, text,
        "verdicts.txt is not in the order of TESTS: `cargo xtask golden` writes it anew"
    );
}

#[test]
fn each_test_has_a_golden_record_that_passes_and_one_that_does_not() {
    let names = names();
    for test in TESTS {
        assert!(
            names.iter().any(|name| name == test.id),
            "{}: no record of a sound device: `cargo xtask golden {}`",
            test.id,
            test.id
        );
        assert!(
            names.iter().any(|name| name != test.id && test_of(name) == test.id) || TOO_LARGE.contains(&test.id),
            "{}: no record of a device with a defect: `cargo xtask golden {} --defect NAME`",
            test.id,
            test.id
        );
    }
    for name in names {
        let verdict = verdict(&name);
        assert_eq!(
            verdict.outcome() == Outcome::Pass,
            !name.contains('@'),
            "golden/{name}.rec: {} {}",
            verdict.outcome(),
            verdict.reason
        );
    }
}

#[test]
fn on_a_sound_device_a_judge_names_the_statements_of_its_test_alone() {
    let mut strangers = Vec::new();
    for name in names().into_iter().filter(|name| !name.contains('@')) {
        let verdict = verdict(&name);
        let checks = verdict.passed.iter();
        let others = checks.filter(|check| !verdict.statements.contains(&check.statement));
        strangers.extend(others.map(|check| format!("{name}: {} {}", check.statement, check.about)));
    }
    assert!(
        strangers.is_empty(),
        "checks of statements that the test's `statements` lack: no defect of them would be tried\n{}",
        strangers.join("\n")
    );
}

/// Tests whose records of a device with a defect are too large to keep; tests of the same family have them.
const TOO_LARGE: [&str; 9] = [
    "c09-060-ack-of-read",
    "c09-142-ack-timeout",
    "c09-loss-positions",
    "c09-nak-invalid-request",
    "c09-nak-remote-access",
    "c09-psn-wrap",
    "c09-read-response",
    "c09-region-edges",
    "c09-requests",
];

#[test]
fn a_difference_names_the_record_and_the_one_line() {
    let kept = "a PASS checks 1\nb@x FAIL checks 1\n  FAIL C1: expected 1, seen 2\nc PASS checks 4\n";
    let block = |lines: &[&str]| lines.iter().map(ToString::to_string).collect::<Vec<_>>();
    let seen = [
        ("a".to_string(), block(&["a PASS checks 1"])),
        (
            "b@x".to_string(),
            block(&["b@x FAIL checks 1", "  FAIL C1: expected 1, seen 3"]),
        ),
        ("d".to_string(), block(&["d PASS checks 2"])),
    ];
    assert_eq!(
        differences(kept, &seen),
        [
            "b@x, line 3 of verdicts.txt:\n  expected  FAIL C1: expected 1, seen 2\n  seen      FAIL C1: expected 1, seen 3",
            "d, not in verdicts.txt:\n  expected  no line\n  seen      d PASS checks 2",
            "c, line 4 of verdicts.txt: it has no record",
        ]
    );
}
