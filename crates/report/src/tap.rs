//! The Test Anything Protocol, limited to the features that versions 13 and 14 share.

use verbatim_record::{Outcome, Verdict};
use verbatim_text::shown;

use crate::input::{Reported, explanation, in_words};

/// Renders a run as TAP: one test point per test. A test point that did not pass has its verdict as a YAML block.
///
/// The output declares version 13, which readers of version 14 accept as well. Perl's reader (as of 5.36) rejects
/// version 14.
///
/// FAIL, INCONCLUSIVE and ERROR become `not ok`. NOT_APPLICABLE and SKIPPED become `ok … # SKIP` with the reason. If
/// known deviations are tolerated and explain all findings of a test, the test becomes `not ok … # TODO`, which readers
/// count as a success.
#[must_use]
pub fn tap(of: &Reported<'_>) -> String {
    let mut out = format!("TAP version 13\n# {}\n1..{}\n", line(&of.summary()), of.verdicts.len());
    for (number, verdict) in (1..).zip(of.verdicts) {
        let is_tolerated = of.is_tolerated(&verdict.test);
        out.push_str(&point(of, number, verdict, is_tolerated));
        if let Some(as_recorded) = of.as_recorded(&verdict.test) {
            out.push_str(&format!("# {}\n", line(&as_recorded)));
        }
        for known in of.known.iter().filter(|known| known.test == verdict.test) {
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
    // A YAML literal block accepts any indented text.
    let text: String = explanation(verdict)
        .lines()
        .map(|line| format!("    {line}\n"))
        .collect();
    let todo = if is_tolerated { " # TODO known deviation" } else { "" };
    format!(
        "not ok {number} - {test}{todo}\n  ---\n  outcome: {outcome}\n  cause: {}\n  again: {}\n  message: |\n{text}  ...\n",
        verdict.cause(),
        yaml(&of.again(&verdict.test)),
    )
}

/// Renders a run as KTAP, version 1, for the kernel's kselftest and kunit.py: the plan first, then one result per test.
/// Lines of explanation come before the result that they explain.
///
/// FAIL, INCONCLUSIVE and ERROR become `not ok`. NOT_APPLICABLE and SKIPPED become `ok … # SKIP` with the reason. If
/// known deviations are tolerated and explain all findings of a test, the test becomes `ok … # XFAIL`.
#[must_use]
pub fn ktap(of: &Reported<'_>) -> String {
    let mut out = format!("KTAP version 1\n1..{}\n", of.verdicts.len());
    for (number, verdict) in (1..).zip(of.verdicts) {
        let (outcome, test) = (verdict.outcome(), line(&verdict.test).replace('#', ""));
        let reason = line(&verdict.reason);
        let result = match outcome {
            Outcome::Pass => format!("ok {number} {test}"),
            Outcome::NotApplicable | Outcome::Skipped | Outcome::Unspecified => {
                format!("ok {number} {test} # SKIP {outcome}: {reason}")
            }
            Outcome::Fail | Outcome::Inconclusive | Outcome::Error => {
                out.extend(explanation(verdict).lines().map(|text| format!("# {}\n", line(text))));
                out.push_str(&format!("# again: {}\n", line(&of.again(&verdict.test))));
                match of.is_tolerated(&verdict.test) {
                    true => format!("ok {number} {test} # XFAIL known deviation"),
                    false => format!("not ok {number} {test} # {outcome}"),
                }
            }
        };
        out.push_str(&result);
        out.push('\n');
    }
    out
}

/// Formats text as a single-quoted YAML scalar.
fn yaml(text: &str) -> String {
    format!("'{}'", line(text).replace('\'', "''"))
}

/// Joins text into one line.
fn line(text: &str) -> String {
    shown(&text.split_whitespace().collect::<Vec<_>>().join(" ")).into_owned()
}

/// Escapes `\` and `#`. An unescaped `#` would begin a directive.
fn escaped(text: &str) -> String {
    line(text).replace('\\', "\\\\").replace('#', "\\#")
}
