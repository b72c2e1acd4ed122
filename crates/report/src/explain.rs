//! A finding and what it rests on, field by field.

use verbatim_record::Entry;
use verbatim_record_proto::v1::Check;

use crate::fields::detail;
use crate::ladder::{self, Rung};
use crate::told::{Reported, title};

/// Each finding that is wanted: the statement in our words, what was expected beside what was seen, and every packet that it
/// rests on with its fields and bytes. `test` and `statement` leave out the others; `number` counts a test's findings from 1.
/// Nothing when none is left.
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
    let rungs = ladder::of(record, &check.exchanges, &check.frames);
    if rungs.is_empty() {
        // Completions and times rest on no packet: then the words are all there is.
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
