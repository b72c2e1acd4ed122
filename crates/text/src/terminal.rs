//! Lines for a terminal, a file or a log.

use std::fmt::{self, Display};
use std::io::{self, Write as _};
use std::ops::Deref;

use crate::{shown, shown_lines};

/// A colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Paint {
    /// Red.
    Red,
    /// Green.
    Green,
    /// Yellow.
    Yellow,
    /// Magenta.
    Magenta,
    /// Grey.
    Grey,
}

/// Lines of text. Each call of [`Text::line`] adds exactly one line, whatever its words contain.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Text(String);

impl Text {
    /// Returns a text without lines.
    #[must_use]
    pub const fn new() -> Self {
        Self(String::new())
    }

    /// Returns a text of one line.
    #[must_use]
    pub fn of(words: impl Display) -> Self {
        let mut text = Self::new();
        text.line(words);
        text
    }

    /// Returns a text that is our own or this user's, with its lines.
    #[must_use]
    pub fn own(text: &str) -> Self {
        Self(shown_lines(text).into_owned())
    }

    /// Returns a message of several lines. The lines after the first are indented, so that none looks like a message.
    #[must_use]
    pub fn message(words: impl Display) -> Self {
        let words = words.to_string();
        let (first, rest) = words.split_once('\n').unwrap_or((&words, ""));
        let mut text = Self::of(first);
        text.block("    ", rest);
        text
    }

    /// Adds a line.
    pub fn line(&mut self, words: impl Display) {
        self.0.push_str(&shown(&words.to_string()));
        self.0.push('\n');
    }

    /// Adds the lines of a text, each indented.
    pub fn block(&mut self, indent: &str, text: &str) {
        for line in text.lines() {
            self.line(format_args!("{indent}{line}"));
        }
    }

    /// Prints the text on stderr. Ignores an error, because the reader of stderr may have exited.
    pub fn say(&self) {
        let _ = io::stderr().write_all(self.0.as_bytes());
    }

    /// Adds a line whose head has a colour.
    pub fn painted(&mut self, paint: Option<Paint>, head: impl Display, rest: impl Display) {
        let Some(paint) = paint else {
            return self.line(format_args!("{head}{rest}"));
        };
        let code = match paint {
            Paint::Red => 31,
            Paint::Green => 32,
            Paint::Yellow => 33,
            Paint::Magenta => 35,
            Paint::Grey => 90,
        };
        let (head, rest) = (head.to_string(), rest.to_string());
        self.0
            .push_str(&format!("\x1b[{code}m{}\x1b[0m{}\n", shown(&head), shown(&rest)));
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Extend<Text> for Text {
    fn extend<I: IntoIterator<Item = Text>>(&mut self, texts: I) {
        texts.into_iter().for_each(|text| self.0.push_str(&text.0));
    }
}

impl FromIterator<Text> for Text {
    fn from_iter<I: IntoIterator<Item = Text>>(texts: I) -> Self {
        let mut all = Self::new();
        all.extend(texts);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_others_stay_on_their_line() {
        let forged = "x\nsigned   by key 00, as demanded\r\x1b[2K";
        let mut text = Text::of("head");
        text.line(format_args!("  reason {forged}"));
        text.painted(Some(Paint::Red), forged, forged);
        assert_eq!(text.lines().count(), 3, "{text:?}");
        assert_eq!(text.matches('\x1b').count(), 2, "only our own colours: {text:?}");
        text.block("  ", forged);
        assert!(!text.lines().any(|line| line.starts_with("signed")), "{text:?}");
    }

    #[test]
    fn message_indents_its_further_lines() {
        assert_eq!(&*Text::message("one"), "one\n");
        assert_eq!(&*Text::message("one\ntwo\n"), "one\n    two\n");
    }
}
