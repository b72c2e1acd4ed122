//! Golden records: the catalogue's verdicts on stored records must not change unnoticed.
//!
//! `golden/TEST.tar.zst` holds a test's records. `TEST.rec` is the record of a conforming device and must pass.
//! `TEST@DEFECT.rec` is the record of a device with a defect and must not pass. `golden/verdicts.txt` holds the
//! verdicts in the order of `TESTS`. `cargo xtask golden TEST` makes a record and its lines in verdicts.txt. An
//! intended change of a verdict needs an entry under "Drift" in CHANGELOG.md; `cargo xtask golden` then rewrites the
//! lines. A record is replaced only when its test's revision increases.

use verbatim_archives::golden::{self, test_of};
use verbatim_catalog::{TESTS, estimate, judge};
use verbatim_record::{Entry, Outcome, Time, Verdict};

/// If this variable is set, the test writes the verdicts instead of comparing them.
const WRITE: &str = "VERBATIM_WRITE_GOLDEN";
/// The maximum number of findings that verdicts.txt lists for a verdict. For the rest, it holds only their number.
const FINDINGS: usize = 12;

/// Returns the names of the records in the order of `TESTS`. For each test, the conforming device's record comes first.
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

/// Formats the outcome with the number of passed checks, then one line for each finding. The line of a finding that
/// follows from another one is indented further.
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

/// Describes, for each record, the first line in which verdicts.txt differs from the current verdicts.
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
fn verdicts_on_golden_records_are_unchanged() {
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

/// Checks that the estimate of a test's duration is not much below the simulated time of its record. In real time, a
/// test with many exchanges may last longer. Skips tests whose default parameters differ in simulated time.
fn is_as_estimated(id: &str, entries: &[Entry]) {
    let test = TESTS.iter().find(|test| test.id == id).unwrap();
    if test.parameters.iter().any(|of| of.default != of.simulated) {
        return;
    }
    let end = |entry: &Entry| match entry {
        Entry::Sent(of) => Some(of.at.latest),
        Entry::Arrived(of) => Some(of.at.latest),
        Entry::Silence { at, .. } => Some(at.latest),
        Entry::Frame(of) => Some(of.at.latest),
        Entry::VerbsAnswered(of) => Some(of.at.latest),
        Entry::Waited(of) => Some(of.until),
        _ => None,
    };
    let lasted = entries.iter().rev().find_map(end).unwrap_or(Time(0)).0 as f64 / 1e9;
    let expected = estimate(id).as_secs_f64();
    assert!(
        lasted <= (expected * 1.25).max(2.5),
        "estimates.toml: {id} lasts {lasted:.0} s of simulated time, expected about {expected:.0} s"
    );
}

#[test]
fn each_test_has_a_passing_and_failing_record() {
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
        let entries = golden::entries(&name);
        if !name.contains('@') {
            is_as_estimated(&name, &entries);
        }
        let verdict = judge(entries).unwrap_or_else(|error| panic!("golden/{name}.rec: {error}"));
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
fn judges_check_only_declared_statements() {
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

/// Tests whose records of a defective device are too large for the repository.
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
fn difference_names_record_and_line() {
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

#[test]
fn wrong_content_names_the_packet_with_these_bytes() {
    let entries = golden::entries("c09-connections@write-place-shared");
    let verdict = judge(entries.clone()).unwrap();
    let mut found = verdict.findings.iter();
    let check = found.find(|check| check.about.starts_with("write-content")).unwrap();
    let seen: Vec<u8> = check.seen[1..24]
        .split(' ')
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect();
    let has = |entry: &Entry| match entry {
        Entry::Frame(frame) if check.frames.contains(&frame.number) => {
            frame.bytes.windows(seen.len()).any(|window| window == seen)
        }
        _ => false,
    };
    assert!(entries.iter().any(has), "{check:?}");
}
