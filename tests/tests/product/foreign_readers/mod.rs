//! Independent programs read our reports. The reported run has every outcome, and texts with a special meaning in the
//! report's format.

mod readers;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use verbatim_archives::unpack;
use verbatim_lab::workspace::root;
use verbatim_proto::v1::{Check, CheckResult, Observation, RunInfo};
use verbatim_record::{Cause, Outcome, Verdict};
use verbatim_report::Reported;
use verbatim_tests::browser;
use verbatim_tests::product::{Place, run};

/// Texts that may come from a device, an operator or a bundle. Each text is put into every text field.
const TEXTS: &[&str] = &[
    "plain",
    "",
    "<script>alert('1')</script> & ]]> <![CDATA[ &amp; &#0; <!-- -->",
    "# SKIP not really # TODO \\# \\",
    "one\nnot ok 2 - two\r1..7\rok 8\u{2028}ok 9\u{85}Bail out!\n  ...\n---\n",
    "\0\u{1}\u{8}\u{b}\u{1b}[31mred\u{7f}\u{9f}\u{fffe}\u{ffff}",
    "grüße \u{202e}drawkcab \u{1f600} \u{10ffff} \"quoted\" 'single' `tick` |pipe| \t tab",
    "%s %n ${HOME} $(id) `id` {{ 7*7 }}",
];

const OUTCOMES: [Outcome; 6] = [
    Outcome::Pass,
    Outcome::Fail,
    Outcome::Inconclusive,
    Outcome::Error,
    Outcome::NotApplicable,
    Outcome::Skipped,
];

/// Returns a run whose text fields all have this text.
fn with(text: &str) -> (RunInfo, Vec<Verdict>) {
    let said = || {
        if text.is_empty() {
            "-".to_owned()
        } else {
            text.to_owned()
        }
    };
    let info = RunInfo {
        id: "01a2".into(),
        rig: said(),
        rig_kind: "virtual".into(),
        catalogue: "0.1.0".into(),
        host: text.into(),
        fingerprint: serde_json::json!({ "program": text }).to_string(),
        outcome: Outcome::Error.into(),
        ..RunInfo::default()
    };
    let check = |result: CheckResult| Check {
        statement: "C14-16".into(),
        result: result.into(),
        about: said(),
        expected: said(),
        seen: said(),
        evidence: vec![text.into()],
        exchanges: vec![3],
        ..Check::default()
    };
    let verdicts = (1..).zip(OUTCOMES).map(|(number, outcome)| Verdict {
        test: format!("c14-00{number}"),
        outcome: outcome.into(),
        cause: Cause::Dut.into(),
        reason: said(),
        statements: vec!["C14-16".into(), said()],
        aliases: vec![said()],
        observations: vec![Observation {
            text: said(),
            ..Observation::default()
        }],
        findings: match outcome {
            Outcome::Fail => vec![check(CheckResult::Fail), check(CheckResult::Inconclusive)],
            Outcome::Inconclusive => vec![check(CheckResult::Inconclusive)],
            _ => Vec::new(),
        },
        ..Verdict::default()
    });
    (info, verdicts.collect())
}

/// Renders a report of the run with this text.
fn form(text: &str, form: impl FnOnce(&Reported<'_>) -> String) -> String {
    let (run, verdicts) = with(text);
    form(&Reported {
        run: &run,
        verdicts: &verdicts,
        records: &[],
        before: &[],
        not_judged_anew: &BTreeMap::new(),
        known: &[],
        tolerates_known: false,
        seal: "",
    })
}

/// A device that retries too early.
const HASTY: &str =
    "config_version = 1\n[[rig]]\nname = \"hasty\"\nkind = \"virtual\"\ndefects = [\"rnr-interval-halved\"]\n";

/// Makes a record in `kept` of a device that breaks a statement. Returns the run's JSON document.
fn kept(place: &Place) -> serde_json::Value {
    place.write(
        "rigs.toml",
        "config_version = 1\n[[rig]]\nname = \"broken\"\nkind = \"virtual\"\ndefects = [\"get-answered-at-level-2\"]\n",
    );
    let tests = "c14-003-methods-and-attributes c14-016-get-protect-2 c09-rnr-nak";
    let output = run(&mut place.verbatim(&format!(
        "run --rig-file rigs.toml --rig broken --record kept --json {tests}"
    )));
    assert_eq!(output.code(), 1, "{output}");
    output.json()
}

#[test]
fn junit_follows_jenkins_schema() {
    let place = Place::new();
    for text in TEXTS {
        if !readers::follows_the_schema_of_jenkins(&place, &form(text, verbatim_report::junit)) {
            return;
        }
    }
    kept(&place);
    let output = run(&mut place.verbatim("report kept --junit -"));
    assert!(
        readers::follows_the_schema_of_jenkins(&place, &output.stdout),
        "{output}"
    );
}

#[test]
fn perl_reads_tap_report() {
    let place = Place::new();
    for text in TEXTS {
        let Some(read) = readers::perl_reads(&place, &form(text, verbatim_report::tap)) else {
            return;
        };
        let expected = "passed 1 5 6\nfailed 2 3 4\nskipped 5 6\ntodo \nblocks FAIL INCONCLUSIVE ERROR\nwrong \n";
        assert_eq!(read, expected, "{text:?}");
    }
    kept(&place);
    let text = run(&mut place.verbatim("report kept --tap -")).stdout;
    let read = readers::perl_reads(&place, &text).unwrap();
    assert_eq!(read, "passed 1 2\nfailed 3\nskipped \ntodo \nblocks FAIL\nwrong \n");
    let prove = run(place.command("prove").args(["--exec", "cat", "it.tap"]));
    assert!(
        prove.stdout.contains("Failed 1/3 subtests") && !prove.stdout.contains("Parse errors"),
        "{prove}"
    );
}

#[test]
fn report_follows_its_schema() {
    let place = Place::new();
    let mut documents: Vec<_> = TEXTS
        .iter()
        .map(|text| {
            let (run, verdicts) = with(text);
            serde_json::to_value(verbatim_run::Report::new(run, verdicts)).unwrap()
        })
        .collect();
    documents.push(kept(&place));
    let Some(wrong) = readers::wrong_by_the_schema(&place, "report.v1.json", &documents) else {
        return;
    };
    assert_eq!(wrong, "", "python's jsonschema");
    // The validator must also find errors.
    let mut broken = documents[0].clone();
    broken["verdicts"][0]["outcome"] = "GOOD".into();
    assert!(
        readers::wrong_by_the_schema(&place, "report.v1.json", &[broken])
            .unwrap()
            .contains("GOOD")
    );
}

#[test]
fn bundle_files_follow_their_schema() {
    let place = Place::new();
    kept(&place);
    let mut bundles = vec![place.path("kept")];
    let unpacked = unpack(&root().join("docs/examples/bundles/bundles.tar.gz"));
    let examples = std::fs::read_dir(unpacked.path().join("bundles")).unwrap();
    bundles.extend(examples.map(|entry| entry.unwrap().path()));
    assert!(bundles.len() > 10, "{bundles:?}");
    let read = |path: PathBuf| -> Value { serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap() };
    let files = ["manifest.json", "run.json", "verdicts.json"];
    let document = |bundle: &Path| -> Value {
        let named = files.map(|file| (file.to_owned(), read(bundle.join(file))));
        Value::Object(named.into_iter().collect())
    };
    let mut documents: Vec<Value> = bundles.iter().map(|bundle| document(bundle)).collect();
    if let Some(wrong) = readers::wrong_by_the_schema(&place, "bundle.v1.json", &documents) {
        assert_eq!(wrong, "");
        documents[0]["verdicts.json"][0]["outcome"] = "GOOD".into();
        let wrong = readers::wrong_by_the_schema(&place, "bundle.v1.json", &documents[..1]);
        assert!(wrong.unwrap().contains("GOOD"));
    }
    let schema = |name: &str| read(root().join("docs/schema").join(name));
    let (bundle, report) = (schema("bundle.v1.json"), schema("report.v1.json"));
    for (name, definition) in bundle["$defs"].as_object().unwrap() {
        assert!(
            ["manifest", "sha256", "verdicts"].contains(&name.as_str()) || report["$defs"][name] == *definition,
            "{name} is another in a bundle than in a report"
        );
    }
}

#[test]
fn axe_finds_nothing_in_run_page() {
    if !browser::is_here() {
        return;
    }
    let place = Place::new();
    verbatim_tests::axe::finds_nothing(&place, &form(TEXTS[6], verbatim_report::html));
    kept(&place);
    let page = run(&mut place.verbatim("report kept --html -")).stdout;
    verbatim_tests::axe::finds_nothing(&place, &page);
    // Check a page with both charts: the times with their bounds, and the times over several runs.
    place.write("hasty.toml", HASTY);
    for (record, rig) in [("sound", ""), ("hasty", "--rig-file hasty.toml --rig hasty")] {
        let output = run(&mut place.verbatim(&format!("run c09-130-rnr-interval --record {record} {rig}")));
        assert!([0, 1].contains(&output.code()), "{output}");
    }
    let page = run(&mut place.verbatim("report hasty --html - --before sound")).stdout;
    assert!(browser::width_in(&place, &page, 360) <= 360);
    let file = place.write("hasty.html", &page);
    let sheets = browser::sheets(&place, &format!("file://{}", file.display()));
    assert!((1..=4).contains(&sheets), "{sheets} sheets");
    assert_eq!(
        page.matches("<svg").count(),
        2,
        "a picture of the times and one of the runs: {page}"
    );
    verbatim_tests::axe::finds_nothing(&place, &page);
}
