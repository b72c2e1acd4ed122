//! Explains findings with the fields of their evidence.

use verbatim_record::{Cause, Entry};
use verbatim_record_proto::v1::Check;

use crate::fields::detail;
use crate::input::{Reported, title};
use crate::ladder::{self, Rung};

/// Returns findings as text. The text of a finding has the catalogue's wording of the statement, the expected and the
/// seen value, and each packet of the evidence with its fields and bytes. `test`, `statement` and `number` select
/// findings; `number` counts a test's findings from 1. The text is empty if no finding matches.
#[must_use]
pub fn explain(reported: &Reported<'_>, test: Option<&str>, statement: Option<&str>, number: Option<usize>) -> String {
    let mut out = String::new();
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
            out.push_str(&format!("{} {}#{place}\n", verdict.outcome(), verdict.test));
            out.push_str(&one(check, record));
            out.push_str(&format!("  again: {}\n\n", reported.again(&verdict.test)));
        }
    }
    out
}

/// Explains the verdict of a test without findings: the reason, the passed checks and the procedure's progress. Returns
/// `None` if the test has findings or is not part of the run.
#[must_use]
pub fn explain_verdict(reported: &Reported<'_>, test: &str) -> Option<String> {
    let verdict = reported.verdicts.iter().find(|verdict| verdict.test == test)?;
    if !verdict.findings.is_empty() {
        return None;
    }
    let cause = match verdict.cause() {
        Cause::Unspecified => String::new(),
        cause => format!(", cause {cause}"),
    };
    let mut out = format!("{} {test}{cause}\n", verdict.outcome());
    if !verdict.reason.is_empty() {
        out.push_str(&format!("  reason:   {}\n", verdict.reason));
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
        out.push_str(&format!("  passed:   {words}{times}\n"));
    }
    for seen in &verdict.observations {
        out.push_str(&format!("  observed: {}\n", seen.text));
    }
    match reported.record(test) {
        Some(record) => out.push_str(&format!("  reached:  {}\n", record.reached.in_words())),
        None => out.push_str("  reached:  nothing: the test did not begin\n"),
    }
    out.push_str(&format!("  again: {}\n", reported.again(test)));
    Some(out)
}

fn one(check: &Check, record: &[Entry]) -> String {
    let mut out = format!("  {} {}\n", check.statement, title(&check.statement));
    if let Some(statement) = verbatim_catalog::statement(&check.statement) {
        out.push_str(&format!(
            "  demands:  {}\n  source:   {}\n",
            statement.about, statement.source
        ));
    }
    out.push_str(&format!(
        "  about:    {}\n  expected: {}\n  seen:     {}\n",
        check.about, check.expected, check.seen
    ));
    for given in &check.given {
        out.push_str(&format!("  given:    {given}\n"));
    }
    if let Some(cause) = check.follows_from {
        out.push_str(&format!("  follows from finding #{}\n", cause + 1));
    }
    let rungs = ladder::of(record, &check.exchanges, &check.frames);
    if rungs.is_empty() {
        // Completions and measured times have no packets, so their evidence is printed as text.
        out.extend(check.evidence.iter().map(|words| format!("\n  {words}\n")));
    }
    for (entry, rung) in rungs {
        out.push_str(&packet(entry, &rung));
    }
    out
}

fn packet(entry: &Entry, rung: &Rung) -> String {
    let mut out = format!("\n  {} {} {}\n", rung.at, rung.way.words(), rung.what);
    let detail = detail(entry);
    out.extend(detail.trim_end().lines().map(|line| format!("    {line}\n")));
    out
}
