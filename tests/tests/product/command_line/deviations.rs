//! Known deviations. A known FAIL gets one line and stays a FAIL. A known deviation that does not occur is reported.

use std::fs;
use std::path::Path;

use serde_json::Value;
use verbatim_tests::product::{Output, Place, run};

const RIG: &str = r#"config_version = 1

[[rig]]
name = "kept"
kind = "virtual"
defects = ["late-receive-kept"]

[[rig]]
name = "hasty"
kind = "virtual"
defects = ["timeout-early"]
"#;
const RXE: &str = r#"{"vendor_id": "0xffffff", "host": "vm Linux 6.1.0-43-amd64 x86_64, verbatim-agent 0.1.0"}"#;
const OTHER: &str = r#"{"vendor_id": "0x0002c9", "host": "vm Linux 6.1.0-43-amd64 x86_64, verbatim-agent 0.1.0"}"#;

fn sha256(place: &Place, file: &Path) -> String {
    let output = run(place.command("sha256sum").arg(file));
    output.stdout.split_whitespace().next().unwrap().to_owned()
}

/// Runs a test on a model, and changes the record's fingerprint to that of a device behind an agent.
fn record_of(place: &Place, rig: &str, device: &str, name: &str) {
    record_of_test(place, "c09-local-errors", rig, device, name);
}

fn record_of_test(place: &Place, test: &str, rig: &str, device: &str, name: &str) {
    fs::write(place.path("rigs.toml"), RIG).unwrap();
    run(&mut place.verbatim(&format!("run --rig-file rigs.toml --rig {rig} {test} --record {name}")));
    let directory = place.path(name);
    let mut document: Value = serde_json::from_slice(&fs::read(directory.join("run.json")).unwrap()).unwrap();
    document["fingerprint"]["device"] = serde_json::from_str(device).unwrap();
    fs::write(directory.join("run.json"), document.to_string()).unwrap();
    // Seal the bundle again. The manifest's own hash is computed over the manifest with an empty hash.
    let place_of_manifest = directory.join("manifest.json");
    let mut manifest = fs::read_to_string(&place_of_manifest).unwrap();
    let known: Value = serde_json::from_str(&manifest).unwrap();
    let entry = known["files"]
        .as_array()
        .unwrap()
        .iter()
        .find(|file| file["name"] == "run.json")
        .unwrap();
    manifest = manifest.replace(
        entry["sha256"].as_str().unwrap(),
        &sha256(place, &directory.join("run.json")),
    );
    manifest = manifest.replace(
        &format!("\"run.json\",\n      \"bytes\": {}", entry["bytes"]),
        &format!("\"run.json\",\n      \"bytes\": {}", document.to_string().len()),
    );
    let own = known["sha256"].as_str().unwrap();
    fs::write(&place_of_manifest, manifest.replace(own, "")).unwrap();
    let sealed = sha256(place, &place_of_manifest);
    fs::write(&place_of_manifest, manifest.replace(own, &sealed)).unwrap();
}

fn judged(place: &Place, arguments: &str) -> Output {
    let output = run(&mut place.verbatim(&format!("judge {arguments}")));
    assert!(!output.stderr.contains("SHA-256"), "{output}");
    output
}

#[test]
fn known_fail_gets_one_line_and_exits_1() {
    let place = Place::new();
    record_of(&place, "kept", RXE, "rxe");
    let output = judged(&place, "rxe");
    assert_eq!(output.code(), 1, "{output}");
    assert!(output.stdout.contains("1 failed, all known"), "{output}");
    assert!(output.stdout.contains("Known deviations of Linux rxe"), "{output}");
    assert!(output.stdout.contains("rxe-receive-in-error-state: "), "{output}");
    assert!(
        !output.stdout.contains("    expected  "),
        "what is known is not explained again: {output}"
    );
    assert!(judged(&place, "rxe --all").stdout.contains("    expected  "));
    let document = judged(&place, "rxe --json").json();
    assert_eq!(document["verdicts"][0]["outcome"], "FAIL");
    let known = &document["known_deviations"][0];
    assert_eq!(
        (&known["showed"], &known["explains_all"]),
        (&"SEEN".into(), &true.into()),
        "{known}"
    );
    // The start of the run is a readable timestamp.
    assert!(
        document["run"]["started"].as_str().unwrap().ends_with('Z'),
        "{document}"
    );
}

#[test]
fn tolerated_known_fail_exits_0() {
    let place = Place::new();
    record_of(&place, "kept", RXE, "rxe");
    assert_eq!(judged(&place, "rxe --known").code(), 0);
    let xml = run(&mut place.verbatim("report rxe --junit - --known")).stdout;
    assert!(
        xml.contains("failures=\"0\"") && xml.contains("type=\"KNOWN\""),
        "{xml}"
    );
}

#[test]
fn fast_ack_timer_on_rxe_is_new() {
    let place = Place::new();
    record_of_test(&place, "c09-142-ack-timeout", "hasty", RXE, "hasty");
    let output = judged(&place, "hasty --known");
    assert_eq!(output.code(), 1, "{output}");
    assert!(
        output.stdout.contains("C9-142") && !output.stdout.contains("known"),
        "{output}"
    );
    // The register's entry for rxe has a bound, which this retry exceeds. An entry without a bound makes the same
    // finding known.
    let mine = "family = \"x\"\n[[deviation]]\nid = \"x\"\nstatement = \"C9-142\"\ntests = [\"c09-*\"]\nfindings = [\"*\"]\n\
                reason = \"It is.\"\nsource = \"lab\"\nexpires = \"2099-12-31\"\n";
    fs::write(place.path("mine.toml"), mine).unwrap();
    let output = judged(&place, "hasty --known --deviations mine.toml");
    assert_eq!(output.code(), 0, "{output}");
}

#[test]
fn fail_is_unknown_on_other_device() {
    let place = Place::new();
    record_of(&place, "kept", OTHER, "other");
    let output = judged(&place, "other");
    assert_eq!(output.code(), 1, "{output}");
    assert!(!output.stdout.contains("nown"), "{output}");
    assert!(output.stdout.contains("    expected  "), "{output}");
}

#[test]
fn absent_deviation_passes_with_note() {
    let place = Place::new();
    record_of(&place, "virtual", RXE, "mended");
    let output = judged(&place, "mended");
    assert_eq!(output.code(), 0, "{output}");
    assert!(
        output
            .stdout
            .contains("Known deviations that did not appear or have expired"),
        "{output}"
    );
    assert!(
        output.stdout.contains("c09-local-errors passed, though Linux rxe"),
        "{output}"
    );
}
