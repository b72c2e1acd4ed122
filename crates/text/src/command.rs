//! Commands that a user may copy into a shell.

use std::collections::BTreeSet;
use std::fmt::{self, Display};

use crate::is_hidden;

/// A command line for a shell. Only the words of [`Command::new`] and [`Command::own`] have a meaning for the shell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Command(String);

impl Command {
    /// Begins a command with our own words.
    #[must_use]
    pub fn new(own: &'static str) -> Self {
        Self(own.into())
    }

    /// Adds our own words.
    #[must_use]
    pub fn own(mut self, own: &'static str) -> Self {
        self.0.push(' ');
        self.0.push_str(own);
        self
    }

    /// Adds a word, quoted if needed.
    #[must_use]
    pub fn word(mut self, word: impl Display) -> Self {
        self.0.push(' ');
        self.0.push_str(&quoted(&word.to_string()));
        self
    }

    /// Adds those options of a stored command that `is_allowed` accepts with their values, and returns the names of
    /// the others. Returns `None` if the stored command has anything except pairs of an option and a value.
    #[must_use]
    pub fn options(
        mut self,
        stored: &str,
        is_allowed: impl Fn(&str, &str) -> bool,
    ) -> Option<(Self, BTreeSet<String>)> {
        let words = words(stored)?;
        let mut left_out = BTreeSet::new();
        for pair in words.chunks(2) {
            let [option, value] = pair else { return None };
            if !option.starts_with('-') || value.starts_with('-') {
                return None;
            }
            if is_allowed(option, value) {
                self = self.word(option).word(value);
            } else {
                left_out.insert(option.clone());
            }
        }
        Some((self, left_out))
    }
}

impl Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Quotes a word for a shell, if needed.
#[must_use]
pub fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=./,:".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.into();
    }
    if !word.contains(is_hidden) {
        return format!("'{}'", word.replace('\'', r"'\''"));
    }
    // The form of bash, zsh and POSIX 2024, so that the line shows each character.
    let mut out = String::from("$'");
    for c in word.chars() {
        match c {
            '\'' | '\\' => out.extend(['\\', c]),
            c if is_hidden(c) => {
                let mut bytes = [0; 4];
                let bytes = c.encode_utf8(&mut bytes).bytes();
                bytes.for_each(|byte| out.push_str(&format!("\\x{byte:02x}")));
            }
            c => out.push(c),
        }
    }
    out.push('\'');
    out
}

/// Splits a line at the blanks outside of quotes, as a shell does. Returns `None` if a quote is open at the end.
fn words(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word) = (Vec::new(), None::<String>);
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        match c {
            ' ' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(rest.next()?),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_sees_one_word() {
        for word in [
            "a b",
            "$(id)",
            "`id`",
            ";id",
            "it's",
            "",
            "a\nid",
            "\u{202e}x",
            "\\'\n",
            "é",
        ] {
            let line = Command::new("printf %s").word(word).to_string();
            let out = std::process::Command::new("bash").args(["-c", &line]).output().unwrap();
            assert_eq!(String::from_utf8(out.stdout).unwrap(), word, "{line}");
            assert!(!line.contains(is_hidden), "{line}");
        }
        assert_eq!(quoted("--rig-key=a/b,c:1.0_2"), "--rig-key=a/b,c:1.0_2");
    }

    #[test]
    fn stored_options_are_quoted_anew() {
        let known = |option: &str, value: &str| option == "--set" || (option, value) == ("--server", "none");
        let of = |stored: &str| {
            let (line, left_out) = Command::new("v").options(stored, known)?;
            let left_out: Vec<String> = left_out.into_iter().collect();
            Some((line.to_string(), left_out.join(" ")))
        };
        let both = |line: &str, left_out: &str| Some((line.to_owned(), left_out.to_owned()));
        assert_eq!(of(""), both("v", ""));
        let stored = r"--server none --set '/tmp/it'\''s mine'";
        assert_eq!(of(stored), both(&format!("v {stored}"), ""));
        assert_eq!(of("--set $(id)"), both("v --set '$(id)'", ""));
        let mixed = "--rig-key a=1 --server x --set b=1 --rig-key c=1";
        assert_eq!(of(mixed), both("v --set b=1", "--rig-key --server"));
        for hostile in [
            "; id",
            "--rig-file",
            "--rig-file 'a",
            "--rig-file --record",
            "x --server none",
        ] {
            assert_eq!(of(hostile), None, "{hostile}");
        }
    }
}
