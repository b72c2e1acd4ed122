//! The Test Anything Protocol, in what versions 13 and 14 have in common.

use verbatim_record::{Outcome, Verdict};

use crate::told::{Reported, explanation, in_words};

/// A run in TAP: a point for each test, with its verdict as a YAML block where it is no pass.
///
/// It calls itself version 13, which readers of 14 take as well: perl's, as of 5.36, refuse a 14.
///
/// What did not pass is `not ok`, INCONCLUSIVE and ERROR too; what could not be run is `ok … # SKIP` with the reason.
/// A known deviation is `not ok … # TODO` where these are tolerated: readers count it as a success.
#[must_use]
pub fn tap(of: &Reported<'_>) -> String {
    let mut out = format!("TAP version 13\n# {}\n1..{}\n", line(&of.summary()), of.verdicts.len());
    let known = of.deviations();
    for (number, verdict) in (1..).zip(of.verdicts) {
        let is_tolerated = of.is_tolerated(&verdict.test, &known);
        out.push_str(&point(of, number, verdict, is_tolerated));
        if let Some(as_recorded) = of.as_recorded(&verdict.test) {
            out.push_str(&format!("# {}\n", line(&as_recorded)));
        }
        for known in known.iter().filter(|known| known.test == verdict.test) {
            out.push_str(&format!("# {}\n", line(&in_words(known))));
        }
    }
    out
}

fn point(of: &Reported<'_>, number: usize, verdict: &Verdict, is_tolerated: bool) -> String {
    let (outcome, test) = (verdict.outcome(), escaped(&verdict.test));
    match outcome {
        Outcome::Pass => return format!("ok {number} - {test}\n"),
        Outcome::NotApplicable | Outcome::Skipped | Outcome::Unspecified => {
            return format!("ok {number} - {test} # SKIP {outcome}: {}\n", line(&verdict.reason));
        }
        Outcome::Fail | Outcome::Inconclusive | Outcome::Error => {}
    }
    // A literal block takes any text that is indented.
    let text: String = explanation(verdict)
        .lines()
        .map(|line| format!("    {}\n", shown(line)))
        .collect();
    let todo = if is_tolerated { " # TODO known deviation" } else { "" };
    format!(
        "not ok {number} - {test}{todo}\n  ---\n  outcome: {outcome}\n  cause: {}\n  again: {}\n  message: |\n{text}  ...\n",
        verdict.cause(),
        yaml(&of.again(&verdict.test)),
    )
}

/// A text as a YAML scalar in quotes.
fn yaml(text: &str) -> String {
    format!("'{}'", line(text).replace('\'', "''"))
}

/// One line: what breaks lines becomes a blank.
fn line(text: &str) -> String {
    shown(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Without what some reader or terminal takes for a command or for the end of a line.
fn shown(line: &str) -> String {
    let ends_or_commands = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    line.replace(ends_or_commands, "\u{FFFD}")
}

/// In a description `#` would begin a directive.
fn escaped(text: &str) -> String {
    line(text).replace('\\', "\\\\").replace('#', "\\#")
}
