//! Parameters from the command line: checks whether the selected tests have them and accept their values.

use std::collections::BTreeMap;

use verbatim_tester::{Parameter, Test};

/// A parameter that no selected test accepts.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what}")]
pub struct WrongParameter {
    /// The parameter's name.
    pub name: String,
    /// The given value.
    pub value: u64,
    /// The expected values, and the value seen.
    pub what: String,
}

/// Returns the parameters that no test has, or whose value a test rejects.
#[must_use]
pub fn wrong_parameters(tests: &[&'static Test], given: &BTreeMap<String, u64>) -> Vec<WrongParameter> {
    let wrong = given.iter().filter_map(|(name, value)| {
        let what = wrong(tests, name, *value)?;
        Some(WrongParameter {
            name: name.clone(),
            value: *value,
            what,
        })
    });
    wrong.collect()
}

fn wrong(tests: &[&'static Test], name: &str, value: u64) -> Option<String> {
    let mut named = declared(tests)
        .filter(|(_, parameter)| parameter.name == name)
        .peekable();
    if named.peek().is_none() {
        let mut names: Vec<&str> = declared(tests).map(|(_, parameter)| parameter.name).collect();
        names.sort_unstable();
        names.dedup();
        let theirs = if names.is_empty() {
            "none".into()
        } else {
            names.join(", ")
        };
        return Some(format!(
            "no selected test has this parameter; the parameters of these tests: {theirs}"
        ));
    }
    let (test, parameter) = named.find(|(_, parameter)| !(parameter.range.0..=parameter.range.1).contains(&value))?;
    Some(format!("{}, seen {value}", takes(test, parameter)))
}

/// Describes the values that the first test with this parameter accepts. Returns `None` if no test has the parameter.
#[must_use]
pub fn expected_of(tests: &[&'static Test], name: &str) -> Option<String> {
    let (test, parameter) = declared(tests).find(|(_, parameter)| parameter.name == name)?;
    Some(takes(test, parameter))
}

fn declared(tests: &[&'static Test]) -> impl Iterator<Item = (&'static str, &'static Parameter)> {
    let of = |test: &'static Test| test.all_parameters().map(move |parameter| (test.id, parameter));
    tests.iter().copied().flat_map(of)
}

fn takes(test: &str, parameter: &Parameter) -> String {
    let (least, most) = parameter.range;
    format!(
        "a number from {least} to {most} was expected for {test} ({})",
        parameter.about
    )
}
