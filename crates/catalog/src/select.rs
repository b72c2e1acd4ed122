//! Selects tests by duration, id, alias, statement or glob, or else by a word.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use verbatim_nearest::nearest;
use verbatim_tester::Test;

use crate::chapters::TESTS;
use crate::estimate::Extent;
use crate::glob::glob;
use crate::statements::{canonical, statement, statements, typable};
use crate::words::{is_in, nearest_word, stem};

/// A pattern that matches no test.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "no test, public name, statement or word of a title matches {pattern:?}{hint}; `verbatim tests` lists them all"
)]
pub struct SelectError {
    /// The pattern.
    pub pattern: String,
    hint: String,
}

/// The indices in [`TESTS`] of the tests with an id or public name in lower case. Tests can share a public name.
static NAMED: LazyLock<BTreeMap<String, Vec<usize>>> = LazyLock::new(|| {
    let mut named: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, test) in TESTS.iter().enumerate() {
        for name in core::iter::once(&test.id).chain(test.aliases) {
            named.entry(name.to_ascii_lowercase()).or_default().push(index);
        }
    }
    named
});

/// Returns the tests that match any of the patterns, in the catalogue's order, or all tests if there is no pattern. A
/// pattern that matches no name is searched for as a word, such as `rnr` or `m_key`, then as another form of the word,
/// such as `retry` for `retries`. The patterns `quick`, `standard`
/// and `full` are selections by duration: see [`Extent`].
///
/// # Errors
/// Returns an error for the first pattern that matches nothing.
pub fn select(patterns: &[String]) -> Result<Vec<&'static Test>, SelectError> {
    select_or_all_errors(patterns).map_err(|mut wrong| wrong.swap_remove(0).1)
}

/// Returns the same tests as [`select`].
///
/// # Errors
/// Returns an error for each pattern that matches nothing, with its place. Only the first error has a suggestion,
/// because the search for one takes milliseconds.
pub fn select_or_all_errors(patterns: &[String]) -> Result<Vec<&'static Test>, Vec<(usize, SelectError)>> {
    let mut selected = vec![patterns.is_empty(); TESTS.len()];
    let mut wrong = Vec::new();
    for (place, pattern) in patterns.iter().enumerate() {
        let found = matching(pattern);
        if found.is_empty() {
            let hint = if wrong.is_empty() { hint(pattern) } else { String::new() };
            let pattern = pattern.clone();
            wrong.push((place, SelectError { pattern, hint }));
        }
        found.into_iter().for_each(|index| selected[index] = true);
    }
    match wrong.is_empty() {
        true => Ok(TESTS
            .iter()
            .zip(selected)
            .filter_map(|(test, is_in)| is_in.then_some(*test))
            .collect()),
        false => Err(wrong),
    }
}

/// Returns whether a pattern is the exact name of a test, a statement or a selection by duration. The search for any
/// other pattern takes much longer.
#[must_use]
pub fn is_exact(pattern: &str) -> bool {
    let begins_with = |first: char| pattern.starts_with(first) || pattern.starts_with(first.to_ascii_uppercase());
    NAMED.contains_key(&pattern.to_ascii_lowercase())
        || Extent::named(pattern).is_some()
        || statement(pattern).is_some()
        || (begins_with('c') || begins_with('v')) && canonical(pattern).is_some()
}

/// Returns the indices of the tests that match a pattern as a name, or else as a word.
fn matching(pattern: &str) -> Vec<usize> {
    let all = || TESTS.iter().enumerate();
    if let Some(extent) = Extent::named(pattern) {
        return all()
            .filter_map(|(index, test)| extent.has(test).then_some(index))
            .collect();
    }
    // A statement's id or a glob is never a word, even if no test matches it.
    if let Some(id) = canonical(pattern) {
        let judges = |test: &Test| test.statements.contains(&id.as_str());
        return all()
            .filter_map(|(index, test)| judges(test).then_some(index))
            .collect();
    }
    let lower = pattern.to_ascii_lowercase();
    if pattern.contains(['*', '?']) {
        let named = NAMED.iter().filter(|(name, _)| glob(&lower, name));
        return named.flat_map(|(_, indices)| indices).copied().collect();
    }
    let with = |word: &str| -> Vec<usize> {
        all()
            .filter_map(|(index, test)| is_in(word, test).then_some(index))
            .collect()
    };
    let by_name = NAMED.get(&lower).cloned();
    let found = by_name.unwrap_or_else(|| with(pattern));
    match stem(pattern).filter(|_| found.is_empty()) {
        Some(stem) => with(&stem),
        None => found,
    }
}

fn hint(pattern: &str) -> String {
    let statement_ids = statements().iter().map(|statement| statement.id.as_str());
    if let Some(id) = canonical(pattern) {
        if statement(&id).is_some() {
            return format!(" ({id} is known, but no test judges it)");
        }
        let meant =
            nearest(&id, statement_ids).map_or_else(String::new, |near| format!("; did you mean {}?", typable(near)));
        return format!(" ({id} is not in the registry of statements{meant})");
    }
    let ids = TESTS.iter().map(|test| test.id);
    // Only public names contain `_`, so such a pattern suggests a public name.
    let has_public_form = pattern.contains('_');
    let aliases = TESTS.iter().flat_map(|test| test.aliases).copied();
    let names = ids.chain(aliases.filter(|_| has_public_form)).chain(statement_ids);
    let near = nearest(pattern, Extent::NAMES.into_iter().chain(names)).map(|near| typable(near).into_owned());
    near.or_else(|| nearest_word(pattern))
        .map_or_else(String::new, |near| format!(" (did you mean {near}?)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(pattern: &str) -> Vec<&'static str> {
        select(&[pattern.into()]).unwrap().iter().map(|test| test.id).collect()
    }

    #[test]
    fn selects_by_id_alias_statement_or_glob() {
        assert_eq!(ids("c14-016-get-protect-2"), ["c14-016-get-protect-2"]);
        assert_eq!(ids("C14_016_Get").len(), 4);
        assert!(ids("C14-16").len() >= 8);
        assert_eq!(ids("v1c14-021"), ["c14-017-lease-zero", "c14-walk"]);
        assert_eq!(ids("c14-016-*-protect-?").len(), 12);
        assert_eq!(select(&[]).unwrap().len(), TESTS.len());
        assert_eq!(ids("full").len(), TESTS.len());
        assert!(!ids("standard").contains(&"c14-017-lease-periods") && ids("standard").contains(&"c14-walk"));
        assert!(!ids("quick").contains(&"c14-walk") && ids("quick").contains(&"c14-016-get-protect-2"));
    }

    #[test]
    fn selects_by_word_in_any_spelling() {
        let of_rnr = ids("rnr");
        assert!(
            of_rnr.contains(&"c09-rnr-nak-codes") && !of_rnr.contains(&"c14-walk"),
            "{of_rnr:?}"
        );
        let of_key = ids("m_key");
        assert!(of_key.contains(&"c14-016-get-protect-1"), "{of_key:?}");
        assert!(["M_Key", "mkey", "m-key"].iter().all(|other| ids(other) == of_key));
        assert!(
            of_key.contains(&"c14-017-lease-zero"),
            "by the text of its statement: {of_key:?}"
        );
        for form in ["retry", "retries", "retried"] {
            assert!(ids(form).contains(&"c09-143-retry-count"), "{form}");
        }
        assert!(!ids("retransmission").is_empty() && !ids("retransmitting").is_empty());
        let error = select(&["atomik".into()]).unwrap_err().to_string();
        assert!(error.contains("did you mean atomic?"), "{error}");
    }

    #[test]
    fn unknown_pattern_suggests_nearest_name() {
        let error = select(&["c14-016-get-protekt-2".into()]).unwrap_err().to_string();
        assert!(error.contains("did you mean c14-016-get-protect-2?"), "{error}");
        let error = select(&["quik".into()]).unwrap_err().to_string();
        assert!(error.contains("did you mean quick?"), "{error}");
        assert!(
            select(&["C99-1".into()])
                .unwrap_err()
                .to_string()
                .contains("C99-1 is not in the registry")
        );
    }

    #[test]
    fn only_first_unknown_pattern_gets_a_suggestion() {
        let wrong = ["c14-walk", "c14-wlak", "c14-wlak"].map(String::from);
        let wrong = select_or_all_errors(&wrong).unwrap_err();
        let suggests = |(place, error): &(usize, SelectError)| (*place, error.to_string().contains("did you mean"));
        assert_eq!(wrong.iter().map(suggests).collect::<Vec<_>>(), [(1, true), (2, false)]);
    }

    #[test]
    fn names_are_exact_and_other_patterns_are_not() {
        let statement = statements()[0].id.as_str();
        for name in ["c14-016-get-protect-2", "C14_016_Get", "C14-16", "v1c14-021", statement] {
            assert!(is_exact(name), "{name}");
        }
        for search in ["rnr", "c14-*", "c14-wlak", "9.7.7", "", "cx"] {
            assert!(!is_exact(search), "{search}");
        }
    }

    #[test]
    fn suggests_only_near_names() {
        for (typed, near) in [
            ("c14-16-get", "(did you mean c14-016-get-protect-0?)"),
            ("C14_016_Gte", "(did you mean C14_016_Get?)"),
            ("c14-wlak", "(did you mean c14-walk?)"),
            ("9.7.7.1-mns", "(did you mean 9.7.7.1-msn?)"),
            (
                "C14-61",
                "(C14-61 is not in the registry of statements; did you mean C14-16?)",
            ),
            ("C99-1", "(C99-1 is not in the registry of statements)"),
        ] {
            let error = select(&[typed.into()]).unwrap_err().to_string();
            assert!(error.contains(near), "{typed}: {error}");
        }
        for typed in ["c09-kindred", "everything"] {
            let error = select(&[typed.into()]).unwrap_err().to_string();
            assert!(!error.contains("did you mean"), "{typed}: {error}");
        }
    }
}
