//! Bundles that older versions wrote are verified and judged by this one.
#![allow(clippy::unwrap_used)] // a panic is how a test fails

use std::path::PathBuf;

use verbatim_record::Outcome;
use verbatim_run::{past_bundle, verify_bundle};

fn bundle(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/data/bundles")
        .join(name)
}

/// The verdicts as the version that made it had them.
fn stored(name: &str) -> Vec<verbatim_record::Verdict> {
    let text = std::fs::read_to_string(bundle(name).join("verdicts.json")).unwrap();
    assert!(
        !text.contains("measured"),
        "{name} is no bundle of a version before measured times"
    );
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_bundle_of_an_older_version_still_judges_as_it_did() {
    // What a version since then judges more: on a simulated link the rule of RNR intervals excuses nothing by a crossing.
    let more = "c09-130-rnr-interval: still FAIL, but its checks differ";
    for (name, outcome, drift) in [
        ("rnr-interval-fail", Outcome::Fail, &[more][..]),
        ("get-protect-pass", Outcome::Pass, &[]),
    ] {
        let verified = verify_bundle(&bundle(name)).unwrap_or_else(|error| {
            panic!(
                "{name}: {error}; if the revision of its test went up, say so here, and add a bundle of today's version"
            )
        });
        assert_eq!(verified.drift, drift, "{name}");
        let [verdict] = verified.report.verdicts.as_slice() else {
            panic!("{name}: one verdict was expected");
        };
        assert_eq!(verdict.outcome(), outcome, "{name}");
        let before = stored(name);
        let added = drift.len();
        assert_eq!(verdict.findings.len(), before[0].findings.len() + added, "{name}");
        assert!(verdict.passed.len() >= before[0].passed.len(), "{name}");
        assert_eq!(past_bundle(&bundle(name)).unwrap().verdicts, verified.report.verdicts);
    }
}

#[test]
fn what_an_older_version_did_not_keep_is_worked_out_from_its_record() {
    let verified = verify_bundle(&bundle("rnr-interval-fail")).unwrap();
    let checks = verified.report.verdicts.iter().flat_map(|verdict| &verdict.findings);
    let times: Vec<_> = checks.filter_map(|check| check.measured).collect();
    // Half of the interval that the RNR NAK asks for.
    assert!(
        times
            .iter()
            .any(|time| time.lower_ns.is_some_and(|lower| time.most_ns < lower)),
        "{times:?}"
    );
}
