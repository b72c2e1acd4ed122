//! Markdown, as GitHub and GitLab render it.

use std::fmt::Display;

use crate::{shown, shown_lines};

/// A Markdown document. Only [`Markdown::own`] adds markup.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Markdown(String);

impl Markdown {
    /// Returns an empty document.
    #[must_use]
    pub const fn new() -> Self {
        Self(String::new())
    }

    /// Adds markup of our own.
    pub fn own(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Adds text within a line or a table's cell, which Markdown shows literally.
    pub fn text(&mut self, text: impl Display) -> &mut Self {
        let text = text.to_string().replace(['\n', '\r'], " ");
        for c in shown(&text).chars() {
            if matches!(
                c,
                '|' | '*' | '_' | '`' | '<' | '>' | '[' | ']' | '\\' | '&' | '~' | '@'
            ) {
                self.0.push('\\');
            }
            self.0.push(c);
        }
        self
    }

    /// Adds code within a line or a table's cell.
    pub fn code(&mut self, code: impl Display) -> &mut Self {
        // A bar ends a cell even within code, unless a backslash is before it.
        let code = shown(&code.to_string()).replace('|', "\\|");
        let fence = fence(&code, 0);
        let edge = if code.starts_with('`') || code.ends_with('`') {
            " "
        } else {
            ""
        };
        self.0.push_str(&format!("{fence}{edge}{code}{edge}{fence}"));
        self
    }

    /// Adds a block of plain text.
    pub fn block(&mut self, text: &str) -> &mut Self {
        let text = shown_lines(text.trim_end_matches('\n'));
        let fence = fence(&text, 2);
        self.0.push_str(&format!("{fence}text\n{text}\n{fence}\n"));
        self
    }

    /// Returns the document.
    #[must_use]
    pub fn finish(self) -> String {
        self.0
    }
}

/// Returns a fence of more backticks than any sequence in the text, and of more than `least`.
fn fence(text: &str, least: usize) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.max(least) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_has_no_markup() {
        let hostile = "<script>x</script>\n| `forged` | **PASS** | [a](http://b) &lt; @all";
        let mut document = Markdown::new();
        document.own("| ").text(hostile).own(" | ").code(hostile).own(" |\n");
        let document = document.finish();
        assert_eq!(document.lines().count(), 1, "{document}");
        assert_eq!(document.replace("\\|", "").matches('|').count(), 3, "{document}");
        assert!(
            document.starts_with("| \\<script\\>x\\</script\\> \\| \\`forged\\`"),
            "{document}"
        );
        assert!(document.contains("``<script>x</script>\\n\\| `forged`"), "{document}");
    }

    #[test]
    fn block_ends_at_its_own_fence() {
        let mut document = Markdown::new();
        document.block("a\n```\n<script>\u{1b}\n");
        assert_eq!(document.finish(), "````text\na\n```\n<script>\\u{1b}\n````\n");
    }
}
