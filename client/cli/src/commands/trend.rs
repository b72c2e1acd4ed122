//! `verbatim trend`: verdicts and measured values of a rig's device, by run and firmware version.

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde_json::{Value, json};
use verbatim_client::{Client, v1};
use verbatim_report::version;
use verbatim_text::Text;

use crate::commands::runs::values;
use crate::exit::Usage;
use crate::print;
use crate::server::{self, Place};

/// Show the verdicts and measured values of a rig over its runs, by firmware version of the device.
#[derive(clap::Args)]
#[command(
    after_help = "Exit codes compare, for each test, the last two shown runs that contain the test: 0 no outcome \
    became worse; 1 at least one outcome became worse; 2 usage, or the daemon has no ended run of the rig; 3 the \
    daemon does not answer."
)]
pub(crate) struct Arguments {
    /// The rig
    rig: String,
    /// Only these tests: ids, public names, statements or globs
    tests: Vec<String>,
    /// Number of latest runs to show
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    last: u16,
    /// Also print measured values that changed
    #[arg(long)]
    values: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// The result of a test in a run.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Point {
    run: String,
    version: String,
    outcome: v1::Outcome,
    values: BTreeMap<String, String>,
}

pub(crate) fn run(arguments: &Arguments, place: &Place) -> anyhow::Result<ExitCode> {
    let address = place.server("`verbatim trend`")?;
    let runs = server::at(address, |client| kept(client, arguments))?;
    if runs.is_empty() {
        let rig = &arguments.rig;
        return Err(Usage(format!(
            "the daemon has no ended run of rig {rig:?}; `verbatim rigs` lists the rigs"
        ))
        .into());
    }
    let tests = trend(&runs);
    if arguments.json {
        print::json(&document(&arguments.rig, &tests))?;
    } else {
        let text: Text = tests
            .iter()
            .flat_map(|(test, points)| [line(test, points), changed(points, arguments.values)])
            .collect();
        print::text(&text)?;
    }
    let worse = tests.values().any(|points| got_worse(points));
    Ok(ExitCode::from(u8::from(worse)))
}

/// Returns the runs with the verdicts of the selected tests, the oldest first.
async fn kept(client: Client, arguments: &Arguments) -> anyhow::Result<Vec<v1::Run>> {
    let wanted: Vec<String> = match arguments.tests.as_slice() {
        [] => Vec::new(),
        patterns => client
            .list_tests(patterns)
            .await?
            .tests
            .into_iter()
            .map(|test| test.id)
            .collect(),
    };
    let filter = format!("rig={} AND state=ENDED", arguments.rig);
    let listed = client.list_runs(&filter, i32::from(arguments.last), "").await?.runs;
    let mut runs = Vec::new();
    for listed in listed.iter().rev() {
        // A run in a list has no measured values, so fetch the run itself.
        let mut run = client.get_run(&listed.name.parse()?).await?;
        run.verdicts
            .retain(|verdict| wanted.is_empty() || wanted.contains(&verdict.test));
        runs.push(run);
    }
    Ok(runs)
}

fn trend(runs: &[v1::Run]) -> BTreeMap<String, Vec<Point>> {
    let mut tests: BTreeMap<String, Vec<Point>> = BTreeMap::new();
    for run in runs {
        let version = version(run.info.as_ref().map_or("", |info| &info.fingerprint));
        for verdict in &run.verdicts {
            tests.entry(verdict.test.clone()).or_default().push(Point {
                run: run.name.clone(),
                version: version.clone(),
                outcome: verdict.outcome(),
                values: values(Some(verdict)),
            });
        }
    }
    tests
}

/// Formats a line such as `TEST  16.35: 3 PASS, 1 FAIL | 16.36: 2 PASS`. Each number counts consecutive runs with
/// equal outcomes.
fn line(test: &str, points: &[Point]) -> Text {
    let mut parts: Vec<String> = Vec::new();
    for of_version in points.chunk_by(|one, other| one.version == other.version) {
        let outcomes: Vec<String> = of_version
            .chunk_by(|one, other| one.outcome == other.outcome)
            .map(|same| format!("{} {}", same.len(), same[0].outcome))
            .collect();
        parts.push(format!("{}: {}", of_version[0].version, outcomes.join(", ")));
    }
    Text::of(format_args!("{test:<34} {}", parts.join(" | ")))
}

/// Lists each measured value that changed, with its successive values.
fn changed(points: &[Point], wanted: bool) -> Text {
    if !wanted {
        return Text::new();
    }
    let mut names: Vec<&String> = points.iter().flat_map(|point| point.values.keys()).collect();
    names.sort();
    names.dedup();
    let mut out = Text::new();
    for name in names {
        let seen: Vec<&str> = points
            .iter()
            .filter_map(|point| point.values.get(name).map(String::as_str))
            .collect();
        let steps: Vec<&str> = seen.chunk_by(|one, other| one == other).map(|same| same[0]).collect();
        if steps.len() > 1 {
            out.line(format_args!("    {name}: {}", steps.join(" -> ")));
        }
    }
    out
}

/// Returns whether a test's last outcome is worse than the outcome before, and worse than PASS.
fn got_worse(points: &[Point]) -> bool {
    matches!(points, [.., before, last] if last.outcome > before.outcome && last.outcome > v1::Outcome::Pass)
}

fn document(rig: &str, tests: &BTreeMap<String, Vec<Point>>) -> Value {
    let point = |point: &Point| {
        json!({
            "run": point.run,
            "version": point.version,
            "outcome": point.outcome.to_string(),
            "values": point.values,
        })
    };
    let tests: Vec<Value> = tests
        .iter()
        .map(|(test, points)| json!({ "test": test, "runs": points.iter().map(point).collect::<Vec<_>>() }))
        .collect();
    json!({ "rig": rig, "tests": tests })
}

#[cfg(test)]
mod tests {
    use super::*;
    use v1::Outcome::{Fail, Inconclusive, NotApplicable, Pass};

    fn points(of: &[(&str, v1::Outcome, &str)]) -> Vec<Point> {
        of.iter()
            .map(|(version, outcome, seen)| Point {
                run: "runs/x".into(),
                version: (*version).into(),
                outcome: *outcome,
                values: [("C9-130 RNR interval".to_owned(), (*seen).to_owned())].into(),
            })
            .collect()
    }

    #[test]
    fn counts_outcomes_by_version_and_shows_changed_values() {
        let points = points(&[
            ("1.0", Pass, "1 ms"),
            ("1.0", Pass, "1 ms"),
            ("1.1", Fail, "3 ms"),
            ("1.1", Pass, "1 ms"),
        ]);
        assert_eq!(
            line("t", &points).trim_end(),
            format!("{:<34} 1.0: 2 PASS | 1.1: 1 FAIL, 1 PASS", "t")
        );
        assert_eq!(
            &*changed(&points, true),
            "    C9-130 RNR interval: 1 ms -> 3 ms -> 1 ms\n"
        );
        assert_eq!(&*changed(&points, false), "");
        assert_eq!(&*changed(&points[..2], true), "");
    }

    #[test]
    fn compares_the_last_two_outcomes() {
        assert!(got_worse(&points(&[("1", Pass, ""), ("2", Fail, "")])));
        assert!(got_worse(&points(&[("1", Inconclusive, ""), ("2", Fail, "")])));
        assert!(!got_worse(&points(&[
            ("1", Pass, ""),
            ("2", Fail, ""),
            ("3", Fail, "")
        ])));
        assert!(!got_worse(&points(&[("1", Fail, ""), ("2", Pass, "")])));
        assert!(!got_worse(&points(&[("1", NotApplicable, ""), ("2", Pass, "")])));
        assert!(!got_worse(&points(&[("1", Fail, "")])));
    }
}
