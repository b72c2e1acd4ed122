//! Verdicts on records that contain a reset.

use std::path::Path;

use verbatim_archives::unpack;
use verbatim_catalog::judge;
use verbatim_record::{Cause, Entry, Outcome, Reset, Verdict, read_file};

/// Judges the record of a sound device with this reset after the test.
fn with(reset: Reset) -> Verdict {
    let bundles = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/bundles/bundles.tar.gz");
    let bundles = unpack(&bundles);
    let mut entries = read_file(
        &bundles
            .path()
            .join("bundles/management-pass/001-c14-016-get-protect-2.rec"),
    )
    .unwrap();
    entries.push(Entry::Reset(Box::new(reset)));
    judge(entries).unwrap()
}

fn of(silent: &str, succeeded: bool, after: &str) -> Reset {
    Reset {
        silent: silent.into(),
        command: vec!["./power".into(), "cycle".into()],
        ended: "exit status: 0".into(),
        succeeded,
        after: after.into(),
        ..Reset::default()
    }
}

#[test]
fn reset_between_tests_changes_no_verdict() {
    let verdict = with(of("", true, ""));
    assert_eq!((verdict.outcome(), verdict.findings.len()), (Outcome::Pass, 0));
    let verdict = with(of("", false, ""));
    assert_eq!(verdict.outcome(), Outcome::Pass);
    assert!(
        verdict
            .observations
            .iter()
            .any(|seen| seen.text.contains("./power cycle"))
    );
}

#[test]
fn reset_that_revives_the_device_proves_silence() {
    let verdict = with(of("asked 3 times, no answer", true, ""));
    assert_eq!((verdict.outcome(), verdict.cause()), (Outcome::Fail, Cause::Dut));
    let [finding] = verdict.findings.as_slice() else {
        panic!("{verdict:?}");
    };
    assert_eq!(
        (finding.statement.as_str(), finding.about.as_str()),
        ("C13-14", "device stopped answering")
    );
    assert!(finding.seen.contains("./power cycle") && finding.seen.contains("it answers again"));
    assert!(!verdict.passed.is_empty());
}

#[test]
fn failed_reset_is_inconclusive() {
    for reset in [of("no answer", true, "still no answer"), of("no answer", false, "")] {
        let verdict = with(reset);
        assert_eq!(
            (verdict.outcome(), verdict.cause()),
            (Outcome::Inconclusive, Cause::Rig)
        );
    }
}
