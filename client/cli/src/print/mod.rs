//! Output for users and programs.

pub(crate) mod counter;
pub(crate) mod document;
mod explained;
pub(crate) mod history;
mod pace;
pub(crate) mod progress;
pub(crate) mod tables;

use std::io::{self, IsTerminal, Write};

use anyhow::Context;
use serde::Serialize;
use verbatim_client::v1::{Cause, Outcome, Verdict};
use verbatim_run::Report;
use verbatim_text::{Paint, Text, shown_json};

pub(crate) use explained::{Telling, explanation};
pub(crate) use pace::words as duration_words;
pub(crate) use verbatim_report::{counted, plural};
pub(crate) use verbatim_text::say as note;

/// Prints a JSON document on stdout.
pub(crate) fn json<T: Serialize>(document: &T) -> anyhow::Result<()> {
    let document = serde_json::to_string_pretty(document)?;
    document_of_another_form(&(shown_json(document) + "\n"))
}

/// Prints text on stdout. A closed pipe is an error, which ends the program without a message.
pub(crate) fn text(text: &Text) -> anyhow::Result<()> {
    document_of_another_form(text)
}

/// Prints a document that is no [`Text`], such as a report. The document must have escapes for hidden characters.
#[expect(clippy::disallowed_methods, reason = "a place for output that was made harmless")]
pub(crate) fn document_of_another_form(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.context("cannot write to stdout")
}

/// Returns whether stdout is a terminal.
#[expect(clippy::disallowed_methods, reason = "writes nothing")]
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Returns whether stderr is a terminal.
#[expect(clippy::disallowed_methods, reason = "writes nothing")]
pub(crate) fn has_terminal_for_messages() -> bool {
    io::stderr().is_terminal()
}

/// Ignores the error of a closed pipe, so that the exit code is that of the verdicts.
pub(crate) fn unless_closed(printed: anyhow::Result<()>) -> anyhow::Result<()> {
    printed.or_else(|error| if is_closed_pipe(&error) { Ok(()) } else { Err(error) })
}

/// Prints the text of a command that ends with the exit code of its verdicts. Unlike [`text`], ignores a closed pipe.
pub(crate) fn text_of_run(words: &Text) -> anyhow::Result<()> {
    unless_closed(text(words))
}

/// Returns whether an error is a closed stdout pipe.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|io| io.kind() == io::ErrorKind::BrokenPipe)
}

/// Returns whether output on stdout is coloured: only on a terminal, and not if NO_COLOR is set.
pub(crate) fn colours() -> bool {
    is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn paint(outcome: Outcome) -> Option<Paint> {
    let paint = match outcome {
        Outcome::Pass => Paint::Green,
        Outcome::Fail => Paint::Red,
        Outcome::Error => Paint::Magenta,
        Outcome::Inconclusive => Paint::Yellow,
        Outcome::NotApplicable | Outcome::Skipped | Outcome::Unspecified => Paint::Grey,
    };
    colours().then_some(paint)
}

/// Returns the line for a test.
pub(crate) fn line(verdict: &Verdict, end: &str) -> Text {
    // The end of the run explains the other outcomes in full.
    let reason = match is_explained(verdict) {
        true => shortened(&verdict.reason, 110),
        false => verdict.reason.clone(),
    };
    let why = match verdict.cause() {
        _ if reason.is_empty() => String::new(),
        Cause::Unspecified => format!("  {reason}"),
        cause => format!("  [{cause}] {reason}"),
    };
    let mut text = Text::new();
    let head = format!("{:<14}", verdict.outcome());
    let rest = format!(" {:<34}{why}", verdict.test);
    text.painted(paint(verdict.outcome()), head, format_args!("{}{end}", rest.trim_end()));
    text
}

/// Returns the width of the terminal in columns; None if stdout is no terminal.
pub(crate) fn columns() -> Option<usize> {
    let terminal = console::Term::stdout();
    terminal.size_checked().map(|(_, columns)| usize::from(columns))
}

fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.into();
    }
    text.chars().take(most - 3).chain("...".chars()).collect()
}

/// Returns whether the text at the end of a run explains this verdict.
pub(crate) fn is_explained(verdict: &Verdict) -> bool {
    matches!(
        verdict.outcome(),
        Outcome::Fail | Outcome::Error | Outcome::Inconclusive
    )
}

/// Returns the passed checks, one per line. Equal lines appear once with their count.
pub(crate) fn checked(verdict: &Verdict) -> Text {
    let mut lines: Vec<(String, usize)> = Vec::new();
    for check in &verdict.passed {
        let line = format!("{} {}: {}", check.statement, check.about, check.seen);
        match lines.iter_mut().find(|(known, _)| *known == line) {
            Some((_, count)) => *count += 1,
            None => lines.push((line, 1)),
        }
    }
    lines
        .into_iter()
        .map(|(line, count)| match count {
            1 => Text::of(format_args!("    {line}")),
            _ => Text::of(format_args!("    {line} ({count} times)")),
        })
        .collect()
}

/// Returns the explanation and the summary of a run in this process.
pub(crate) fn run_ends(report: &Report, telling: &Telling) -> Text {
    let mut text = explanation(report, telling);
    text.line("");
    text.line(summary(report));
    text
}

/// Returns the explanation and the summary of a run at a daemon, in the form of [`run_ends`].
pub(crate) fn end(ended: &document::Ended, place: &str, telling: &Telling) -> Text {
    let mut text = explanation(&ended.report, telling);
    if !ended.reason.is_empty() {
        let outcome = ended.worst.unwrap_or(Outcome::Error);
        text.line("");
        text.painted(paint(outcome), format_args!("{outcome} of the run"), "");
        text.block("  ", &ended.reason);
    }
    text.line("");
    text.line(summary_with(&ended.report, place));
    text
}

/// Prints a JSON document on one line of stdout.
pub(crate) fn json_line<T: Serialize>(document: &T) -> anyhow::Result<()> {
    let document = serde_json::to_string(document)?;
    document_of_another_form(&(shown_json(document) + "\n"))
}

/// Returns the summary of a run in one line, with the place of its record.
pub(crate) fn summary(report: &Report) -> String {
    let record = report.run.record.as_ref();
    let place = record.map_or_else(String::new, |path| format!("; record in {path}"));
    summary_with(report, &place)
}

/// Prints to stderr which verdicts differ from those of the run, and which tests this version could not judge again.
pub(crate) fn judged_otherwise(report: &Report, drift: &[String]) {
    for difference in drift {
        note(format_args!(
            "verbatim: the verdict differs from that of the run: {difference}"
        ));
    }
    for (test, why) in &report.not_judged_anew {
        note(format_args!("verbatim: not judged anew: {test}: {why}"));
    }
}

/// Counts the tests with this outcome that known deviations explain.
fn known(report: &Report, outcome: Outcome) -> usize {
    let of_it = |verdict: &&Verdict| verdict.outcome() == outcome && report.is_known(&verdict.test);
    report.verdicts.iter().filter(of_it).count()
}

/// Returns the summary of a run in one line; `place` is appended.
pub(crate) fn summary_with(report: &Report, place: &str) -> String {
    let count = |outcome| {
        report
            .verdicts
            .iter()
            .filter(|verdict| verdict.outcome() == outcome)
            .count()
    };
    let parts: Vec<String> = [
        (Outcome::Pass, "passed"),
        (Outcome::Fail, "failed"),
        (Outcome::Error, plural(count(Outcome::Error) as u64, "error", "errors")),
        (Outcome::Inconclusive, "inconclusive"),
        (Outcome::NotApplicable, "not applicable"),
        (Outcome::Skipped, "skipped"),
    ]
    .into_iter()
    .filter(|(outcome, _)| count(*outcome) > 0)
    .map(|(outcome, words)| {
        let of_it = count(outcome);
        match known(report, outcome) {
            0 => format!("{of_it} {words}"),
            // A known deviation does not change the outcome.
            all if all == of_it => format!("{of_it} {words}, all known"),
            some => format!("{of_it} {words}, {some} of them known"),
        }
    })
    .collect();
    let counts = if parts.is_empty() {
        "nothing judged".into()
    } else {
        parts.join(", ")
    };
    let as_recorded = match report.not_judged_anew.len() {
        0 => String::new(),
        count => format!("; {count} as recorded, not judged anew"),
    };
    format!(
        "{} on {}, seed {}: {counts}{as_recorded}{place}",
        counted(report.verdicts.len() as u64, "test", "tests"),
        report.run.rig,
        report.run.seed,
    )
}
