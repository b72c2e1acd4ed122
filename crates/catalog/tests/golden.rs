//! One golden record of each test, judged anew: what a catalogue says of an old record may not change unnoticed.
//!
//! A change that is meant goes into CHANGELOG.md under "Drift". A record is replaced only when its test's revision goes
//! up: `verbatim run --seed 7 --set illegal_parts=8 --set violations=3 --record DIR`.
#![allow(clippy::unwrap_used)] // a panic is how a test fails

use std::path::Path;

use verbatim_catalog::{TESTS, judge};
use verbatim_record::{Outcome, read_file};

#[test]
fn the_golden_record_of_each_test_still_passes_with_as_many_checks() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut lines = String::new();
    for test in TESTS {
        let path = directory.join(format!("{}.rec", test.id));
        let verdict = judge(read_file(&path).unwrap()).unwrap();
        assert_eq!(verdict.outcome, Outcome::Pass, "{}: {}", test.id, verdict.reason);
        lines.push_str(&format!(
            "{} {} checks {}\n",
            test.id,
            verdict.outcome,
            verdict.passed.len()
        ));
    }
    let expected = std::fs::read_to_string(directory.join("verdicts.txt")).unwrap();
    assert_eq!(
        lines, expected,
        "the verdicts on golden records drifted: explain it in CHANGELOG.md, then update verdicts.txt"
    );
}
