//! Words of tests, such as `rnr`. `mkey`, `m-key` and `M_Key` count as the same word.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use verbatim_nearest::nearest;
use verbatim_tester::Test;

use crate::chapters::TESTS;
use crate::statements::statement;

/// The least length of a word. Shorter words occur in nearly every test. A suggested word must be longer.
const SHORTEST: usize = 2;

/// Returns whether a text contains a word, in any case and with any separators. The word must begin at the start of one
/// of the text's words: `c09-rnr-nak-codes` contains `rnr`, and `PortInfo` contains `info`.
#[must_use]
pub fn has_word(text: &str, word: &str) -> bool {
    begins_a_word(&joined(word).0, &joined(text))
}

/// The letters and digits of a text, and the positions at which its words begin.
type Joined = (String, Vec<usize>);

fn begins_a_word(word: &str, (text, beginnings): &Joined) -> bool {
    word.len() >= SHORTEST && beginnings.iter().any(|at| text[*at..].starts_with(word))
}

/// Endings of the forms of a word, the longest first.
const ENDINGS: [&str; 17] = [
    "missions", "mission", "mitted", "mitting", "ations", "ation", "ions", "mits", "mit", "ing", "ion", "ies", "ied",
    "es", "ed", "s", "y",
];
/// The least length of a stem. A shorter stem begins too many words.
const SHORTEST_STEM: usize = 4;

/// Returns the stem that the forms of a word share: `retr` of `retry` and `retries`. Returns `None` for a word without
/// a known ending, or with a short stem.
#[must_use]
pub fn stem(word: &str) -> Option<String> {
    let (word, _) = joined(word);
    let stem = ENDINGS.iter().find_map(|ending| word.strip_suffix(ending))?;
    (stem.len() >= SHORTEST_STEM).then(|| stem.into())
}

/// Returns whether a word is in a test's id, its title, its public names, or a statement's id, title or text.
#[must_use]
pub fn mentions<'a>(
    word: &str,
    (id, about): (&'a str, &'a str),
    aliases: impl IntoIterator<Item = &'a str>,
    statements: impl IntoIterator<Item = &'a str>,
) -> bool {
    texts((id, about), aliases, statements).any(|text| has_word(text, word))
}

fn texts<'a>(
    (id, about): (&'a str, &'a str),
    aliases: impl IntoIterator<Item = &'a str>,
    statements: impl IntoIterator<Item = &'a str>,
) -> impl Iterator<Item = &'a str> {
    let of_statement = |id: &'a str| {
        let known = statement(id).map(|known| [known.title.as_str(), known.about.as_str()]);
        core::iter::once(id).chain(known.into_iter().flatten())
    };
    let statements = statements.into_iter().flat_map(of_statement);
    [id, about].into_iter().chain(aliases).chain(statements)
}

/// The texts of each test, by the test's id.
static JOINED: LazyLock<BTreeMap<&str, Vec<Joined>>> = LazyLock::new(|| {
    let of = |test: &&'static Test| {
        let (aliases, statements) = (test.aliases.iter().copied(), test.statements.iter().copied());
        let texts = texts((test.id, test.about), aliases, statements);
        (test.id, texts.map(joined).collect())
    };
    TESTS.iter().map(of).collect()
});

/// Returns whether a word is in a test of this catalogue.
pub(crate) fn is_in(word: &str, test: &Test) -> bool {
    let (word, _) = joined(word);
    let texts = JOINED.get(test.id);
    texts.is_some_and(|texts| texts.iter().any(|text| begins_a_word(&word, text)))
}

/// Returns the catalogue's word that is nearest to a misspelled word, if it is near enough.
#[must_use]
pub fn nearest_word(typed: &str) -> Option<String> {
    let plain = typed.chars().all(char::is_alphabetic);
    let words = TESTS.iter().flat_map(|test| {
        test.id
            .split('-')
            .chain(test.about.split(|c: char| !c.is_alphanumeric()))
    });
    let words: BTreeSet<String> = words
        .filter(|word| word.len() > SHORTEST && word.chars().all(char::is_alphabetic))
        .map(str::to_ascii_lowercase)
        .collect();
    let near = plain.then(|| nearest(typed, words.iter().map(String::as_str)))?;
    near.map(String::from)
}

/// Returns the lower-case letters and digits of a text without separators, and the positions at which its words begin.
fn joined(text: &str) -> Joined {
    let (mut out, mut beginnings) = (String::with_capacity(text.len()), Vec::new());
    let mut before = ' ';
    for letter in text.chars() {
        if letter.is_ascii_alphanumeric() {
            let in_camel_case = letter.is_ascii_uppercase() && before.is_ascii_lowercase();
            if !before.is_ascii_alphanumeric() || in_camel_case {
                beginnings.push(out.len());
            }
            out.push(letter.to_ascii_lowercase());
        }
        before = letter;
    }
    (out, beginnings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_is_found_in_any_spelling() {
        for word in ["mkey", "m-key", "M_Key", "M KEY", "key"] {
            assert!(has_word("While the M_Key is 0", word), "{word}");
        }
        assert!(has_word("Get(PortInfo) is answered", "info") && has_word("c09-rnr-nak-codes", "rnr-nak"));
    }

    #[test]
    fn forms_of_a_word_share_a_stem() {
        for (word, expected) in [
            ("retry", Some("retr")),
            ("retries", Some("retr")),
            ("retransmission", Some("retrans")),
            ("retransmitted", Some("retrans")),
            ("atomics", Some("atomic")),
            ("keys", None),
            ("rnr", None),
        ] {
            assert_eq!(stem(word).as_deref(), expected, "{word}");
        }
    }

    #[test]
    fn word_begins_at_a_word_of_the_text() {
        for (text, word) in [
            ("a target", "get"),
            ("backwards", "ack"),
            ("c14-walk", "1"),
            ("any", ""),
            ("any", "--"),
        ] {
            assert!(!has_word(text, word), "{text} {word}");
        }
    }

    #[test]
    fn nearest_word_is_suggested() {
        assert_eq!(nearest_word("atomik").as_deref(), Some("atomic"));
        assert_eq!(nearest_word("xyzzy"), None);
        assert_eq!(nearest_word("c14-61"), None, "a name and no word");
    }
}
