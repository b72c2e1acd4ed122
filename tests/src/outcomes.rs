//! What the tests come to in a lab: the committed tables `tests/data/*-outcomes.toml`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use verbatim_catalog::TESTS;
use verbatim_tester::Test;

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

/// The expected outcome of each test in a lab. A test that the table does not name passes.
#[derive(Debug)]
pub struct Outcomes {
    /// By a test's id, or by a pattern such as `c09-*-verbs`, which stands for all tests that nothing else names.
    left: BTreeMap<String, Expected>,
}

impl Outcomes {
    /// Reads a table. Each test is there once. None is there that simply passes; each has a reason, each FAIL its
    /// findings, and no PASS may also be a FAIL or a FAIL a PASS.
    ///
    /// # Panics
    /// When the table is not so.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let file: toml::Table = text.parse().unwrap();
        let mut left = BTreeMap::new();
        for group in file["group"].as_array().unwrap() {
            let word = |key: &str| group.get(key).map(|value| value.as_str().unwrap().to_owned());
            let list = |key: &str| -> Vec<String> {
                let values = group.get(key).map_or(&[][..], |value| value.as_array().unwrap());
                values.iter().map(|value| value.as_str().unwrap().to_owned()).collect()
            };
            let (outcome, or) = (word("outcome").unwrap(), list("or"));
            assert!(
                outcome != "PASS" || !or.is_empty(),
                "a test that passes is not listed: {group}"
            );
            assert!(
                word("reason").is_some_and(|reason| reason.ends_with('.')),
                "a group has a reason: {group}"
            );
            assert!(outcome != "FAIL" || !list("findings").is_empty(), "{group}");
            assert!(!or.iter().any(|or| or == "FAIL" || or == "PASS"), "{group}");
            let expected = Expected {
                outcomes: [vec![outcome], or].concat(),
                cause: word("cause"),
                findings: list("findings").into_iter().collect(),
            };
            for test in list("tests") {
                let before = left.insert(test.clone(), expected.clone());
                assert_eq!(before, None, "{test} is there twice");
            }
        }
        Self { left }
    }

    /// The expected outcome of a test. A test is asked about once.
    pub fn take(&mut self, test: &str) -> Expected {
        let pattern = |(pattern, expected): (&String, &Expected)| matches(pattern, test).then(|| expected.clone());
        let named = self.left.remove(test);
        named
            .or_else(|| self.left.iter().find_map(pattern))
            .unwrap_or(Expected {
                outcomes: vec!["PASS".into()],
                cause: None,
                findings: BTreeSet::new(),
            })
    }

    /// The tests of the table that were not asked about.
    #[must_use]
    pub fn left(&self) -> Vec<&str> {
        let ids = self.left.keys().filter(|name| !name.contains('*'));
        ids.map(String::as_str).collect()
    }
}

/// Whether a test is meant by a pattern with one `*`, or by its id.
fn matches(pattern: &str, test: &str) -> bool {
    match pattern.split_once('*') {
        Some((beginning, end)) => test.strip_prefix(beginning).is_some_and(|rest| rest.ends_with(end)),
        None => pattern == test,
    }
}

/// How many verdicts a run has of the tests whose ids begin so.
#[must_use]
pub fn count(beginnings: &[&str]) -> usize {
    let is_of_it = |test: &&&Test| beginnings.iter().any(|beginning| test.id.starts_with(beginning));
    TESTS.iter().filter(is_of_it).count()
}

/// The checks that may fail in a test of a table beside what is expected of it, as [`in_words`] has them: those of its
/// `[[sometimes]]` that name the test, be it as `c09-*`, each with a reason.
///
/// # Panics
/// When the table is not so.
#[must_use]
pub fn sometimes(text: &str, test: &str) -> BTreeSet<String> {
    let file: toml::Table = text.parse().unwrap();
    let names = |pattern: &toml::Value| matches(pattern.as_str().unwrap(), test);
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

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = r#"
        [[group]]
        outcome = "NOT_APPLICABLE"
        cause = "RIG"
        tests = ["c09-*-verbs", "c09-a"]
        reason = "No adapter."
    "#;

    #[test]
    fn a_test_that_is_not_listed_passes() {
        let mut outcomes = Outcomes::read(TABLE);
        for (test, outcome) in [
            ("c09-new", "PASS"),
            ("c09-new-verbs", "NOT_APPLICABLE"),
            ("c09-verbs", "PASS"),
        ] {
            assert_eq!(outcomes.take(test).outcomes, [outcome], "{test}");
        }
        assert_eq!(outcomes.left(), ["c09-a"]);
        assert_eq!(outcomes.take("c09-a").cause.as_deref(), Some("RIG"));
        assert_eq!(outcomes.left(), [""; 0]);
    }

    #[test]
    #[should_panic(expected = "a test that passes is not listed")]
    fn a_test_that_passes_is_not_listed() {
        drop(Outcomes::read("[[group]]\noutcome = \"PASS\"\ntests = [\"c09-a\"]"));
    }
}
