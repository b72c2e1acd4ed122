//! Markdown for merge requests and tickets.

use verbatim_record::{Outcome, Verdict};

use crate::input::{Reported, explanation, in_words};

/// Renders a run as Markdown: a summary, a table of the tests, and an explanation of each test that did not pass.
#[must_use]
pub fn markdown(of: &Reported<'_>) -> String {
    let run = of.run;
    let mut out = format!(
        "# {} on {}\n\n{}.\n\nRun `{}` on {}, began {}, catalogue {}.\n\n| Test | Outcome | Cause | Reason |\n|---|---|---|---|\n",
        run.outcome(),
        cell(&run.rig),
        cell(&of.summary()),
        run.id,
        cell(&run.host),
        of.started(),
        run.catalogue,
    );
    for verdict in of.verdicts {
        let cause = match verdict.outcome() {
            Outcome::Pass => String::new(),
            _ => verdict.cause().to_string(),
        };
        out.push_str(&format!(
            "| `{}` | {} | {cause} | {} |\n",
            verdict.test,
            verdict.outcome(),
            cell(&verdict.reason)
        ));
    }
    if !of.not_judged_anew.is_empty() {
        out.push_str("\n## Not judged anew\n\n");
        let of_test = |(test, why): (&String, &String)| format!("- `{test}`: {}\n", cell(why));
        out.extend(of.not_judged_anew.iter().map(of_test));
    }
    let known = of.deviations();
    if !known.is_empty() {
        out.push_str("\n## Known deviations of such devices, which change no verdict\n\n");
        out.extend(known.iter().map(|known| format!("- {}\n", cell(&in_words(known)))));
    }
    for verdict in of.verdicts {
        if matches!(
            verdict.outcome(),
            Outcome::Fail | Outcome::Inconclusive | Outcome::Error
        ) {
            out.push_str(&section(of, verdict));
        }
    }
    let observed: Vec<String> = of
        .verdicts
        .iter()
        .flat_map(|verdict| {
            let of_test = |seen: &str| format!("- `{}`: {}\n", verdict.test, cell(seen));
            verdict.observations.iter().map(move |seen| of_test(&seen.text))
        })
        .collect();
    if !observed.is_empty() {
        out.push_str("\n## Observations, which decide nothing\n\n");
        out.extend(observed);
    }
    out
}

fn section(of: &Reported<'_>, verdict: &Verdict) -> String {
    let fence = fence(&explanation(verdict));
    format!(
        "\n## {} {}\n\n{fence}text\n{}{fence}\n\nAgain: `{}`\n",
        verdict.outcome(),
        verdict.test,
        explanation(verdict),
        of.again(&verdict.test)
    )
}

/// Returns a fence with more backticks than any sequence in the text.
fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
}

/// Escapes text within a line or table cell, so that Markdown shows it literally.
fn cell(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' => out.push(' '),
            '|' | '*' | '_' | '`' | '<' | '>' | '[' | ']' | '\\' => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
    out
}
