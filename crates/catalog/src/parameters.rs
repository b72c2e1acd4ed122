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

/// Returns the parameters that no test has, or whose value a test rejects. Only the text of the first unknown parameter
/// lists the parameters of the tests.
#[must_use]
pub fn wrong_parameters(tests: &[&'static Test], given: &BTreeMap<String, u64>) -> Vec<WrongParameter> {
    let mut by_name: BTreeMap<&str, Vec<(&'static str, &'static Parameter)>> = BTreeMap::new();
    for (test, parameter) in declared(tests) {
        by_name.entry(parameter.name).or_default().push((test, parameter));
    }
    let mut is_listed = false;
    let wrong = given.iter().filter_map(|(name, value)| {
        let what = match by_name.get(name.as_str()) {
            Some(named) => {
                let rejects = |(_, of): &&(&str, &Parameter)| !(of.range.0..=of.range.1).contains(value);
                let (test, parameter) = named.iter().find(rejects)?;
                format!("{}, seen {value}", takes(test, parameter))
            }
            None if std::mem::replace(&mut is_listed, true) => "no selected test has this parameter".into(),
            None => {
                let names: Vec<&str> = by_name.keys().copied().collect();
                let theirs = if names.is_empty() {
                    "none".into()
                } else {
                    names.join(", ")
                };
                format!("no selected test has this parameter; the parameters of these tests: {theirs}")
            }
        };
        Some(WrongParameter {
            name: name.clone(),
            value: *value,
            what,
        })
    });
    wrong.collect()
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
