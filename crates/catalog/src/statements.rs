//! Compliance statements: their ids, and summaries in the project's own words.

use std::borrow::Cow;
use std::sync::LazyLock;

use serde::Deserialize;

/// A compliance statement of the architecture.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// The canonical id: "C14-16".
    pub id: String,
    /// A title of a few words.
    pub title: String,
    /// The requirement, in the project's own words.
    pub about: String,
    /// The source of the project's reading.
    pub source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Registry {
    statement: Vec<Statement>,
}

static STATEMENTS: LazyLock<Vec<Statement>> = LazyLock::new(|| {
    let registry: Registry =
        toml::from_str(include_str!("../statements.toml")).expect("statements.toml is checked by a test");
    registry.statement
});

/// Returns all statements of the registry.
#[must_use]
pub fn statements() -> &'static [Statement] {
    &STATEMENTS
}

/// Returns the statement with this canonical id.
#[must_use]
pub fn statement(id: &str) -> Option<&'static Statement> {
    statements().iter().find(|statement| statement.id == id)
}

/// Returns an id in a form without blanks: `13.4.2-mad-header` for `13.4.2 MAD header`.
#[must_use]
pub fn typable(id: &str) -> Cow<'_, str> {
    if id.contains(' ') {
        id.to_ascii_lowercase().replace(' ', "-").into()
    } else {
        id.into()
    }
}

/// Normalizes an id for comparison: lower case, with blanks as separators.
fn spaced(id: &str) -> String {
    id.to_ascii_lowercase().replace(['-', '_'], " ")
}

/// Returns the canonical form of a statement's id, or `None` for other text. `v1c14-016.1.1#03` becomes `C14-16`. An id
/// that begins with a section may have any case and hyphens instead of blanks. The section alone suffices if it has
/// only one statement.
#[must_use]
pub fn canonical(id: &str) -> Option<String> {
    // The section of an annex begins with a letter: A17.9.
    let section = id.strip_prefix(['A', 'a']).unwrap_or(id);
    if section.starts_with(|first: char| first.is_ascii_digit()) {
        let wanted = spaced(id);
        let is_it = |statement: &&Statement| spaced(&statement.id) == wanted;
        let known = statements().iter().find(is_it).or_else(|| {
            let section = format!("{wanted} ");
            let mut of_section = statements()
                .iter()
                .filter(|statement| spaced(&statement.id).starts_with(&section));
            // The section alone is ambiguous if it has two statements.
            of_section.next().filter(|_| of_section.next().is_none())
        });
        return known.map(|statement| statement.id.clone());
    }
    let lower = id.to_ascii_lowercase().replace('_', "-");
    let rest = lower.strip_prefix("v1").unwrap_or(&lower);
    let rest = rest.strip_prefix('c')?;
    let (chapter, number) = rest.split_once('-')?;
    let number = number.split(['.', '#']).next()?;
    let decimal = |digits: &str| (digits.len() <= 4).then(|| digits.parse::<u32>().ok()).flatten();
    Some(format!("C{}-{}", decimal(chapter)?, decimal(number)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TESTS;

    #[test]
    fn ids_accept_zeros_any_case_and_volume() {
        for id in [
            "C14-16",
            "c14-016",
            "v1c14-016",
            "V1C14-16",
            "v1c14-016.1.1",
            "c14_016",
            "v1c14-016#01.01",
        ] {
            assert_eq!(canonical(id).as_deref(), Some("C14-16"), "{id}");
        }
        for id in ["13.4.2 MAD header", "13.4.2-mad-header", "13.4.2_MAD_header", "13.4.2"] {
            assert_eq!(canonical(id).as_deref(), Some("13.4.2 MAD header"), "{id}");
        }
        for id in ["A17.9", "a17.9", "a17.9-congestion-notification"] {
            assert_eq!(canonical(id).as_deref(), Some("A17.9 congestion notification"), "{id}");
        }
        assert_eq!(typable("13.4.2 MAD header"), "13.4.2-mad-header");
        assert_eq!(typable("C14-16"), "C14-16");
        assert_eq!(canonical("7.4"), None, "that section has several");
        for id in ["c14-016-get", "", "14-16", "c14", "C-1", "c14-99999999999"] {
            assert_eq!(canonical(id), None, "{id}");
        }
    }

    #[test]
    fn every_rule_statement_is_registered() {
        for rule in verbatim_oracle::rules() {
            assert!(statement(rule.statement()).is_some(), "{}", rule.name());
        }
    }

    #[test]
    fn every_test_statement_is_registered() {
        for test in TESTS {
            for id in test.statements {
                assert!(statement(id).is_some(), "{}: {id} is not in statements.toml", test.id);
            }
        }
        for statement in statements() {
            for form in [statement.id.as_str(), &typable(&statement.id)] {
                assert_eq!(canonical(form).as_deref(), Some(statement.id.as_str()), "{form}");
                assert!(!typable(form).contains(' '), "{form}");
            }
            assert!(!statement.about.is_empty() && !statement.source.is_empty());
        }
    }
}
