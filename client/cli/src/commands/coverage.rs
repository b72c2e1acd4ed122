//! `verbatim coverage`: the rules and tests that judge each statement, and the rigs that can run them.

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde::Serialize;
use verbatim_run::coverage::{Coverage, Covered, Rows, coverage};
use verbatim_text::Text;

use crate::print;
use crate::print::counter::Counter;

/// Schema version of [`Document`].
const SCHEMA: &str = "verbatim.coverage.v1";

/// The JSON document.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    #[serde(flatten)]
    coverage: &'a Coverage,
}

/// Show which rules and tests judge each statement.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let counter = Counter::new("cases");
    let coverage = coverage(&|what, done, all| {
        counter.at(what);
        counter.done(done as u64, all as u64);
    })?;
    counter.finish();
    if arguments.json {
        print::json(&Document {
            schema: SCHEMA,
            coverage: &coverage,
        })?;
    } else {
        let mut text: String = coverage.statements.iter().map(in_words).collect();
        for rows in &coverage.rows {
            text.push_str(&rows_in_words(rows));
        }
        let idle: Vec<&str> = coverage.idle_rules().collect();
        let unnoticed: Vec<&str> = coverage.unnoticed_rules().collect();
        let unchecked: Vec<&str> = coverage.idle_statements().collect();
        for (what, names) in [
            ("rules that no test exercises", &idle),
            ("rules that no defect breaks", &unnoticed),
            ("statements that no test checks", &unchecked),
        ] {
            text.push_str(&format!("{}: {}{}\n", names.len(), what, list(names)));
        }
        print::text(&Text::own(&text))?;
    }
    let is_whole = coverage.idle_rules().next().is_none()
        && coverage.unnoticed_rules().next().is_none()
        && coverage.idle_statements().next().is_none();
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn list(names: &[&str]) -> String {
    if names.is_empty() {
        String::new()
    } else {
        format!(": {}", names.join(", "))
    }
}

/// Formats the number of feasible pairs of conditions, and the number of infeasible pairs for each reason.
fn rows_in_words(rows: &Rows) -> String {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for infeasible in &rows.infeasible {
        *reasons.entry(&infeasible.reason).or_default() += 1;
    }
    let mut text = format!(
        "{}  {} rows with all {} feasible pairs of conditions; infeasible: {}\n",
        rows.test,
        rows.rows,
        rows.pairs,
        rows.infeasible.len()
    );
    for (reason, count) in reasons {
        text.push_str(&format!("  {count:>5} {reason}\n"));
    }
    text
}

fn in_words(covered: &Covered) -> String {
    let mut text = format!("{}  {}\n", covered.statement, covered.title);
    for (kind, all) in [("rule", &covered.rules), ("test", &covered.tests)] {
        for one in all {
            let noticed = one.noticed.map_or_else(String::new, |noticed| {
                format!(
                    ", failed in {} of defects, alone in {}",
                    print::counted(noticed.failed, "case", "cases"),
                    noticed.alone
                )
            });
            let reasons = one.reason.into_iter().chain(one.unbroken);
            let reason: String = reasons.map(|reason| format!(": {reason}")).collect();
            text.push_str(&format!(
                "  {kind} {:<38} {:>8} {}{noticed}{reason}\n",
                one.name,
                one.times,
                print::plural(one.times, "time", "times")
            ));
        }
    }
    text.push_str(&format!("  rigs {}", covered.rigs.join(", ")));
    if let Some(why) = &covered.not_from_a_host {
        text.push_str(&format!("; no adapter of a host can run them: {why}"));
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbatim_run::coverage::Exercised;

    #[test]
    fn counts_have_singular_and_plural() {
        let test = |name: &str, times| Exercised {
            name: name.into(),
            times,
            reason: None,
            noticed: None,
            unbroken: None,
        };
        let covered = Covered {
            statement: "C14-16".into(),
            title: "M_Key check".into(),
            rules: Vec::new(),
            tests: vec![test("a", 1), test("b", 2)],
            rigs: vec!["virtual"],
            not_from_a_host: None,
        };
        let text = in_words(&covered);
        assert!(text.contains(" 1 time\n") && text.contains(" 2 times\n"), "{text}");
    }
}
