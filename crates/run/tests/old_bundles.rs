//! Bundles that older versions wrote are verified and judged by this one.
#![allow(clippy::unwrap_used)] // a panic is how a test fails

use std::path::Path;

use tempfile::TempDir;
use verbatim_archives::unpack;
use verbatim_record::{Bundle, BundleWriter, Entry, Outcome, Sink, Time};
use verbatim_run::{export_pcapng, judge_bundle, verify_bundle};

fn bundle(name: &str) -> TempDir {
    let bundles = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/bundles");
    unpack(&bundles.join(format!("{name}.tar.gz")))
}

/// The verdicts as the version that made it had them.
fn stored(name: &str) -> Vec<verbatim_record::Verdict> {
    let text = std::fs::read_to_string(bundle(name).path().join("verdicts.json")).unwrap();
    assert!(
        !text.contains("measured"),
        "{name} is no bundle of a version before measured times"
    );
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_bundle_of_an_older_version_still_judges_as_it_did() {
    // What versions since then judge more, and only the first of it is told: on a simulated link the rule of RNR intervals
    // excuses nothing by a crossing; and what a message waits for after an RNR NAK is a rule of its own.
    let more = "c09-130-rnr-interval: still FAIL, but its checks differ";
    let added_rules = ["rnr-interval", "rnr-wait"];
    for (name, outcome, drift, added) in [
        ("rnr-interval-fail", Outcome::Fail, &[more][..], &added_rules[..]),
        ("get-protect-pass", Outcome::Pass, &[], &[]),
    ] {
        let verified = verify_bundle(bundle(name).path()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(
            verified.report.not_judged_anew.len(),
            0,
            "{name}: if the revision of its test went up, say so here, and add a bundle of today's version"
        );
        assert_eq!(verified.drift.len(), drift.len(), "{name}: {:?}", verified.drift);
        for (told, expected) in verified.drift.iter().zip(drift) {
            let why = told.strip_prefix(expected).unwrap_or_else(|| panic!("{name}: {told}"));
            assert!(why.starts_with("; only now: FAIL C9-130 "), "{name}: {told}");
        }
        let [verdict] = verified.report.verdicts.as_slice() else {
            panic!("{name}: one verdict was expected");
        };
        assert_eq!(verdict.outcome(), outcome, "{name}");
        let before = stored(name);
        let (kept, more) = verdict.findings.split_at(before[0].findings.len());
        assert!(
            kept.iter()
                .zip(&before[0].findings)
                .all(|(now, then)| now.about == then.about),
            "{name}"
        );
        assert_eq!(more.len(), added.len(), "{name}: {more:?}");
        for (check, rule) in more.iter().zip(added) {
            assert!(check.about.split(':').next() == Some(rule), "{name}: {check}");
        }
        assert!(verdict.passed.len() >= before[0].passed.len(), "{name}");
        assert_eq!(
            judge_bundle(bundle(name).path()).unwrap().0.verdicts,
            verified.report.verdicts
        );
    }
}

#[test]
fn what_an_older_version_did_not_keep_is_worked_out_from_its_record() {
    let verified = verify_bundle(bundle("rnr-interval-fail").path()).unwrap();
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

/// A copy of a bundle as another version would have sealed it: its record of this test and this revision.
fn resealed(name: &str, place: &Path, test: &str, revision: impl Fn(u32) -> u32) {
    let mut writer = BundleWriter::create(place).unwrap();
    let mut verdicts = stored(name);
    for record in Bundle::open(bundle(name).path()).unwrap().records().unwrap() {
        // The end is counted and dated anew.
        let mut sink = writer.record(test).unwrap();
        for mut entry in record {
            if let Entry::Begin(begin) = &mut entry {
                begin.revision = revision(begin.revision);
                begin.test = test.into();
            }
            if !matches!(entry, Entry::End { .. }) {
                sink.put(entry);
            }
        }
        sink.finish(Time(0)).unwrap();
    }
    verdicts[0].test = test.into();
    writer
        .write("verdicts.json", &serde_json::to_string(&verdicts).unwrap())
        .unwrap();
    let run = std::fs::read_to_string(bundle(name).path().join("run.json")).unwrap();
    writer.write("run.json", &run).unwrap();
    writer.seal().unwrap();
}

#[test]
fn a_record_of_another_revision_keeps_the_verdict_of_its_run_and_says_why() {
    let (fail, pass) = ("c09-130-rnr-interval", "c14-016-get-protect-2");
    for (name, test, other, words) in [
        ("rnr-interval-fail", fail, 1, "this version has revision "),
        ("rnr-interval-fail", "c99-001-gone", 0, "does not have the test"),
        ("get-protect-pass", pass, 1, "this version has revision "),
    ] {
        let temporary = tempfile::tempdir().unwrap();
        let place = temporary.path().join("bundle");
        resealed(name, &place, test, |revision| revision + other);
        let verified = verify_bundle(&place).unwrap();
        let before = stored(name)[0].outcome();
        let [verdict] = verified.report.verdicts.as_slice() else {
            panic!("{test}: one verdict was expected");
        };
        assert_eq!((verdict.test.as_str(), verdict.outcome()), (test, before));
        assert_eq!(verified.report.run.outcome(), before, "{test}");
        assert_eq!(verified.drift, [""; 0], "{test}");
        let why = &verified.report.not_judged_anew[test];
        assert!(why.contains(words) && why.contains("which made the record"), "{why}");
        export_pcapng(&place, &temporary.path().join("run.pcapng"), false).unwrap();
    }
}

#[test]
fn a_record_of_another_revision_is_refused_where_it_was_altered_or_its_verdict_is_missing() {
    let temporary = tempfile::tempdir().unwrap();
    let place = temporary.path().join("bundle");
    resealed("rnr-interval-fail", &place, "c09-130-rnr-interval", |revision| {
        revision + 1
    });
    let (verdicts, record) = (place.join("verdicts.json"), place.join("001-c09-130-rnr-interval.rec"));
    let sound = std::fs::read(&verdicts).unwrap();
    std::fs::write(
        &verdicts,
        String::from_utf8(sound.clone())
            .unwrap()
            .replace("\"FAIL\"", "\"PASS\""),
    )
    .unwrap();
    assert!(judge_bundle(&place).unwrap_err().to_string().contains("damaged"));
    std::fs::write(&verdicts, sound).unwrap();
    judge_bundle(&place).unwrap();
    let mut bytes = std::fs::read(&record).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&record, bytes).unwrap();
    assert!(judge_bundle(&place).unwrap_err().to_string().contains("damaged"));
    // Sealed without a verdict of this test.
    let other = temporary.path().join("other");
    resealed("rnr-interval-fail", &other, "c09-130-rnr-interval", |revision| {
        revision + 1
    });
    std::fs::remove_file(other.join("manifest.json")).unwrap();
    std::fs::remove_file(other.join("verdicts.json")).unwrap();
    let writer = BundleWriter::resume(&other, 1).unwrap();
    writer.write("verdicts.json", "[]").unwrap();
    writer.seal().unwrap();
    let error = judge_bundle(&other).unwrap_err().to_string();
    assert!(error.contains("this catalogue has revision"), "{error}");
}
