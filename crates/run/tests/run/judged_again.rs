//! Judging stored bundles again: differing checks, and tests whose revision differs in the catalogue.

use std::path::Path;

use tempfile::TempDir;
use verbatim_archives::unpack;
use verbatim_record::{Bundle, BundleWriter, Entry, Sink, Time, Verdict};
use verbatim_run::{export_pcapng, judge_bundle, verify_bundle};

/// Unpacks the example bundles.
fn examples() -> TempDir {
    unpack(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/bundles/bundles.tar.gz"))
}

fn stored(name: &str) -> Vec<Verdict> {
    let text = std::fs::read_to_string(examples().path().join("bundles").join(name).join("verdicts.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Copies a bundle, with another test id and revision in its record, and seals it as another version would.
fn resealed(name: &str, place: &Path, test: &str, revision: impl Fn(u32) -> u32) {
    resealed_with(name, place, test, revision, stored(name));
}

fn resealed_with(name: &str, place: &Path, test: &str, revision: impl Fn(u32) -> u32, mut verdicts: Vec<Verdict>) {
    let mut writer = BundleWriter::create(place).unwrap();
    let examples = examples();
    let bundle = examples.path().join("bundles").join(name);
    for record in Bundle::open(&bundle).unwrap().records().unwrap() {
        // The new sink writes the end entry itself.
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
    let run = std::fs::read_to_string(bundle.join("run.json")).unwrap();
    writer.write("run.json", &run).unwrap();
    writer.seal().unwrap();
}

#[test]
fn drift_names_the_checks_that_differ() {
    let (name, test) = ("transport-fail", "c09-130-rnr-interval");
    let unaltered = stored(name);
    let mut less = unaltered.clone();
    let only_now = less[0].findings.remove(1);
    let mut more = unaltered.clone();
    more[0].findings[0].seen = "something else".into();
    let mut unmeasured = unaltered.clone();
    for finding in &mut unmeasured[0].findings {
        finding.measured = None;
    }
    for (verdicts, expected) in [
        (unaltered, &[][..]),
        (less, &[&only_now.about, "only now: FAIL"]),
        (
            more,
            &["only in the bundle: FAIL", "seen something else", "only now: FAIL"],
        ),
        (unmeasured, &["still FAIL, but its checks differ"]),
    ] {
        let temporary = tempfile::tempdir().unwrap();
        let place = temporary.path().join("bundle");
        resealed_with(name, &place, test, |revision| revision, verdicts);
        let drift = verify_bundle(&place).unwrap().drift.join("\n");
        assert_eq!(drift.is_empty(), expected.is_empty(), "{drift}");
        for words in expected {
            assert!(drift.contains(words), "{words} in {drift}");
        }
    }
}

#[test]
fn other_revision_keeps_the_verdict_of_its_run() {
    let (fail, pass) = ("c09-130-rnr-interval", "c14-016-get-protect-2");
    for (name, test, other, words) in [
        ("transport-fail", fail, 1, "this version has revision "),
        ("transport-fail", "c99-001-gone", 0, "does not have the test"),
        ("management-pass", pass, 1, "this version has revision "),
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
fn other_revision_needs_an_unaltered_verdict() {
    let temporary = tempfile::tempdir().unwrap();
    let place = temporary.path().join("bundle");
    resealed("transport-fail", &place, "c09-130-rnr-interval", |revision| {
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
    // This bundle is sealed without a verdict of the test.
    let other = temporary.path().join("other");
    resealed("transport-fail", &other, "c09-130-rnr-interval", |revision| {
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
