//! Selects tests by duration, id, alias, statement or glob, or else by a word.

use verbatim_nearest::nearest;
use verbatim_tester::Test;

use crate::chapters::TESTS;
use crate::estimate::Extent;
use crate::glob::glob;
use crate::statements::{canonical, statement, statements, typable};
use crate::words::{is_in, nearest_word};

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

/// Returns the tests that match any of the patterns, in the catalogue's order, or all tests if there is no pattern. A
/// pattern that matches no name is searched as a word of the tests: `rnr`, `m_key`. The patterns `quick`, `standard`
/// and `full` are selections by duration: see [`Extent`].
///
/// # Errors
/// Returns an error for the first pattern that matches nothing.
pub fn select(patterns: &[String]) -> Result<Vec<&'static Test>, SelectError> {
    let meant = patterns.iter().map(|pattern| Ok((pattern, meant(pattern)?)));
    let meant: Vec<(&String, Matches)> = meant.collect::<Result<_, SelectError>>()?;
    let wanted = |test: &&&Test| meant.is_empty() || meant.iter().any(|(pattern, matches)| matches(pattern, test));
    Ok(TESTS.iter().filter(wanted).copied().collect())
}

/// A function that returns whether a pattern matches a test.
type Matches = fn(&str, &Test) -> bool;

/// Returns how to match a pattern: as a name, or as a word if no name matches.
fn meant(pattern: &str) -> Result<Matches, SelectError> {
    if Extent::named(pattern).is_some() {
        return Ok(|name, test| Extent::named(name).is_some_and(|extent| extent.has(test)));
    }
    let matches: [Matches; 2] = [matches, is_in];
    // A statement's id or a glob is never a word, even if no test matches it.
    let is_name = canonical(pattern).is_some() || pattern.contains(['*', '?']);
    let mut ways = matches.into_iter().take(if is_name { 1 } else { 2 });
    let found = ways.find(|matches| TESTS.iter().any(|test| matches(pattern, test)));
    found.ok_or_else(|| SelectError {
        pattern: pattern.into(),
        hint: hint(pattern),
    })
}

fn matches(pattern: &str, test: &Test) -> bool {
    if let Some(id) = canonical(pattern) {
        return test.statements.contains(&id.as_str());
    }
    let pattern = pattern.to_ascii_lowercase();
    core::iter::once(&test.id)
        .chain(test.aliases)
        .any(|name| glob(&pattern, &name.to_ascii_lowercase()))
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
    let near = nearest(pattern, names).map(|near| typable(near).into_owned());
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
        let error = select(&["atomik".into()]).unwrap_err().to_string();
        assert!(error.contains("did you mean atomic?"), "{error}");
    }

    #[test]
    fn unknown_pattern_suggests_nearest_name() {
        let error = select(&["c14-016-get-protekt-2".into()]).unwrap_err().to_string();
        assert!(error.contains("did you mean c14-016-get-protect-2?"), "{error}");
        assert!(
            select(&["C99-1".into()])
                .unwrap_err()
                .to_string()
                .contains("C99-1 is not in the registry")
        );
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
