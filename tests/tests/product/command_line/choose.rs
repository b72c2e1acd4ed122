//! The selection and repetition of tests, the end of a run, and the amount of output.

use std::fs;

use verbatim_tests::product::{Output, Place, run};

use crate::command_line::BROKEN;

/// Returns the tests that a run printed, with their outcomes.
fn lines(output: &Output) -> Vec<(String, String)> {
    let outcomes = ["PASS", "FAIL", "ERROR", "INCONCLUSIVE", "NOT_APPLICABLE", "SKIPPED"];
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let outcome = words.next().filter(|word| outcomes.contains(word))?;
        let test = words
            .next()
            .filter(|word| word.starts_with('c') && !word.ends_with(','))?;
        Some((test.trim_end_matches(',').to_owned(), outcome.to_owned()))
    };
    output
        .stdout
        .lines()
        .take_while(|line| !line.is_empty())
        .filter_map(line)
        .collect()
}

fn broken(place: &Place) {
    fs::write(place.path("broken.toml"), BROKEN).unwrap();
}

const ON_BROKEN: &str = "run --rig-file broken.toml --rig broken";

#[test]
fn expression_selects_among_named_tests() {
    let place = Place::new();
    let output = run(place
        .verbatim("run c14-*")
        .args(["-k", "lease and not (periods or walk)"]));
    assert_eq!(output.code(), 0, "{output}");
    let tests = lines(&output);
    assert!(tests.len() >= 5, "{output}");
    for (test, _) in &tests {
        assert!(!test.contains("periods") && !test.contains("walk"), "{test}");
    }
    // Select by words of the title, in another spelling.
    let titled = lines(&run(place
        .verbatim("run c14-*")
        .args(["-k", "mkey and violation and not lease"])));
    assert!(
        titled.iter().any(|(test, _)| test == "c14-015-trap-repress"),
        "{titled:?}"
    );
    for (words, told) in [("lease and", "seen the end"), ("zzz", "no test matches the expression")] {
        let output = run(place.verbatim("run").args(["-k", words]));
        assert_eq!(output.code(), 2, "{output}");
        assert!(output.stderr.contains(told), "{output}");
    }
}

#[test]
fn x_ends_run_at_first_failure() {
    let place = Place::new();
    broken(&place);
    let output = run(&mut place.verbatim(&format!("{ON_BROKEN} -x c14-016*")));
    assert_eq!(output.code(), 1, "{output}");
    let tests = lines(&output);
    let failed: Vec<_> = tests.iter().filter(|(_, outcome)| outcome == "FAIL").collect();
    assert_eq!(failed.len(), 1, "{output}");
    assert_eq!(tests.last().unwrap().1, "SKIPPED");
    assert!(output.stdout.contains("at the first failure, as asked"), "{output}");
    let output = run(&mut place.verbatim(&format!("{ON_BROKEN} --json -x c14-016*")));
    let report: serde_json::Value = serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output}"));
    let verdicts = report["verdicts"].as_array().unwrap();
    let left_out: Vec<_> = verdicts.iter().filter(|one| one["outcome"] == "SKIPPED").collect();
    assert!(!left_out.is_empty(), "{output}");
    assert!(left_out.iter().all(|one| one["cause"] == "OPERATOR"), "{left_out:?}");
}

#[test]
fn failed_option_repeats_only_failures() {
    let place = Place::new();
    broken(&place);
    let never = run(&mut place.verbatim(&format!("{ON_BROKEN} --failed")));
    assert_eq!(never.code(), 2, "{never}");
    assert!(never.stderr.contains("nothing to run again"), "{never}");
    let first = run(&mut place.verbatim(&format!("{ON_BROKEN} c14-016*")));
    let failed: Vec<_> = lines(&first)
        .into_iter()
        .filter(|(_, outcome)| outcome == "FAIL")
        .collect();
    assert!(!failed.is_empty() && failed.len() < lines(&first).len(), "{first}");
    let again = run(&mut place.verbatim(&format!("{ON_BROKEN} --failed")));
    assert_eq!(lines(&again), failed, "{again}");
    let sound = run(&mut place.verbatim("run c14-024-node-info"));
    assert_eq!(sound.code(), 0, "{sound}");
    let nothing = run(&mut place.verbatim("run --failed"));
    assert_eq!(nothing.code(), 2, "{nothing}");
    assert!(nothing.stderr.contains("nothing to run again"), "{nothing}");
}

#[test]
fn repeat_takes_next_seed_each_time() {
    let place = Place::new();
    broken(&place);
    let output = run(&mut place.verbatim("run --repeat 3 --seed 8 --record kept c14-024-node-info"));
    assert_eq!(output.code(), 0, "{output}");
    for (directory, seed) in [("1", 8), ("2", 9), ("3", 10)] {
        assert!(
            output
                .stdout
                .contains(&format!("1 test on virtual, seed {seed}: 1 passed")),
            "{output}"
        );
        let judged = run(&mut place.verbatim(&format!("verify kept/{directory}")));
        assert_eq!(judged.code(), 0, "{judged}");
    }
    assert!(
        output.stdout.ends_with("3 of 3 runs: 1 of 1 test passed in each run\n"),
        "{output}"
    );
    let json = run(&mut place.verbatim(&format!("{ON_BROKEN} --json --repeat 2 c14-016-get-protect-2")));
    assert_eq!(json.code(), 1, "{json}");
    let runs = json.json();
    assert_eq!(runs["runs"].as_array().unwrap().len(), 2, "{json}");
    let ends = run(&mut place.verbatim(&format!("{ON_BROKEN} -x --repeat 9 c14-016-get-protect-2")));
    assert!(ends.stdout.contains("1 of 9 runs"), "{ends}");
}

#[test]
fn quiet_and_verbose_change_output() {
    let place = Place::new();
    broken(&place);
    let quiet = run(&mut place.verbatim(&format!("{ON_BROKEN} -q c14-016-get*")));
    assert!(
        !quiet.stdout.contains("PASS ") && quiet.stdout.contains("FAIL "),
        "{quiet}"
    );
    let verbose = run(&mut place.verbatim("run -v --durations 1 c14-024-node-info"));
    assert!(
        verbose.stdout.contains("    C14-24 NodeType: channel adapter\n"),
        "{verbose}"
    );
    assert!(
        verbose.stdout.contains("\nLongest:\n") && verbose.stdout.contains("\ntook "),
        "{verbose}"
    );
}

#[test]
fn explain_lists_findings_and_explains_one() {
    let place = Place::new();
    broken(&place);
    run(&mut place.verbatim(&format!("{ON_BROKEN} --record kept c14-016-get-protect-2")));
    let all = run(&mut place.verbatim("explain kept"));
    assert_eq!(all.code(), 0, "{all}");
    assert!(
        all.stdout
            .lines()
            .all(|line| line.starts_with("FAIL c14-016-get-protect-2#")),
        "{all}"
    );
    assert_eq!(all.stdout.lines().count(), 7, "{all}");
    let one = run(&mut place.verbatim("explain kept c14-016-get-protect-2#1"));
    assert!(one.stdout.lines().count() <= 40, "{one}");
    for words in [
        "FAIL c14-016-get-protect-2#1, cause DUT\n",
        "  premise:  M_Key 0x83eef1b574723f2b, level 2, ",
        " s #39 \"wrong key\": SubnGet(PortInfo) M_Key 0x",
        "  answer:   0.",
        "  expected: no answer\n",
        "  demands:  With another M_Key",
        "  try:      verbatim explain kept 'c14-016-get-protect-2#1' --fields",
        " --rig broken c14-016-get-protect-2 --seed 0 # add your own --rig-file: not taken from the record\n",
    ] {
        assert!(one.stdout.contains(words), "{words}: {one}");
    }
    assert_eq!(one.stdout.matches("\n  again: ").count(), 1, "{one}");
    let fields = run(&mut place.verbatim("explain kept C14-16 --fields"));
    assert_eq!(fields.stdout.matches("\n  again: ").count(), 7, "{fields}");
    let field = "      AttributeID                        PortInfo\n";
    assert!(
        fields.stdout.contains(field) && !fields.stdout.contains("    0000  "),
        "{fields}"
    );
    let bytes = run(&mut place.verbatim("explain kept c14-016-get-protect-2#1 --hex"));
    assert!(
        !bytes.stdout.contains(field) && bytes.stdout.contains("    0000  01 81 "),
        "{bytes}"
    );
    for wrong in ["c14-016-get-protect-2#99", "C14-24", "c14-016-get-protect-2#x"] {
        let output = run(&mut place.verbatim(&format!("explain kept {wrong}")));
        assert_eq!(output.code(), 2, "{wrong}: {output}");
    }
}

#[test]
fn atomics_are_shown_as_arithmetic() {
    let place = Place::new();
    for (defect, test, sum) in [
        (
            "fetch-add-stores",
            "c09-060-fetch-add-responder",
            "expected  0x01234567ffffffff + 0x1 = 0x0123456800000000 at byte 64",
        ),
        (
            "swap-of-0-lost",
            "c09-060-compare-swap-responder",
            "0x0000000000000000, because the compare value equals the original 0x8000000000000001, at byte 256",
        ),
        (
            "atomic-result-low-32-bits",
            "c09-060-fetch-add",
            "expected  0xff2db5001e58b3e7 at byte 32768",
        ),
    ] {
        let key = format!("defects=[{defect:?}]");
        let output = run(place.verbatim("run").args([test, "--rig-key", &key]));
        assert!(output.stdout.contains(sum), "{sum}: {output}");
    }
}

#[test]
fn two_records_are_compared_without_a_daemon() {
    let place = Place::new();
    broken(&place);
    run(&mut place.verbatim(&format!("{ON_BROKEN} --record one c14-016-get-protect-2")));
    run(&mut place.verbatim("run --record two c14-016-get-protect-2"));
    let differs = run(&mut place.verbatim("runs diff one two"));
    assert_eq!(differs.code(), 1, "{differs}");
    assert!(
        differs.stdout.contains("- FAIL: C14-16") && differs.stdout.contains("+ PASS\n"),
        "{differs}"
    );
    assert_eq!(run(&mut place.verbatim("runs diff two two")).code(), 0);
}

#[test]
fn run_writes_reports_and_ignores_a_closed_pipe() {
    let place = Place::new();
    broken(&place);
    let reports = "--junit r.xml --tap r.tap --html r.html --json";
    let output = run(&mut place.verbatim(&format!("{ON_BROKEN} {reports} c14-016-get-protect-2")));
    assert_eq!(output.code(), 1, "{output}");
    assert!(output.json()["run"]["record"].is_null(), "{output}");
    for (file, words) in [
        ("r.xml", "<testsuite name=\"broken\""),
        ("r.tap", "not ok 1 - c14-016-get-protect-2"),
        ("r.html", "<!doctype html>"),
    ] {
        let text = fs::read_to_string(place.path(file)).unwrap();
        assert!(text.contains(words), "{file}: {text}");
    }
    for wrong in ["--junit -", "--junit nowhere/r.xml", "--junit r.xml --repeat 2"] {
        let output = run(&mut place.verbatim(&format!("run {wrong} c14-024-node-info")));
        assert_eq!(output.code(), 2, "{wrong}: {output}");
    }
    let mut closed = place.verbatim(&format!("{ON_BROKEN} c14-016-get-protect-2"));
    let mut child = closed.stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn each_failed_run_replaces_an_old_report() {
    let place = Place::new();
    let file = place.path("r.xml");
    for (arguments, code) in [
        ("--server unix:/none/s.sock run quick", 3),
        ("--server unix:/none/s.sock run c14-024-node-info", 3),
        ("--server unix:/none/s.sock run -k walk", 3),
        ("--server unix:/none/s.sock run --failed", 3),
        ("--server unix:/none/s.sock run --label fast", 3),
        ("--server nonsense run", 2),
        ("run --set x", 2),
        ("run --rig nowhere", 2),
        ("run --repeat 2", 2),
        ("run no-such-test", 2),
        ("run --no-such-option", 2),
        ("run --seed x", 2),
    ] {
        fs::write(&file, "<testsuites/>").unwrap();
        let output = run(&mut place.verbatim(&format!("{arguments} --junit r.xml")));
        assert_eq!(output.code(), code, "{arguments}: {output}");
        let text = fs::read_to_string(&file).unwrap();
        assert!(
            text.contains("errors=\"1\"") && text.contains("<error "),
            "{arguments}: {text}"
        );
    }
}

#[test]
fn explain_shows_posted_requests() {
    let place = Place::new();
    let key = "--rig-key defects=[\"max-rd-atomic-ignored\"]";
    let failed = run(&mut place.verbatim(&format!("run {key} c09-requests-in-flight --record kept")));
    assert_eq!(failed.code(), 1, "{failed}");
    let explained = run(&mut place.verbatim("explain kept c09-requests-in-flight#1"));
    assert!(explained.stdout.contains("  posted:   "), "{explained}");
    let finds = "frame.comment matches \"c09-requests-in-flight frame ";
    assert!(explained.stdout.contains(finds), "{explained}");
    for record in ["kept", "kept/001-c09-requests-in-flight.rec"] {
        let output = run(&mut place.verbatim(&format!("inspect {record}")));
        assert_eq!(output.code(), 2, "{output}");
        assert!(output.stderr.contains("`verbatim explain kept`"), "{output}");
    }
}

#[test]
fn failed_repeats_the_rig_keys() {
    let place = Place::new();
    let key = "--rig-key defects=[\"m-key-ignored-on-get\"]";
    let failed = run(&mut place.verbatim(&format!("run {key} c14-016-get-protect-2")));
    assert_eq!(failed.code(), 1, "{failed}");
    let again = run(&mut place.verbatim("run --failed"));
    assert_eq!(again.code(), 1, "{again}");
    let note = "--rig-key 'defects=[\"m-key-ignored-on-get\"]' as in the last run on virtual";
    assert!(again.stderr.contains(note), "{again}");
    let other = run(&mut place.verbatim("run --failed --rig-key seed=7"));
    assert_eq!(other.code(), 0, "{other}");
}

#[test]
fn repeat_command_works_anywhere() {
    let place = Place::new();
    let file = place.path("my rigs.toml");
    fs::write(&file, BROKEN).unwrap();
    let rig = [
        "--rig-file",
        "my rigs.toml",
        "--rig",
        "broken",
        "--rig-key",
        "profile=\"minimal\"",
    ];
    let failed = run(place
        .verbatim("--server none run --record kept c14-016-get-protect-2")
        .args(rig));
    assert_eq!(failed.code(), 1, "{failed}");
    let again = failed
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("  again: verbatim "))
        .unwrap_or_else(|| panic!("{failed}"));
    let options = format!(
        "run --server none --rig-file '{}' --rig-key 'profile=\"minimal\"' --rig broken ",
        file.display()
    );
    assert!(again.starts_with(&options), "{again}");
    let verbatim = place.verbatim("").get_program().to_owned();
    let script = format!("cd / && exec \"$0\" {again}");
    let by_variable = run(place
        .verbatim("run --rig broken c14-016-get-protect-2")
        .env("VERBATIM_RIG_FILE", &file));
    let options = format!("again: verbatim run --rig-file '{}' --rig broken ", file.display());
    assert!(by_variable.stdout.contains(&options), "{by_variable}");
    let pasted = run(place.command("sh").arg("-c").arg(script).arg(verbatim));
    assert_eq!(lines(&pasted), lines(&failed), "{pasted}");
}

#[test]
fn explain_covers_tests_without_findings() {
    let place = Place::new();
    broken(&place);
    let tests = "c14-016-get-protect-2 c14-024-node-info";
    run(&mut place.verbatim(&format!("{ON_BROKEN} --record kept {tests}")));
    let passed = run(&mut place.verbatim("explain kept c14-024-node-info"));
    assert_eq!(passed.code(), 0, "{passed}");
    for words in [
        "PASS c14-024-node-info\n",
        "  passed:   C14-24 NodeType: channel adapter\n",
        "  reached:  its end: ",
        "  again: verbatim run ",
    ] {
        assert!(passed.stdout.contains(words), "{words}: {passed}");
    }
    let unknown = run(&mut place.verbatim("explain kept c14-024-node-info#1"));
    assert_eq!(unknown.code(), 2, "{unknown}");
    let absent = run(&mut place.verbatim("explain kept c14-015-get"));
    assert_eq!(absent.code(), 2, "{absent}");
    assert!(absent.stderr.contains("this run has no test"), "{absent}");
}

#[test]
fn finds_statements_in_any_id_form() {
    let place = Place::new();
    let all = run(&mut place.verbatim("statements --json")).json();
    assert!(all["statements"].as_array().unwrap().len() > 20, "{all}");
    for form in ["C14-16", "c14_016", "v1c14-016.1.1#03"] {
        let one = run(place.verbatim("statements").arg(form));
        assert!(one.stdout.starts_with("C14-16  M_Key check"), "{one}");
    }
    let near = run(&mut place.verbatim("statements C14-161"));
    assert_eq!(near.code(), 2, "{near}");
    assert!(near.stderr.contains("did you mean C14-16?"), "{near}");
}
