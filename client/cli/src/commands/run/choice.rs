//! Selection of tests by an expression, and by the result of the last run.

use verbatim_catalog::{Extent, mentions, nearest_word, stem};
use verbatim_client::v1;
use verbatim_text::quoted;

use super::Arguments;
use crate::commands::tests::missing;
use crate::exit::Usage;
use crate::print;

/// An expression over the words of a test, such as `lease and not (walk or protect)`. A word matches if it occurs in
/// the test's id, title, public name or statement, in any spelling.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Expression {
    Word(String),
    Not(Box<Expression>),
    And(Box<Expression>, Box<Expression>),
    Or(Box<Expression>, Box<Expression>),
}

impl std::str::FromStr for Expression {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let spaced = text.replace('(', " ( ").replace(')', " ) ");
        let words: Vec<&str> = spaced.split_whitespace().collect();
        let mut rest = words.as_slice();
        let expression = either(&mut rest, DEEPEST)?;
        match rest.first() {
            None => Ok(expression),
            Some(word) => Err(format!("expected \"and\", \"or\" or the end, seen {word:?}")),
        }
    }
}

/// Limit of nested parentheses and "not", because the parser is recursive and the text comes from a user.
const DEEPEST: usize = 64;

fn either(rest: &mut &[&str], depth: usize) -> Result<Expression, String> {
    let mut left = both(rest, depth)?;
    while took(rest, "or") {
        left = Expression::Or(Box::new(left), Box::new(both(rest, depth)?));
    }
    Ok(left)
}

fn both(rest: &mut &[&str], depth: usize) -> Result<Expression, String> {
    let mut left = one(rest, depth)?;
    while took(rest, "and") {
        left = Expression::And(Box::new(left), Box::new(one(rest, depth)?));
    }
    Ok(left)
}

fn one(rest: &mut &[&str], depth: usize) -> Result<Expression, String> {
    let deeper = depth
        .checked_sub(1)
        .ok_or_else(|| format!("nested more than {DEEPEST} deep"))?;
    if took(rest, "not") {
        return Ok(Expression::Not(Box::new(one(rest, deeper)?)));
    }
    if took(rest, "(") {
        let inner = either(rest, deeper)?;
        return if took(rest, ")") {
            Ok(inner)
        } else {
            Err("a parenthesis is not closed".into())
        };
    }
    match rest.split_first() {
        Some((word, after)) if !["and", "or", ")"].contains(word) => {
            *rest = after;
            Ok(Expression::Word(word.to_ascii_lowercase()))
        }
        Some((word, _)) => Err(format!("expected a word, \"not\" or a parenthesis, seen {word:?}")),
        None => Err("expected a word, \"not\" or a parenthesis, seen the end".into()),
    }
}

fn took(rest: &mut &[&str], word: &str) -> bool {
    let Some((_, after)) = rest.split_first().filter(|(first, _)| **first == word) else {
        return false;
    };
    *rest = after;
    true
}

impl Expression {
    /// Returns whether the expression selects a test.
    pub(crate) fn matches(&self, test: &v1::Test) -> bool {
        match self {
            Self::Word(word) => {
                let aliases = test.aliases.iter().map(String::as_str);
                let statements = test.statements.iter().map(String::as_str);
                mentions(word, (test.id.as_str(), test.about.as_str()), aliases, statements)
            }
            Self::Not(inner) => !inner.matches(test),
            Self::And(left, right) => left.matches(test) && right.matches(test),
            Self::Or(left, right) => left.matches(test) || right.matches(test),
        }
    }

    /// Returns the expression with another form of each word that no test has: `retr` for `retries`.
    fn in_forms(&self, tests: &[v1::Test]) -> Self {
        let inner = |of: &Self| Box::new(of.in_forms(tests));
        match self {
            Self::Word(word) => {
                let is_known = |word: &str| tests.iter().any(|test| Self::Word(word.into()).matches(test));
                let form = stem(word).filter(|stem| !is_known(word) && is_known(stem));
                Self::Word(form.unwrap_or_else(|| word.clone()))
            }
            Self::Not(of) => Self::Not(inner(of)),
            Self::And(left, right) => Self::And(inner(left), inner(right)),
            Self::Or(left, right) => Self::Or(inner(left), inner(right)),
        }
    }

    /// Returns the words of the expression.
    fn words(&self) -> Vec<&str> {
        match self {
            Self::Word(word) => vec![word],
            Self::Not(inner) => inner.words(),
            Self::And(left, right) | Self::Or(left, right) => [left.words(), right.words()].concat(),
        }
    }

    /// Returns a suggestion for a word that matches no test, for an error message.
    fn hint(&self, tests: &[v1::Test]) -> String {
        let unknown = |word: &&&str| !tests.iter().any(|test| Self::Word((**word).into()).matches(test));
        let words = self.words();
        let mut unknown = words.iter().filter(unknown).filter_map(|word| nearest_word(word));
        unknown
            .next()
            .map_or_else(String::new, |near| format!(" (did you mean {near}?)"))
    }
}

/// Returns the patterns of a run: those of `spec`, or else the ids of the chosen tests. `tests` are the tests of these
/// patterns, `offers` the needs that the rig fulfils. Prints how many tests of a selection the rig cannot run.
pub(super) fn patterns(
    arguments: &Arguments,
    spec: &v1::RunSpec,
    tests: Vec<v1::Test>,
    offers: &[String],
    failed: Option<&[String]>,
) -> Result<Vec<String>, Usage> {
    let (here, others) = match is_selection(&spec.patterns) {
        true => on_rig(tests, offers),
        false => (tests, 0),
    };
    if others > 0 && !arguments.quiet && !arguments.json {
        let left_out = print::counted(others as u64, "test", "tests");
        print::note(format_args!(
            "verbatim: {left_out} left out, because rig {} lacks something that they need; {} names it",
            spec.rig,
            arguments.lists_others(&spec.rig)
        ));
    }
    match arguments.chooses() || others > 0 {
        true => ids(&here, arguments.expression.as_ref(), failed),
        false => Ok(spec.patterns.clone()),
    }
}

/// Returns whether all patterns are selections by duration. Of these, a run has only the tests that its rig can run.
pub(super) fn is_selection(patterns: &[String]) -> bool {
    !patterns.is_empty() && patterns.iter().all(|pattern| Extent::named(pattern).is_some())
}

/// Returns the tests that a rig can run, and the count of the others. If the rig can run none, or its offers are
/// unknown, returns all tests: their verdicts have the reason.
fn on_rig(tests: Vec<v1::Test>, offers: &[String]) -> (Vec<v1::Test>, usize) {
    let (here, others): (Vec<_>, Vec<_>) = tests.into_iter().partition(|test| missing(test, offers).is_none());
    match here.is_empty() {
        true => (others, 0),
        false => (here, others.len()),
    }
}

impl Arguments {
    /// Returns the command that lists the tests that the rig cannot run.
    fn lists_others(&self, rig: &str) -> String {
        match (self.ad_hoc.name(), &self.rig_file) {
            (Some(_), _) => "the pattern '*' in place of a selection".into(),
            (None, Some(file)) => {
                let file = quoted(&file.display().to_string());
                format!("`verbatim tests --rig {rig} --rig-file {file}`")
            }
            (None, None) => format!("`verbatim tests --rig {rig}`"),
        }
    }
}

/// Returns the ids of the tests that match the expression and are in `failed`. A filter that is None selects all
/// tests.
fn ids(tests: &[v1::Test], expression: Option<&Expression>, failed: Option<&[String]>) -> Result<Vec<String>, Usage> {
    let in_forms = expression.map(|expression| expression.in_forms(tests));
    let wanted = |test: &&v1::Test| {
        in_forms.as_ref().is_none_or(|expression| expression.matches(test))
            && failed.is_none_or(|failed| failed.contains(&test.id))
    };
    let ids: Vec<String> = tests.iter().filter(wanted).map(|test| test.id.clone()).collect();
    if ids.is_empty() {
        return Err(Usage(match (expression, failed) {
            (_, Some([])) => {
                "no test of the last run ended FAIL, ERROR, INCONCLUSIVE or SKIPPED: nothing to run again".into()
            }
            (Some(expression), _) => format!(
                "no test matches the expression of -k{}; `verbatim tests` lists them all",
                expression.hint(tests)
            ),
            (None, _) => "none of these tests had FAIL, ERROR, INCONCLUSIVE or SKIPPED in the last run".into(),
        }));
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(id: &str, statement: &str) -> v1::Test {
        v1::Test {
            id: id.into(),
            statements: vec![statement.into()],
            ..v1::Test::default()
        }
    }

    #[test]
    fn words_match_in_any_case_and_not_binds_tightest() {
        let tests = [
            test("c14-017-lease-zero", "C14-17"),
            test("c14-walk", "C14-16"),
            test("c09-walk", "C9-60"),
            test("c09-nak-sequence", "9.7.5.1.1 NAK handling"),
        ];
        let chosen = |text: &str| {
            ids(&tests, Some(&text.parse().unwrap()), None)
                .unwrap_or_default()
                .join(" ")
        };
        assert_eq!(chosen("LEASE"), "c14-017-lease-zero");
        assert_eq!(chosen("c14-16"), "c14-walk");
        assert_eq!(chosen("not walk"), "c14-017-lease-zero c09-nak-sequence");
        assert_eq!(chosen("9.7.5.1.1-NAK-handling"), "c09-nak-sequence");
        assert_eq!(chosen("lease or walk and not c14"), "c14-017-lease-zero c09-walk");
        assert_eq!(chosen("(lease or walk) and not c14"), "c09-walk");
        assert_eq!(chosen("nothing"), "");
        assert_eq!(chosen("9_7_5_1_1"), "c09-nak-sequence");
        assert_eq!(chosen("leaseZero and not walk"), "c14-017-lease-zero");
        let error = ids(&tests, Some(&"walk and atomik".parse().unwrap()), None).unwrap_err();
        assert!(error.0.contains("did you mean atomic?"), "{}", error.0);
    }

    #[test]
    fn error_says_what_was_expected() {
        for (text, words) in [
            ("", "seen the end"),
            ("a b", "seen \"b\""),
            ("a and", "seen the end"),
            ("or a", "seen \"or\""),
            ("(a", "not closed"),
            ("a)", "seen \")\""),
        ] {
            let error = text.parse::<Expression>().unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
        assert!(
            "(".repeat(100_000)
                .parse::<Expression>()
                .unwrap_err()
                .contains("64 deep")
        );
        assert!("not ".repeat(100_000).parse::<Expression>().is_err());
    }

    #[test]
    fn selection_leaves_out_tests_of_other_rigs() {
        let needs = |id: &str, need: &str| v1::Test {
            needs: vec![need.into()],
            ..test(id, "C1-1")
        };
        let tests = || vec![needs("a", "MADs"), needs("b", "packets"), needs("c", "MADs")];
        let here = |offers: &[&str]| {
            let offers: Vec<String> = offers.iter().map(ToString::to_string).collect();
            let (here, others) = on_rig(tests(), &offers);
            (here.into_iter().map(|test| test.id).collect::<String>(), others)
        };
        assert_eq!(here(&["MADs"]), ("ac".into(), 1));
        assert_eq!(here(&["MADs", "packets"]), ("abc".into(), 0));
        assert_eq!(here(&["links"]), ("abc".into(), 0), "each verdict has the reason");
    }

    #[test]
    fn selects_tests_that_did_not_pass() {
        let tests = [test("a", "C1-1"), test("b", "C1-2")];
        assert_eq!(ids(&tests, None, Some(&["b".into()])).unwrap(), ["b"]);
        assert!(
            ids(&tests, None, Some(&[]))
                .unwrap_err()
                .0
                .contains("nothing to run again")
        );
    }
}
