//! Parameters that an operator gives: whether the chosen tests have them, and take such values.

use std::collections::BTreeMap;

use verbatim_tester::Test;

/// A parameter that cannot be given so.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what}")]
pub struct WrongParameter {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: u64,
    /// What was expected, and what was seen.
    pub what: String,
}

/// Every parameter that none of these tests has, or whose value one of them does not take.
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
    let declared = || {
        let of = |test: &'static Test| test.parameters.iter().map(move |parameter| (test.id, parameter));
        tests.iter().copied().flat_map(of)
    };
    let mut named = declared().filter(|(_, parameter)| parameter.name == name).peekable();
    if named.peek().is_none() {
        let mut names: Vec<&str> = declared().map(|(_, parameter)| parameter.name).collect();
        names.sort_unstable();
        names.dedup();
        let theirs = if names.is_empty() {
            "none".into()
        } else {
            names.join(", ")
        };
        return Some(format!(
            "none of the chosen tests has this parameter; theirs are: {theirs}"
        ));
    }
    let (test, parameter) = named.find(|(_, parameter)| !(parameter.range.0..=parameter.range.1).contains(&value))?;
    let (least, most) = parameter.range;
    Some(format!(
        "a number from {least} to {most} was expected for {test} ({}), seen {value}",
        parameter.about
    ))
}
