//! Added lines of a diff, and what is wrong with them: lines over the width, and sentences that are hard to read.

/// Greatest number of columns of a line, as in rustfmt.toml.
pub(crate) const WIDTH: usize = 120;
/// Endings of the files whose lines are checked.
const TEXTS: [&str; 7] = ["rs", "py", "md", "toml", "proto", "c", "sh"];
/// Longest sentence of a comment that passes without a remark, in words.
const WORDS: usize = 30;
/// First words of sentences whose subject is unnamed.
const RIDDLES: [&str; 6] = ["What", "Whoever", "Whatever", "Whichever", "Nobody", "Whyever"];

/// An added line with its place.
#[derive(Debug)]
struct Added<'d> {
    file: &'d str,
    number: usize,
    text: &'d str,
}

/// Returns the added lines of a diff without context lines.
fn added(diff: &str) -> Vec<Added<'_>> {
    let (mut file, mut number, mut added) = ("", 0_usize, Vec::new());
    for line in diff.lines() {
        if let Some(name) = line.strip_prefix("+++ ") {
            file = name.trim_start_matches("b/");
        } else if let Some(place) = line.strip_prefix("@@ ") {
            let first = place.split('+').nth(1).unwrap_or_default();
            let first = first.split([',', ' ']).next();
            number = first.and_then(|first| first.parse().ok()).unwrap_or(0);
        } else if let Some(text) = line.strip_prefix('+') {
            if file.rsplit('.').next().is_some_and(|end| TEXTS.contains(&end)) {
                added.push(Added { file, number, text });
            }
            number += 1;
        }
    }
    added
}

/// Returns the added lines that are too wide, as file, line and columns. Tables and lines with a URL may be wide.
pub(crate) fn wide(diff: &str) -> Vec<String> {
    let lines = added(diff).into_iter().filter_map(|line| {
        let columns = line.text.chars().count();
        let may_be_wide = line.text.starts_with('|') || line.text.contains("://");
        (columns > WIDTH && !may_be_wide).then(|| format!("{}:{}: {columns}", line.file, line.number))
    });
    lines.collect()
}

/// Returns the added comment sentences that begin with a riddle or are too long, as file, line and reason.
pub(crate) fn riddles(diff: &str) -> Vec<String> {
    let mut riddles = Vec::new();
    // Sentences run over several lines of one comment.
    let mut sentence: Vec<&str> = Vec::new();
    let mut next = ("", 0);
    for line in added(diff) {
        let comment = comment(line.file, line.text);
        if (line.file, line.number) != next || comment.is_none_or(begins_anew) {
            sentence.clear();
        }
        next = (line.file, line.number + 1);
        for word in comment.unwrap_or_default().split_whitespace() {
            let place = format!("{}:{}", line.file, line.number);
            if sentence.is_empty() && RIDDLES.contains(&word.trim_end_matches([',', '.'])) {
                riddles.push(format!("{place}: a sentence that begins with {word:?}"));
            }
            sentence.push(word);
            if sentence.len() == WORDS + 1 {
                riddles.push(format!("{place}: a sentence of more than {WORDS} words"));
            }
            if word
                .trim_end_matches([')', '"', '`', '*'])
                .ends_with(['.', ':', ';', '?', '!'])
            {
                sentence.clear();
            }
        }
    }
    riddles
}

/// Returns the text of a line that is a comment, or of any line of a page.
fn comment<'t>(file: &str, line: &'t str) -> Option<&'t str> {
    let line = line.trim_start();
    if file.ends_with(".md") {
        return Some(line);
    }
    let marks: &[&str] = match file.rsplit('.').next() {
        Some("rs" | "proto" | "c") => &["///", "//!", "//"],
        _ => &["#"],
    };
    marks.iter().find_map(|mark| line.strip_prefix(mark)).map(str::trim)
}

/// Returns whether a line cannot continue a sentence: an empty line, a heading, a list item or a table row.
fn begins_anew(text: &str) -> bool {
    text.is_empty() || text.starts_with(['#', '-', '*', '|', '`'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_lines_are_named_with_their_place() {
        let long = "x".repeat(121);
        let table = format!("|{long}");
        let diff = format!(
            "+++ b/a.rs\n@@ -3,2 +7,3 @@ fn a\n+short\n+{long}\n-{long}\n+{table}\n+++ b/a.bin\n@@ -1 +1 @@\n+{long}\n"
        );
        assert_eq!(wide(&diff), ["a.rs:8: 121"]);
    }

    #[test]
    fn riddles_are_named_with_their_place() {
        let long = "word ".repeat(20);
        let lines = ["/// What is lost comes again.", "let what = 1;", "// Sent. Whoever"];
        let diff = format!(
            "+++ b/a.rs\n@@ -0,0 +1,5 @@\n+{}\n+// {long}\n+// {long}\n",
            lines.join("\n+")
        );
        assert_eq!(
            riddles(&diff),
            [
                "a.rs:1: a sentence that begins with \"What\"",
                "a.rs:3: a sentence that begins with \"Whoever\"",
                "a.rs:5: a sentence of more than 30 words",
            ]
        );
    }

    #[test]
    fn list_items_are_sentences_of_their_own() {
        let item = "word ".repeat(16);
        let diff = format!("+++ b/a.md\n@@ -0,0 +1,2 @@\n+- {item}\n+- {item}\n");
        assert!(riddles(&diff).is_empty());
    }
}
