//! Explains findings with the fields of their evidence.

use verbatim_record::{Cause, Entry};
use verbatim_record_proto::v1::Check;
use verbatim_text::Text;

use crate::fields::detail;
use crate::input::{Reported, title};
use crate::ladder;

/// Returns findings as text. The text of a finding has the catalogue's wording of the statement, the expected and the
/// seen value, and each packet of the evidence with its fields and bytes. `test`, `statement` and `number` select
/// findings; `number` counts a test's findings from 1. The text is empty if no finding matches.
#[must_use]
pub fn explain(reported: &Reported<'_>, test: Option<&str>, statement: Option<&str>, number: Option<usize>) -> Text {
    let mut out = Text::new();
    for verdict in reported.verdicts {
        if test.is_some_and(|test| test != verdict.test) {
            continue;
        }
        let record = reported
            .record(&verdict.test)
            .map_or(&[][..], |record| &record.evidence);
        for (place, check) in (1..).zip(&verdict.findings) {
            if statement.is_some_and(|statement| statement != check.statement)
                || number.is_some_and(|number| number != place)
            {
                continue;
            }
            out.line(format_args!("{} {}#{place}", verdict.outcome(), verdict.test));
            out.extend([one(check, record)]);
            out.line(format_args!("  again: {}", reported.again(&verdict.test)));
            out.line("");
        }
    }
    out
}

/// Explains the verdict of a test without findings: the reason, the passed checks and the procedure's progress. Returns
/// `None` if the test has findings or is not part of the run.
#[must_use]
pub fn explain_verdict(reported: &Reported<'_>, test: &str) -> Option<Text> {
    let verdict = reported.verdicts.iter().find(|verdict| verdict.test == test)?;
    if !verdict.findings.is_empty() {
        return None;
    }
    let cause = match verdict.cause() {
        Cause::Unspecified => String::new(),
        cause => format!(", cause {cause}"),
    };
    let mut out = Text::of(format_args!("{} {test}{cause}", verdict.outcome()));
    if !verdict.reason.is_empty() {
        out.line(format_args!("  reason:   {}", verdict.reason));
    }
    let mut looked_at: Vec<(String, usize)> = Vec::new();
    for check in &verdict.passed {
        let words = format!("{} {}: {}", check.statement, check.about, check.seen);
        match looked_at.iter_mut().find(|(known, _)| *known == words) {
            Some((_, count)) => *count += 1,
            None => looked_at.push((words, 1)),
        }
    }
    for (words, count) in looked_at {
        let times = if count > 1 {
            format!(" ({count} times)")
        } else {
            String::new()
        };
        out.line(format_args!("  passed:   {words}{times}"));
    }
    for seen in &verdict.observations {
        out.line(format_args!("  observed: {}", seen.text));
    }
    match reported.record(test) {
        Some(record) => out.line(format_args!("  reached:  {}", record.reached.in_words())),
        None => out.line("  reached:  nothing: the test did not begin"),
    }
    out.line(format_args!("  again: {}", reported.again(test)));
    Some(out)
}

fn one(check: &Check, record: &[Entry]) -> Text {
    let mut out = Text::of(format_args!("  {} {}", check.statement, title(&check.statement)));
    if let Some(statement) = verbatim_catalog::statement(&check.statement) {
        out.line(format_args!("  demands:  {}", statement.about));
        out.line(format_args!("  source:   {}", statement.source));
    }
    out.line(format_args!("  about:    {}", check.about));
    out.line(format_args!("  expected: {}", check.expected));
    out.line(format_args!("  seen:     {}", check.seen));
    for given in &check.given {
        out.line(format_args!("  given:    {given}"));
    }
    if let Some(cause) = check.follows_from {
        out.line(format_args!("  follows from finding #{}", u64::from(cause) + 1));
    }
    let rungs = ladder::of(record, &check.exchanges, &check.frames);
    if rungs.is_empty() {
        // Completions and measured times have no packets, so their evidence is printed as text.
        for words in &check.evidence {
            out.line("");
            out.line(format_args!("  {words}"));
        }
    }
    for (entry, rung) in rungs {
        out.line("");
        out.line(format_args!("  {} {} {}", rung.at, rung.way.words(), rung.what));
        out.block("    ", detail(entry).trim_end());
    }
    out
}
