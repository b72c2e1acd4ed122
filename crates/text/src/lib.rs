//! Foreign text in the output of our programs, such as text of a device, a bundle or a daemon. Each medium has a type:
//! [`Text`] for a terminal or a log, [`Markdown`], and [`Command`] for a shell. These types show a foreign string
//! visibly. The string cannot begin a line, send a command to a terminal, or reorder the text beside it.

mod command;
mod markdown;
mod terminal;

use std::borrow::Cow;
use std::error::Error;
use std::fmt::Display;

pub use command::{Command, quoted};
pub use markdown::Markdown;
pub use terminal::{Paint, Text};

/// Returns whether a character is hidden: a control, a line separator, a mark of direction, or a character without
/// width or glyph.
fn is_hidden(c: char) -> bool {
    !matches!(c, ' '..='~') && c.escape_debug().len() > 1
}

/// Returns a text on one line, in which each hidden character is an escape such as `\n` or `\u{1b}`.
#[must_use]
pub fn shown(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_hidden(c) {
            out.extend(c.escape_debug());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Formats an error with its causes. Omits a cause whose text is already in the message.
#[must_use]
pub fn in_words(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(of) = cause {
        let text = of.to_string();
        if !words.contains(&text) {
            words = format!("{words}: {text}");
        }
        cause = of.source();
    }
    words
}

/// Cuts a text to `most` bytes, which include a visible mark.
pub fn cut(text: &mut String, most: usize) {
    let length = text.len();
    if length <= most {
        return;
    }
    let mark = format!("… (cut, {length} bytes)");
    let mut end = most.saturating_sub(mark.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text.push_str(&mark);
    text.shrink_to_fit();
}

/// Prints a message on stderr. Ignores an error, because the reader of stderr may have exited.
pub fn say(words: impl Display) {
    Text::message(words).say();
}

/// Returns a text as [`shown`] does, but keeps the ends of its lines.
#[must_use]
pub fn shown_lines(text: &str) -> Cow<'_, str> {
    if text.contains(|c| c != '\n' && is_hidden(c)) {
        let lines: Vec<_> = text.split('\n').map(shown).collect();
        return Cow::Owned(lines.join("\n"));
    }
    Cow::Borrowed(text)
}

/// Returns a JSON document with the same value, in which each hidden character is an escape of JSON. Keeps the
/// document's ends of lines.
#[must_use]
pub fn shown_json(document: String) -> String {
    if !document.contains(|c| c != '\n' && is_hidden(c)) {
        return document;
    }
    let mut out = String::with_capacity(document.len() + 16);
    for c in document.chars() {
        if c != '\n' && is_hidden(c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_cause_is_printed_once() {
        #[derive(Debug)]
        struct Outer(&'static str, std::io::Error);
        impl Display for Outer {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.0)
            }
        }
        impl Error for Outer {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(&self.1)
            }
        }
        let cause = || std::io::Error::other("the disk is full");
        assert_eq!(
            in_words(&Outer("cannot write", cause())),
            "cannot write: the disk is full"
        );
        let telling = "cannot write (the disk is full)";
        assert_eq!(in_words(&Outer(telling, cause())), telling);
    }

    #[test]
    fn cut_text_says_so_and_keeps_whole_characters() {
        let mut of = "é".repeat(10 << 20);
        cut(&mut of, 256);
        assert!(of.len() <= 256 && of.ends_with("é… (cut, 20971520 bytes)"), "{of}");
        let mut of = "x".repeat(256);
        cut(&mut of, 256);
        assert_eq!(of, "x".repeat(256));
    }

    /// Text with every kind of hidden character.
    const HOSTILE: &str = "a\u{1b}[2K\r\nb\u{9b}31m\u{202e}c\u{2028}\u{7f}\u{200b}\u{feff}\u{2066}é漢\\n";

    #[test]
    fn escapes_control_characters() {
        let text = shown(HOSTILE);
        assert_eq!(
            text,
            "a\\u{1b}[2K\\r\\nb\\u{9b}31m\\u{202e}c\\u{2028}\\u{7f}\\u{200b}\\u{feff}\\u{2066}é漢\\n"
        );
        assert!(matches!(shown("it's \"plain\" \\ …"), Cow::Borrowed(_)));
        assert_eq!(shown_lines("a\nb\u{1b}\n"), "a\nb\\u{1b}\n");
    }

    #[test]
    fn json_keeps_its_value() {
        // serde_json escapes only the first 32 characters.
        let text = shown_json("{\n  \"a\": \"x\\n\u{7f}\u{9b}\u{202e}\u{e0001}é\"\n}".into());
        assert_eq!(text, "{\n  \"a\": \"x\\n\\u007f\\u009b\\u202e\\udb40\\udc01é\"\n}");
    }
}
