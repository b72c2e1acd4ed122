//! What the tests come to in a lab: the committed tables `tests/data/*-outcomes.toml`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// What is expected of one test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The outcome, then those that it may come to where a busy host decides.
    pub outcomes: Vec<String>,
    /// The cause, where the table has one.
    pub cause: Option<String>,
    /// Checks, as [`in_words`] has them.
    pub findings: BTreeSet<String>,
}

/// Reads a table. Each test is there once; each that is not a plain PASS has a reason, each FAIL its findings, and no
/// PASS may also be a FAIL or a FAIL a PASS.
///
/// # Panics
/// When the table is not so.
#[must_use]
pub fn table(text: &str) -> BTreeMap<String, Expected> {
    let file: toml::Table = text.parse().unwrap();
    let mut table = BTreeMap::new();
    for group in file["group"].as_array().unwrap() {
        let word = |key: &str| group.get(key).map(|value| value.as_str().unwrap().to_owned());
        let list = |key: &str| -> Vec<String> {
            let values = group.get(key).map_or(&[][..], |value| value.as_array().unwrap());
            values.iter().map(|value| value.as_str().unwrap().to_owned()).collect()
        };
        let (outcome, or) = (word("outcome").unwrap(), list("or"));
        let plain = outcome == "PASS" && or.is_empty();
        assert!(
            plain || word("reason").is_some_and(|reason| reason.ends_with('.')),
            "{group}"
        );
        assert!(outcome != "FAIL" || !list("findings").is_empty(), "{group}");
        assert!(!or.iter().any(|or| or == "FAIL" || or == "PASS"), "{group}");
        let expected = Expected {
            outcomes: [vec![outcome], or].concat(),
            cause: word("cause"),
            findings: list("findings").into_iter().collect(),
        };
        for test in list("tests") {
            assert_eq!(
                table.insert(test.clone(), expected.clone()),
                None,
                "{test} is there twice"
            );
        }
    }
    table
}

/// The checks that may fail in a test of a table beside what is expected of it, as [`in_words`] has them: those of its
/// `[[sometimes]]` that name the test, be it as `c09-*`, each with a reason.
///
/// # Panics
/// When the table is not so.
#[must_use]
pub fn sometimes(text: &str, test: &str) -> BTreeSet<String> {
    let file: toml::Table = text.parse().unwrap();
    let names = |pattern: &toml::Value| match pattern.as_str().unwrap().strip_suffix('*') {
        Some(beginning) => test.starts_with(beginning),
        None => pattern.as_str() == Some(test),
    };
    let groups = file["sometimes"].as_array().unwrap().iter();
    let findings = groups.flat_map(|group| {
        assert!(group["reason"].as_str().unwrap().ends_with('.'), "{group}");
        let is_named = group["tests"].as_array().unwrap().iter().any(names);
        group["findings"].as_array().unwrap().iter().filter(move |_| is_named)
    });
    findings.map(|finding| finding.as_str().unwrap().to_owned()).collect()
}

/// A check's statement and subject, with N for every number in the subject.
///
/// # Panics
/// When it has none.
#[must_use]
pub fn in_words(check: &Value) -> String {
    let mut about = String::new();
    for character in check["about"].as_str().unwrap().chars() {
        match character {
            '0'..='9' if about.ends_with('N') => {}
            '0'..='9' => about.push('N'),
            other => about.push(other),
        }
    }
    format!("{} {about}", check["statement"].as_str().unwrap())
}
