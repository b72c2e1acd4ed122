use std::collections::BTreeSet;

use super::*;
use crate::quick::git;

fn wanted(name: &str, like: Option<&str>) -> Options {
    Options {
        name: name.into(),
        like: like.map(str::to_owned),
        about: "A WRITE is acknowledged.".into(),
        list: false,
    }
}

fn paths(changes: &[Change]) -> Vec<&str> {
    changes.iter().map(|change| change.path.to_str().unwrap()).collect()
}

fn is_rust(changes: &[Change]) {
    for Change { path, text } in changes {
        assert!(syn::parse_file(text).is_ok(), "{}:\n{text}", path.display());
    }
}

#[test]
fn new_test_touches_four_files() {
    let begun = test::begin(root(), &wanted("c09-not-there", None)).unwrap();
    let transport = "crates/catalog/src/transport";
    let files = [format!("{transport}/c09_not_there.rs"), format!("{transport}/mod.rs")];
    assert_eq!(paths(&begun.changes), files);
    assert_eq!(test::records("c09-not-there").len(), 2);
    is_rust(&begun.changes);
    let test = &begun.changes[0].text;
    for line in [
        "//! `c09-not-there`: a WRITE is acknowledged.\n",
        "    id: \"c09-not-there\",\n    aliases: &[],\n    revision: 1,\n    about: \"A WRITE is acknowledged.\",\n",
        "    reading: \"To be written.\",\n    statements: ",
    ] {
        assert!(test.contains(line), "{line}:\n{test}");
    }
    assert!(!test.contains(&begun.like), "{test}");
}

#[test]
fn each_chapter_has_a_template() {
    for chapter in ["c04", "c07", "c08", "c09", "c13", "c14", "c16"] {
        let begun = test::begin(root(), &wanted(&format!("{chapter}-not-there"), None)).unwrap();
        is_rust(&begun.changes);
        let records = crate::golden::defects(&begun.like).unwrap();
        assert!(!records.is_empty(), "{}: no record of a defect", begun.like);
    }
}

#[test]
fn new_defect_touches_two_files() {
    for (name, like, files) in [
        ("rnr-nak-not-there", None, ["rc/defect.rs", "rc/respond.rs"]),
        (
            "link-ebp-not-there",
            Some("link-ebp-accepted"),
            ["link/checks.rs", "link/defect.rs"],
        ),
        ("armed-not-there", Some("armed-refused"), ["defect.rs", "port_info.rs"]),
    ] {
        let begun = defect::begin(root(), &wanted(name, like)).unwrap();
        let files = files.map(|file| format!("crates/device/src/{file}"));
        assert_eq!(paths(&begun.changes), files, "{name}");
        is_rust(&begun.changes);
        let named = |change: &Change| {
            change
                .text
                .contains(&format!("\"{name}\" \"A WRITE is acknowledged.\"\n"))
        };
        assert!(begun.changes.iter().any(named), "{name}");
    }
}

#[test]
fn new_defect_shows_on_the_same_devices() {
    let begun = defect::begin(root(), &wanted("armed-not-there", Some("armed-refused"))).unwrap();
    let list = &begun.changes[0].text;
    assert!(
        list.contains("Self::ArmedSkipped | Self::ArmedRefused | Self::ArmedNotThere =>"),
        "{list}"
    );
}

#[test]
fn new_defect_acts_at_the_same_place() {
    for (text, expected) in [
        ("if cx.has(A) {", "if cx.has(A) || cx.has(B) {"),
        (
            "a && !self.faults.has(A)",
            "a && !(self.faults.has(A) || self.faults.has(B))",
        ),
        ("a && cx.has(A) || b", "a && (cx.has(A) || cx.has(B)) || b"),
        ("(cx.has(A) && b)", "((cx.has(A) || cx.has(B)) && b)"),
        ("u32::from(cx.has(A))", "u32::from(cx.has(A) || cx.has(B))"),
        ("cx.has(A).then(f)", "(cx.has(A) || cx.has(B)).then(f)"),
    ] {
        assert_eq!(defect::with_either(text, "has(A)", "has(B)"), expected);
    }
}

#[test]
fn rejects_wrong_names_with_a_reason() {
    let test = |name: &str, like| test::begin(root(), &wanted(name, like)).map(drop).unwrap_err();
    let defect = |name: &str, like| defect::begin(root(), &wanted(name, like)).map(drop).unwrap_err();
    for (error, words) in [
        (
            test("c09-rtr", None),
            "test c09-rtr already exists, in crates/catalog/src/transport/c09_rtr.rs",
        ),
        (test("c10-not-there", None), "begins with no chapter that has tests"),
        (test("c09 Example", None), "is no name"),
        (
            test("c09-not-there", Some("c09-nothing")),
            "no test has the id c09-nothing",
        ),
        (
            test("c09-not-there", Some("c09-060-requester-verbs")),
            "shares its file",
        ),
        (
            defect("rnr-nak-once", None),
            "defect rnr-nak-once already exists, in crates/device/src/rc/defect.rs",
        ),
        (defect("9-naks", None), "is no name"),
        (defect("two-naks", Some("no-such")), "no defect is called no-such"),
        (
            defect("two-naks", Some("link-ebp-accepted")),
            "begin the new name with link-",
        ),
        (
            defect("two-naks", Some("cnp-with-psn")),
            "does not act in exactly one place",
        ),
    ] {
        let error = format!("{error:#}");
        assert!(error.contains(words), "{words}: {error}");
    }
}

/// Returns all words with a hyphen in a file.
fn names(text: &str) -> BTreeSet<&str> {
    let is_of_name = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    let words = text.split(|letter| !is_of_name(letter));
    words.filter(|word| word.contains('-')).collect()
}

/// A file that lists all tests or defects would have to change for each new test or defect. Files of expected
/// outcomes therefore rely on defaults, and counts are computed.
#[test]
fn no_file_lists_the_tests_or_the_defects() {
    let read = |file: &str| fs::read_to_string(root().join(file)).unwrap_or_default();
    let all = |directory: &str, begins: &str| -> BTreeSet<String> {
        let texts = sources(root(), directory).unwrap();
        let lines = texts.iter().flat_map(|file| file.text.lines());
        let named = lines.filter_map(|line| line.trim().strip_prefix(begins));
        named
            .filter_map(|rest| rest.split('"').next())
            .map(str::to_owned)
            .collect()
    };
    let tests = all("crates/catalog/src", "id: \"");
    let defects: BTreeSet<String> = ["defect.rs", "rc/defect.rs", "link/defect.rs"]
        .iter()
        .flat_map(|file| {
            let text = read(&format!("crates/device/src/{file}"));
            let line = |line: &str| Some(line.split_once(" \"")?.1.split_once("\" \"")?.0.to_owned());
            text.lines().filter_map(line).collect::<Vec<_>>()
        })
        .collect();
    assert!(
        tests.len() > 100 && defects.len() > 600,
        "{} {}",
        tests.len(),
        defects.len()
    );
    let is_their_own = |file: &&str| {
        let own = [
            "crates/catalog/src/",
            "crates/catalog/tests/golden/",
            "crates/catalog/estimates.toml",
            "CHANGELOG.md",
        ];
        own.iter().any(|own| file.starts_with(own)) || file.ends_with("/defect.rs")
    };
    let files = git(&["ls-files"]).unwrap();
    for file in files.lines().filter(|file| !is_their_own(file)) {
        let text = read(file);
        let named = names(&text);
        let count = |all: &BTreeSet<String>| named.iter().filter(|name| all.contains(**name)).count();
        assert!(
            3 * count(&tests) < tests.len(),
            "{file} names {} of {} tests",
            count(&tests),
            tests.len()
        );
        assert!(
            20 * count(&defects) < defects.len(),
            "{file} names {} of {} defects",
            count(&defects),
            defects.len()
        );
    }
}
