//! Words of tests: `rnr`, or `mkey`, `m-key` and `M_Key`, which are one.

use std::collections::BTreeSet;

use verbatim_nearest::nearest;
use verbatim_tester::Test;

use crate::chapters::TESTS;
use crate::statements::statement;

/// Shorter ones are in nearly every test.
const SHORTEST: usize = 2;

/// Whether a text has a word, in any case and with any separators: letters and digits of the word must follow each other in the
/// text, from the beginning of one of its words on. So `rnr` is in `c09-rnr-nak-codes`, and `info` in `PortInfo`.
#[must_use]
pub fn has_word(text: &str, word: &str) -> bool {
    let (word, _) = joined(word);
    let (text, beginnings) = joined(text);
    word.len() >= SHORTEST && beginnings.iter().any(|at| text[*at..].starts_with(&word))
}

/// Whether a word is in a test's id, its title, a public name, or in the id or title of a statement.
#[must_use]
pub fn mentions<'a>(
    word: &str,
    (id, about): (&'a str, &'a str),
    aliases: impl IntoIterator<Item = &'a str>,
    statements: impl IntoIterator<Item = &'a str>,
) -> bool {
    let of_statement = |id: &'a str| [Some(id), statement(id).map(|known| known.title.as_str())];
    let statements = statements.into_iter().flat_map(of_statement).flatten();
    let mut texts = [id, about].into_iter().chain(aliases).chain(statements);
    texts.any(|text| has_word(text, word))
}

/// Whether a word is in a test of this catalogue.
pub(crate) fn is_in(word: &str, test: &Test) -> bool {
    let aliases = test.aliases.iter().copied();
    mentions(word, (test.id, test.about), aliases, test.statements.iter().copied())
}

/// The word of a test that is the nearest to one that is in none, where one is near enough to be meant.
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

/// Letters and digits of a text in small letters, without what is between them, and where its words begin.
fn joined(text: &str) -> (String, Vec<usize>) {
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
    fn a_word_is_found_in_any_spelling() {
        for word in ["mkey", "m-key", "M_Key", "M KEY", "key"] {
            assert!(has_word("While the M_Key is 0", word), "{word}");
        }
        assert!(has_word("Get(PortInfo) is answered", "info") && has_word("c09-rnr-nak-codes", "rnr-nak"));
    }

    #[test]
    fn a_word_begins_where_one_of_the_text_does() {
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
    fn the_nearest_word_is_offered() {
        assert_eq!(nearest_word("atomik").as_deref(), Some("atomic"));
        assert_eq!(nearest_word("xyzzy"), None);
        assert_eq!(nearest_word("c14-61"), None, "a name and no word");
    }
}
