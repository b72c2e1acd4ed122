//! `verbatim runs diff`: differences between two runs, for example with different firmware.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};
use verbatim_client::v1;
use verbatim_text::Text;

use crate::print;
use crate::server::{self, Finder, run_named};

/// The runs to compare.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The first run: the directory that `verbatim run --record` left; or a run of the daemon: runs/ID, ID, or latest;
    /// or a run of another daemon: ADDR/runs/ID, such as unix:/run/verbatim/verbatim.sock/runs/latest
    first: String,
    /// The second run
    second: String,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// A difference between the runs.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Difference {
    test: String,
    /// The check that differs; empty for the whole verdict.
    about: String,
    first: String,
    second: String,
}

pub(super) fn run(arguments: &Arguments, finder: Finder<'_>) -> anyhow::Result<ExitCode> {
    let (first, second) = (one(&arguments.first, finder)?, one(&arguments.second, finder)?);
    let differences = differences(&first, &second);
    if arguments.json {
        let list: Vec<Value> = differences
            .iter()
            .map(|of| json!({"test": of.test, "about": of.about, "first": of.first, "second": of.second}))
            .collect();
        print::json(&json!({"first": first.name, "second": second.name, "differences": list}))?;
    } else {
        print::text(&text(&first, &second, &differences))?;
    }
    Ok(ExitCode::from(u8::from(!differences.is_empty())))
}

/// Returns a run of a daemon, or judges the record in a directory.
fn one(given: &str, finder: Finder<'_>) -> anyhow::Result<v1::Run> {
    let directory = Path::new(given);
    if directory.is_dir() {
        let (report, drift) = verbatim_run::judge_bundle(directory)?;
        print::judged_otherwise(&report, &drift);
        let spec = v1::RunSpec {
            rig: report.run.rig,
            seed: report.run.seed,
            ..v1::RunSpec::default()
        };
        return Ok(v1::Run {
            name: given.into(),
            spec: Some(spec),
            verdicts: report.verdicts,
            ..v1::Run::default()
        });
    }
    let (place, run) = finder.of_run(given)?;
    server::at(
        place.server(&format!("the run {given}, which is no directory,"))?,
        |client| async move {
            let mut found = client.get_run(&run_named(&client, run).await?).await?;
            if run != given {
                found.name = format!("{} at {}", found.name, client.address().in_words());
            }
            Ok(found)
        },
    )
}

fn text(first: &v1::Run, second: &v1::Run, differences: &[Difference]) -> Text {
    let rig = |run: &v1::Run| {
        run.spec
            .as_ref()
            .map(|spec| format!("{}, seed {}", spec.rig, spec.seed))
    };
    let mut out = Text::new();
    for (sign, run) in [('-', first), ('+', second)] {
        out.line(format_args!("{sign} {} ({})", run.name, rig(run).unwrap_or_default()));
    }
    let mut test = "";
    for of in differences {
        if of.test != test {
            out.line(&of.test);
            test = &of.test;
        }
        let about = if of.about.is_empty() {
            String::new()
        } else {
            format!("{}: ", of.about)
        };
        out.line(format_args!("  - {about}{}", of.first));
        out.line(format_args!("  + {about}{}", of.second));
    }
    if differences.is_empty() {
        out.line("no verdict and no measured value differs");
    } else {
        out.line("");
        out.line(summary(differences));
    }
    out
}

/// Counts the verdicts that differ, by their outcomes, and the measured values that differ.
fn summary(differences: &[Difference]) -> String {
    let outcome = |words: &str| words.split(':').next().unwrap_or_default().to_owned();
    let (verdicts, values): (Vec<_>, Vec<_>) = differences.iter().partition(|of| of.about.is_empty());
    let mut changes: BTreeMap<(String, String), u64> = BTreeMap::new();
    for of in &verdicts {
        *changes.entry((outcome(&of.first), outcome(&of.second))).or_default() += 1;
    }
    let changes: Vec<String> = changes
        .into_iter()
        .map(|((first, second), count)| match first == second {
            true => format!("{count} {first} with another reason"),
            false => format!("{count} {first} -> {second}"),
        })
        .collect();
    let differ = |count: usize, one, more| {
        let count = count as u64;
        format!(
            "{} {}",
            print::counted(count, one, more),
            print::plural(count, "differs", "differ")
        )
    };
    let values = differ(values.len(), "measured value", "measured values");
    match verdicts.len() {
        0 => format!("no verdict differs; {values}"),
        count => format!(
            "{}: {}; {values}",
            differ(count, "verdict", "verdicts"),
            changes.join(", ")
        ),
    }
}

const ABSENT: &str = "not there";

fn differences(first: &v1::Run, second: &v1::Run) -> Vec<Difference> {
    let mut all = Vec::new();
    // Verdicts are in the catalogue's order. Tests that only the second run contains come last.
    let tests = |run: &v1::Run| -> Vec<String> { run.verdicts.iter().map(|of| of.test.clone()).collect() };
    let mut order = tests(first);
    order.extend(
        tests(second)
            .into_iter()
            .filter(|test| !first.verdicts.iter().any(|of| of.test == *test)),
    );
    for test in order {
        let of = |run: &v1::Run| run.verdicts.iter().find(|of| of.test == test).cloned();
        let (before, after) = (of(first), of(second));
        let verdict = |of: &Option<v1::Verdict>| of.as_ref().map_or_else(|| ABSENT.into(), in_words);
        let mut push = |about: String, first: String, second: String| {
            if first != second {
                let test = test.clone();
                all.push(Difference {
                    test,
                    about,
                    first,
                    second,
                });
            }
        };
        push(String::new(), verdict(&before), verdict(&after));
        let (before, after) = (values(before.as_ref()), values(after.as_ref()));
        for about in before
            .keys()
            .chain(after.keys().filter(|about| !before.contains_key(*about)))
        {
            let seen = |values: &BTreeMap<String, String>| values.get(about).cloned().unwrap_or_else(|| ABSENT.into());
            push(about.clone(), seen(&before), seen(&after));
        }
    }
    all
}

fn in_words(of: &v1::Verdict) -> String {
    match of.reason.as_str() {
        "" => of.outcome().to_string(),
        reason => format!("{}: {reason}", of.outcome()),
    }
}

/// Returns the seen values by check. Checks of the same name are numbered.
pub(crate) fn values(of: Option<&v1::Verdict>) -> BTreeMap<String, String> {
    let mut values = BTreeMap::new();
    let checks = of.into_iter().flat_map(|of| of.passed.iter().chain(&of.findings));
    for check in checks {
        let about = format!("{} {}", check.statement, check.about);
        let numbered = (2..).map(|number| format!("{about} ({number})"));
        let name = std::iter::once(about.clone())
            .chain(numbered)
            .find(|name| !values.contains_key(name));
        values.insert(name.unwrap_or(about), check.seen.clone());
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(outcome: v1::Outcome, seen: &[&str]) -> v1::Run {
        let check = |seen: &&str| v1::Check {
            statement: "C14-24".into(),
            about: "VLCap".into(),
            seen: (*seen).into(),
            ..v1::Check::default()
        };
        let verdict = v1::Verdict {
            test: "t".into(),
            outcome: outcome.into(),
            passed: seen.iter().map(check).collect(),
            ..v1::Verdict::default()
        };
        v1::Run {
            verdicts: vec![verdict],
            ..v1::Run::default()
        }
    }

    #[test]
    fn reports_only_changed_verdicts_and_values() {
        use v1::Outcome::{Fail, Pass};
        let one = run(Pass, &["4", "1"]);
        assert_eq!(differences(&one, &one), []);
        let told = differences(&one, &run(Fail, &["4", "2"]));
        let told: Vec<_> = told
            .iter()
            .map(|of| (of.about.as_str(), of.first.as_str(), of.second.as_str()))
            .collect();
        assert_eq!(told, [("", "PASS", "FAIL"), ("C14-24 VLCap (2)", "1", "2")]);
    }

    #[test]
    fn last_line_counts_the_differences() {
        use v1::Outcome::{Fail, Pass};
        let (one, other) = (run(Pass, &["4", "1"]), run(Fail, &["4", "2"]));
        let told = text(&one, &other, &differences(&one, &other));
        assert_eq!(
            told.lines().last(),
            Some("1 verdict differs: 1 PASS -> FAIL; 1 measured value differs")
        );
    }

    #[test]
    fn reports_a_test_that_only_one_run_has() {
        let told = differences(&v1::Run::default(), &run(v1::Outcome::Pass, &[]));
        assert_eq!((told[0].first.as_str(), told[0].second.as_str()), (ABSENT, "PASS"));
    }
}
