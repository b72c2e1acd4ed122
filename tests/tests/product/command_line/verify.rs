//! `verbatim verify` on bundles whose author altered the words before the seal.

use std::fs;

use serde_json::Value;
use verbatim_record::BundleWriter;
use verbatim_tests::product::{Output, Place, run};

const TEST: &str = "c14-024-node-type";

fn verbatim(place: &Place, arguments: &str) -> Output {
    run(&mut place.verbatim(arguments))
}

/// Runs one test with its record in `kept`.
fn kept(place: &Place) {
    let output = verbatim(place, &format!("run {TEST} --seed 3 --record kept"));
    assert_eq!(output.code(), 0, "{output}");
}

/// Alters a document of the bundle, and seals the bundle again.
fn altered(place: &Place, name: &str, alter: impl Fn(&mut Value)) {
    let path = place.path("kept").join(name);
    let mut document = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    alter(&mut document);
    fs::write(path, document.to_string()).unwrap();
    sealed(place);
}

fn sealed(place: &Place) {
    BundleWriter::resume(&place.path("kept"), 99).unwrap().seal().unwrap();
}

/// Checks that `verify` fails with this line.
fn differs(place: &Place, line: &str) {
    let output = verbatim(place, "verify kept");
    assert_eq!(output.code(), 1, "{output}");
    assert!(
        output.stdout.lines().any(|seen| seen.trim() == line),
        "{line}: {output}"
    );
    let json = verbatim(place, "verify kept --json");
    assert_eq!(json.code(), 1, "{json}");
    assert!(
        json.json()["mismatches"].as_array().unwrap().contains(&line.into()),
        "{json}"
    );
}

#[test]
fn run_that_differs_from_its_records_is_reported() {
    let version = env!("CARGO_PKG_VERSION");
    let record = format!("001-{TEST}.rec");
    for (key, value, line) in [
        (
            "seed",
            Value::from(4),
            format!("run.json has seed \"4\", {record} has \"3\""),
        ),
        (
            "rig_kind",
            "umad".into(),
            format!("run.json has rig_kind \"umad\", {record} has \"virtual\""),
        ),
        (
            "catalogue",
            "9.9.9".into(),
            format!("run.json has catalogue \"9.9.9\", {record} has \"{version}\""),
        ),
        (
            "outcome",
            "FAIL".into(),
            "run.json has outcome FAIL, but the worst outcome in verdicts.json is PASS".into(),
        ),
    ] {
        let place = Place::new();
        kept(&place);
        altered(&place, "run.json", |run| {
            assert!(run[key] != value && !run[key].is_null(), "{key}");
            run[key] = value.clone();
        });
        differs(&place, &line);
    }
}

#[test]
fn record_under_the_name_of_another_test_is_reported() {
    let place = Place::new();
    kept(&place);
    let (old, new) = (format!("kept/001-{TEST}.rec"), "kept/001-c14-015-get.rec");
    fs::rename(place.path(&old), place.path(new)).unwrap();
    sealed(&place);
    differs(
        &place,
        &format!("001-c14-015-get.rec is the record of {TEST}; expected the name 001-{TEST}.rec"),
    );
}

#[test]
fn altered_verdict_is_not_blamed_on_another_catalogue() {
    let place = Place::new();
    kept(&place);
    altered(&place, "verdicts.json", |verdicts| {
        verdicts[0]["passed"][0]["seen"] = "x".into()
    });
    let output = verbatim(&place, "verify kept");
    assert_eq!(output.code(), 1, "{output}");
    let words = "judged again, by the catalogue of the run, differ from verdicts.json:";
    assert!(output.stdout.contains(words), "{output}");
    assert!(!output.stdout.contains("another catalogue"), "{output}");
}

#[test]
fn documents_of_a_record_have_no_hidden_characters() {
    let place = Place::new();
    let name = "kept\u{9b}\u{202e}\u{2066}\u{2028}";
    let output = run(place.verbatim(&format!("run {TEST} --record")).arg(name));
    assert_eq!(output.code(), 0, "{output}");
    let text = fs::read_to_string(place.path(name).join("run.json")).unwrap();
    assert!(text.contains(r"kept\u009b\u202e\u2066\u2028"), "{text}");
    assert!(
        !text.contains(['\u{9b}', '\u{202e}', '\u{2066}', '\u{2028}']),
        "{text:?}"
    );
    let run: Value = serde_json::from_str(&text).unwrap();
    assert!(
        run["record"].as_str().unwrap().ends_with(name),
        "the value stays: {run}"
    );
}

#[test]
fn bundle_without_records_is_inconclusive() {
    let place = Place::new();
    kept(&place);
    fs::remove_file(place.path(&format!("kept/001-{TEST}.rec"))).unwrap();
    altered(&place, "verdicts.json", |verdicts| *verdicts = Value::Array(Vec::new()));
    altered(&place, "run.json", |run| run["outcome"] = "SKIPPED".into());
    for command in ["verify kept", "verify kept --json", "report kept", "judge kept"] {
        let output = verbatim(&place, command);
        assert_eq!(output.code(), 4, "{command}: {output}");
    }
}
