//! The expected outcomes of tests in a lab: the committed tables `tests/data/*-outcomes.toml`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use verbatim_catalog::TESTS;
use verbatim_tester::Test;

/// The expectation for one test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The expected outcome, then further outcomes that are possible on a busy host.
    pub outcomes: Vec<String>,
    /// The cause, if the table has one.
    pub cause: Option<String>,
    /// Expected findings, in the form of [`in_words`].
    pub findings: BTreeSet<String>,
}

/// The expected outcome of each test in a lab. A test that is not in the table must pass.
#[derive(Debug)]
pub struct Outcomes {
    /// The expectations. The key is a test's id, or a pattern with one `*`, such as `c09-*-verbs`. A pattern applies to
    /// tests without their own entry.
    left: BTreeMap<String, Expected>,
}

impl Outcomes {
    /// Reads a table. The table lists each test at most once, and no test that always passes. Each group has a reason,
    /// and each FAIL has its findings. The alternatives (`or`) contain no FAIL and no PASS.
    ///
    /// # Panics
    /// When the table breaks these rules.
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

    /// Returns the expected outcome of a test, and removes the test's entry. Call this function once for each test.
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

    /// Returns the ids in the table that [`Outcomes::take`] has not removed.
    #[must_use]
    pub fn left(&self) -> Vec<&str> {
        let ids = self.left.keys().filter(|name| !name.contains('*'));
        ids.map(String::as_str).collect()
    }
}

/// Returns whether a test's id equals `pattern` or matches its one `*`.
fn matches(pattern: &str, test: &str) -> bool {
    match pattern.split_once('*') {
        Some((beginning, end)) => test.strip_prefix(beginning).is_some_and(|rest| rest.ends_with(end)),
        None => pattern == test,
    }
}

/// Returns the number of tests in the catalogue whose ids begin with one of these words.
#[must_use]
pub fn count(beginnings: &[&str]) -> usize {
    let is_of_it = |test: &&&Test| beginnings.iter().any(|beginning| test.id.starts_with(beginning));
    TESTS.iter().filter(is_of_it).count()
}

/// Returns the findings that a test may have in addition to its expected findings, in the form of [`in_words`]. The
/// `[[sometimes]]` groups of the table that name the test, by id or pattern, list these findings. Each group must have
/// a reason.
///
/// # Panics
/// When the table is malformed.
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

/// Returns a check's statement and subject, with N for every number in the subject.
///
/// # Panics
/// When the check has no statement or subject.
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
    fn unlisted_test_passes() {
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
    fn table_rejects_passing_tests() {
        drop(Outcomes::read("[[group]]\noutcome = \"PASS\"\ntests = [\"c09-a\"]"));
    }
}
