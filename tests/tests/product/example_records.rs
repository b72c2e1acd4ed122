//! The records in `docs/examples/bundles/bundles.tar.gz`. They must be whole, give their stored verdicts when judged
//! again, and be readable by tshark.

use std::path::PathBuf;

use serde_json::Value;
use tempfile::TempDir;
use verbatim_archives::unpack;
use verbatim_lab::workspace::root;
use verbatim_tests::oracle::available;
use verbatim_tests::product::{Output, Place, program, run};
use verbatim_tests::{axe, browser};

/// The kinds of tests. Each kind has a record with a PASS and a record with a FAIL.
const KINDS: [&str; 5] = ["management", "services", "transport", "verbs", "link"];

fn examples() -> TempDir {
    unpack(&root().join("docs/examples/bundles/bundles.tar.gz"))
}

/// Returns each record, and whether its device breaks a statement.
fn records(examples: &TempDir) -> Vec<(PathBuf, bool)> {
    let place = |kind: &str, end| examples.path().join("bundles").join(format!("{kind}-{end}"));
    KINDS
        .iter()
        .flat_map(|kind| [(place(kind, "pass"), false), (place(kind, "fail"), true)])
        .collect()
}

fn verbatim(place: &Place, command: &str, record: &PathBuf, more: &[&str]) -> Output {
    run(place.command(program("verbatim")).arg(command).arg(record).args(more))
}

#[test]
fn example_records_verify() {
    let (place, examples) = (Place::new(), examples());
    for (record, fails) in records(&examples) {
        let output = verbatim(&place, "verify", &record, &["--json"]);
        assert_eq!(
            output.code(),
            0,
            "{}: a test or its judge has changed? docs/examples/bundles/make makes the records anew: {output}",
            record.display()
        );
        let outcome = if fails { "FAIL" } else { "PASS" };
        let document = output.json();
        let verdicts = document["verdicts"].as_array().unwrap();
        assert!(verdicts.iter().all(|verdict| verdict["outcome"] == outcome), "{output}");
    }
}

/// Returns the comments of each packet, read by tshark.
fn packets(place: &Place, file: &str) -> Vec<Vec<String>> {
    let mut tshark = place.command("tshark");
    tshark.args([
        "-n",
        "-r",
        file,
        "-T",
        "fields",
        "-E",
        "separator=/t",
        "-E",
        "aggregator=|",
    ]);
    tshark.args(["-e", "_ws.malformed", "-e", "frame.comment"]);
    let output = run(&mut tshark);
    assert_eq!(output.code(), 0, "{output}");
    let packet = |line: &str| {
        let (malformed, comments) = line.split_once('\t').unwrap();
        assert_eq!(malformed, "", "{file}: {line}");
        comments.split('|').map(str::to_owned).collect()
    };
    output.stdout.lines().map(packet).collect()
}

/// Returns a check's numbers under a key.
fn numbers(check: &Value, key: &str) -> Vec<u64> {
    let numbers = check[key].as_array().map(Vec::as_slice).unwrap_or_default();
    numbers.iter().filter_map(Value::as_u64).collect()
}

/// Returns whether the packet's first comment names this exchange or frame of the test. On a native link the comment
/// says "packet" for a frame.
fn is(comments: &[String], test: &str, name: &str) -> bool {
    let first = comments[0].replacen(" packet ", " frame ", 1);
    let rest = first
        .strip_prefix(test)
        .and_then(|rest| rest.trim_start().strip_prefix(name));
    rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
}

#[test]
fn tshark_reads_examples_and_comments() {
    if !available("tshark", "apt-get install tshark") {
        return;
    }
    let (place, examples) = (Place::new(), examples());
    let mut judged = 0;
    for (record, _) in records(&examples) {
        let name = record.file_name().unwrap().to_str().unwrap();
        let file = format!("{name}.pcapng");
        let exported = verbatim(&place, "export", &record, &["--pcapng", &file]);
        assert_eq!(exported.code(), 0, "{exported}");
        let packets = packets(&place, &file);
        assert!(!packets.is_empty(), "{name}");
        let document = verbatim(&place, "judge", &record, &["--json"]).json();
        let verdict = &document["verdicts"][0];
        let test = verdict["test"].as_str().unwrap();
        for (key, word) in [("findings", "Fail"), ("passed", "Pass")] {
            for check in verdict[key].as_array().unwrap() {
                let [statement, about] = ["statement", "about"].map(|key| check[key].as_str().unwrap());
                let comment = format!("{word}: {statement} {about}: ");
                let is_shown = || packets.iter().flatten().any(|one| one.starts_with(&comment));
                assert!(
                    word == "Pass" || is_shown(),
                    "{name}: nothing has the comment {comment:?}"
                );
                let exchanges = numbers(check, "exchanges")
                    .into_iter()
                    .map(|number| format!("exchange #{number}"));
                let frames = numbers(check, "frames")
                    .into_iter()
                    .map(|number| format!("frame {number}"));
                for packet in exchanges.chain(frames) {
                    let mut these = packets.iter().filter(|comments| is(comments, test, &packet)).peekable();
                    assert!(these.peek().is_some(), "{name}: {packet} is not in the capture");
                    assert!(
                        these.any(|comments| comments.iter().any(|one| one.starts_with(&comment))),
                        "{name}: {packet} has no comment {comment:?}"
                    );
                    judged += 1;
                }
            }
        }
    }
    assert!(judged > 100, "{judged}");
}

#[test]
fn failed_example_pages_are_accessible() {
    if !browser::is_here() {
        return;
    }
    let (place, examples) = (Place::new(), examples());
    for (record, _) in records(&examples).into_iter().filter(|(_, fails)| *fails) {
        let page = verbatim(&place, "report", &record, &["--html", "-"]).stdout;
        let verified = verbatim(&place, "verify", &record, &["--json"]).json();
        let hash = verified["manifest_sha256"].as_str().unwrap();
        assert!(page.contains(hash), "{}: the page names its evidence", record.display());
        assert!(
            page.contains("(evidence)") || record.ends_with("verbs-fail"),
            "{}",
            record.display()
        );
        axe::finds_nothing(&place, &page);
    }
}
