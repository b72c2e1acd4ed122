//! A bundle with another revision of a test. The commands show and mark its recorded verdicts, and do not judge again.

use std::fs;
use std::path::Path;

use verbatim_record::{Bundle, BundleWriter, Entry, Sink as _, Time};
use verbatim_tests::product::{Output, Place, run};

const TEST: &str = "c14-024-node-type";

fn verbatim(place: &Place, arguments: &str) -> Output {
    run(&mut place.verbatim(arguments))
}

/// Makes the bundle `kept` of a run of the test, and its copy `other` with the test's next revision.
fn kept_and_other(place: &Place) {
    let output = verbatim(place, &format!("run {TEST} --record kept"));
    assert_eq!(output.code(), 0, "{output}");
    reseal(&place.path("kept"), &place.path("other"));
}

fn reseal(from: &Path, to: &Path) {
    let mut writer = BundleWriter::create(to).unwrap();
    for record in Bundle::open(from).unwrap().records().unwrap() {
        let mut sink = writer.record(TEST).unwrap();
        for mut entry in record {
            if let Entry::Begin(begin) = &mut entry {
                begin.revision += 1;
            }
            // Leave out the end entry, because the writer makes a new end entry.
            if !matches!(entry, Entry::End { .. }) {
                sink.put(entry);
            }
        }
        sink.finish(Time(0)).unwrap();
    }
    for name in ["verdicts.json", "run.json"] {
        let text = fs::read_to_string(from.join(name)).unwrap();
        writer.write(name, &text).unwrap();
    }
    writer.seal().unwrap();
}

#[test]
fn verify_marks_other_revision_exits_4() {
    let place = Place::new();
    kept_and_other(&place);
    let own = verbatim(&place, "verify kept");
    assert_eq!(own.code(), 0, "{own}");
    assert!(!own.stdout.contains("not judged anew"), "{own}");

    let output = verbatim(&place, "verify other");
    assert_eq!(output.code(), 4, "{output}");
    assert!(output.stdout.starts_with("whole    "), "{output}");
    assert!(output.stdout.contains("verdicts none judged again\n"), "{output}");
    assert!(
        output.stdout.contains(&format!("not judged anew: {TEST}: "))
            && output.stdout.contains("this version has revision "),
        "{output}"
    );
    let output = verbatim(&place, "verify other --json");
    assert_eq!(output.code(), 4, "{output}");
    let document = output.json();
    assert!(document["not_judged_anew"][TEST].is_string(), "{document}");
    assert_eq!(document["verdicts"][0]["outcome"], "PASS", "{document}");
}

#[test]
fn judge_marks_recorded_verdicts() {
    let place = Place::new();
    kept_and_other(&place);
    let output = verbatim(&place, "judge other");
    assert_eq!(output.code(), 0, "{output}");
    assert!(output.stdout.contains(&format!("PASS           {TEST}")), "{output}");
    assert!(output.stdout.contains("; 1 as recorded, not judged anew"), "{output}");
    assert!(
        output.stderr.contains(&format!("verbatim: not judged anew: {TEST}: ")),
        "{output}"
    );
    assert!(!verbatim(&place, "judge kept").stdout.contains("as recorded"));
}
