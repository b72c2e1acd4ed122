//! Renders a run as a self-contained page, without scripts or network access.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use askama::Template;
use askama::filters::Escaper;
use verbatim_catalog::deviations::{Known, Showed};
use verbatim_record::{Outcome, Verdict, duration_words};
use verbatim_record_proto::v1::CheckResult;

use crate::input::{Reported, explanation, findings, followers, title, words};
use crate::interval::{Picture, pictures};
use crate::ladder::Shown;
use crate::trend::{Trend, trend};

/// Renders a run as one self-contained HTML page. The page supports print, dark and light mode, keyboards and screen
/// readers.
#[must_use]
pub fn html(of: &Reported<'_>) -> String {
    linked(of, "")
}

/// Renders the page as [`html`] does, with a link back to the page at a relative address. Without an address, the page
/// has no such link.
#[must_use]
pub fn linked(of: &Reported<'_>, back: &str) -> String {
    let page = Page {
        back,
        outcome: of.run.outcome(),
        rig: &of.run.rig,
        summary: of.summary(),
        facts: facts(of),
        counts: of
            .counts()
            .into_iter()
            .map(|(outcome, count)| (outcome, format!("{count} {}", words(outcome, count))))
            .collect(),
        statements: statements(of.verdicts),
        deviations: of.known,
        trend: whole_trend(of),
        tests: of.verdicts.iter().map(|verdict| test(of, verdict)).collect(),
        passed: of.verdicts.iter().filter(|verdict| is_quiet(verdict.outcome())).count(),
    };
    // Writing to a `String` cannot fail, so an error would be a defect of the template.
    page.render()
        .unwrap_or_else(|error| format!("<!doctype html><title>{error}</title>"))
}

/// The escaper of the page's template, named in askama.toml. Escapes markup and hidden characters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Escaped;

impl Escaper for Escaped {
    fn write_escaped_str<W: fmt::Write>(&self, mut out: W, text: &str) -> fmt::Result {
        out.write_str(&crate::interval::escaped(text))
    }
}

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    back: &'a str,
    outcome: Outcome,
    rig: &'a str,
    summary: String,
    facts: Vec<(&'static str, String)>,
    counts: Vec<(Outcome, String)>,
    statements: Vec<StatementRow<'a>>,
    deviations: &'a [Known],
    trend: Trend,
    tests: Vec<TestPage<'a>>,
    /// The number of tests that the printed page leaves out.
    passed: usize,
}

struct StatementRow<'a> {
    id: &'a str,
    /// The title, or the requirement if the id already has the title.
    title: &'static str,
    /// The outcome, or `None` if no test checked the statement.
    outcome: Option<Outcome>,
    /// The tests that are not as demanded, each with its outcome for the statement.
    tests: Vec<(&'a str, Option<Outcome>)>,
    /// The other tests of the statement; `None` if the test made no check of it.
    others: Vec<(&'a str, Option<Outcome>)>,
}

struct TestPage<'a> {
    verdict: &'a Verdict,
    about: &'static str,
    reading: &'static str,
    took: String,
    again: String,
    /// The reason why the verdict was taken from the run instead of judged anew.
    as_recorded: Option<String>,
    /// Whether the test's section is expanded at first.
    is_open: bool,
    findings: Vec<FindingBox<'a>>,
    /// The findings that follow from other findings, one line each.
    followers: Vec<String>,
    /// The reason shown if the test has no findings.
    reason: String,
    /// Statement, subject (`about`), first seen value and number of equal checks. A test may repeat one check ten
    /// thousand times.
    passed: Vec<(&'a str, &'a str, &'a str, usize)>,
    /// The measured times with their bounds.
    times: Vec<Picture>,
    /// The premises of the findings, each once.
    premises: Vec<&'a str>,
    ladder: &'a [Shown],
}

struct FindingBox<'a> {
    statement: &'a str,
    title: &'static str,
    demands: &'static str,
    source: &'static str,
    result: &'static str,
    about: &'a str,
    times: usize,
    expected: &'a str,
    seen: &'a str,
    given: &'a [String],
    evidence: &'a [String],
}

/// Returns the trend over the earlier runs and this run.
fn whole_trend(of: &Reported<'_>) -> Trend {
    let before = of.before.iter().map(|past| (&past.run, past.verdicts.as_slice()));
    let runs: Vec<_> = before.chain([(of.run, of.verdicts)]).collect();
    trend(&runs)
}

fn facts(of: &Reported<'_>) -> Vec<(&'static str, String)> {
    let run = of.run;
    vec![
        ("Run", run.id.clone()),
        ("Rig", format!("{} ({})", run.rig, run.rig_kind)),
        ("Host", run.host.clone()),
        ("Began", of.started()),
        ("Seed", run.seed.to_string()),
        ("Catalogue", run.catalogue.clone()),
        ("Fingerprint", fingerprint_in_words(&run.fingerprint)),
        ("Evidence", of.seal.into()),
    ]
    .into_iter()
    .filter(|(_, value)| !value.is_empty())
    .collect()
}

/// Formats the members of a fingerprint, a JSON object. Returns any other text unchanged.
#[must_use]
pub fn fingerprint_in_words(fingerprint: &str) -> String {
    let Ok(serde_json::Value::Object(members)) = serde_json::from_str(fingerprint) else {
        return fingerprint.into();
    };
    members_in_words(members)
}

/// Formats members, separated by commas; nested members are in parentheses. Members without a value are left out.
fn members_in_words(members: serde_json::Map<String, serde_json::Value>) -> String {
    let member = |(name, value): (String, serde_json::Value)| match value {
        serde_json::Value::String(text) => format!("{name} {text}"),
        serde_json::Value::Object(inner) => format!("{name} ({})", members_in_words(inner)),
        serde_json::Value::Array(all) if all.is_empty() => format!("no {name}"),
        serde_json::Value::Array(all) => {
            let all: Vec<_> = all
                .iter()
                .map(|one| match one {
                    serde_json::Value::String(text) => text.clone(),
                    serde_json::Value::Object(inner) => format!("({})", members_in_words(inner.clone())),
                    other => other.to_string(),
                })
                .collect();
            format!("{name} {}", all.join(" "))
        }
        other => format!("{name} {other}"),
    };
    let known = members.into_iter().filter(|(_, value)| !value.is_null());
    known.map(member).collect::<Vec<_>>().join(", ")
}

/// Returns whether the printed page leaves out the tests with this outcome.
const fn is_quiet(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Pass | Outcome::NotApplicable | Outcome::Skipped)
}

/// The most tests of a statement that the page lists at first, besides those that are not as demanded.
const FEW: usize = 4;

/// The most findings of a test, and the most lines of evidence of a finding, on the printed page.
const MOST_ON_PAPER: usize = 4;

impl StatementRow<'_> {
    fn is_quiet(&self) -> bool {
        self.outcome.is_none_or(is_quiet)
    }

    /// Counts the other tests by their outcome for the statement.
    fn others_in_words(&self) -> String {
        let same = self.others.chunk_by(|(_, one), (_, other)| one == other);
        let words = same.map(|same| match same[0].1 {
            Some(outcome) => format!("{} {}", same.len(), words(outcome, same.len())),
            None => format!("{} not checked", same.len()),
        });
        words.collect::<Vec<_>>().join(", ")
    }
}

impl TestPage<'_> {
    fn is_quiet(&self) -> bool {
        is_quiet(self.verdict.outcome())
    }
}

/// Returns a row for each statement of the tests, the worst outcome first.
fn statements(verdicts: &[Verdict]) -> Vec<StatementRow<'_>> {
    let mut by_id: BTreeMap<&str, Vec<(&str, Option<Outcome>)>> = BTreeMap::new();
    for verdict in verdicts {
        let found = verdict.findings.iter().map(|check| &check.statement);
        let mut ids: Vec<&str> = verdict.statements.iter().chain(found).map(String::as_str).collect();
        ids.sort_unstable();
        ids.dedup();
        for id in ids {
            by_id
                .entry(id)
                .or_default()
                .push((&verdict.test, of_statement(verdict, id)));
        }
    }
    let mut rows: Vec<StatementRow<'_>> = by_id
        .into_iter()
        .map(|(id, mut tests)| {
            tests.sort_by_key(|(_, outcome)| core::cmp::Reverse(*outcome));
            (id, tests)
        })
        .map(|(id, tests)| {
            let outcome = tests.iter().map(|(_, outcome)| *outcome).max().flatten();
            let (others, tests) = tests.into_iter().partition(|(_, outcome)| outcome.is_none_or(is_quiet));
            (id, outcome, tests, others)
        })
        .map(|(id, outcome, tests, others)| StatementRow {
            id,
            title: match title(id) {
                "" => verbatim_catalog::statement(id).map_or("", |known| &known.about),
                title => title,
            },
            outcome,
            tests,
            others,
        })
        .collect();
    rows.sort_by_key(|row| core::cmp::Reverse(row.outcome));
    rows
}

/// Returns a test's outcome for one statement, which may differ from the test's own outcome. Returns `None` if a judged
/// test made no check of the statement.
fn of_statement(verdict: &Verdict, statement: &str) -> Option<Outcome> {
    let worst = verdict
        .findings
        .iter()
        .filter(|check| check.statement == statement)
        .map(|check| check.result())
        .max();
    match (verdict.outcome(), worst) {
        (Outcome::Error, _) => Some(Outcome::Error),
        (_, Some(CheckResult::Fail)) => Some(Outcome::Fail),
        (_, Some(_)) => Some(Outcome::Inconclusive),
        (Outcome::Pass | Outcome::Fail | Outcome::Inconclusive, None) => {
            let passed = verdict.passed.iter().any(|check| check.statement == statement);
            passed.then_some(Outcome::Pass)
        }
        (outcome, None) => Some(outcome),
    }
}

/// Groups passed checks by statement and subject (`about`), in the order of their first occurrence.
fn passed(verdict: &Verdict) -> Vec<(&str, &str, &str, usize)> {
    let mut places = HashMap::new();
    let mut out: Vec<(&str, &str, &str, usize)> = Vec::new();
    for check in &verdict.passed {
        let what = (check.statement.as_str(), check.about.as_str());
        let place = *places.entry(what).or_insert(out.len());
        match out.get_mut(place) {
            Some((.., times)) => *times += 1,
            None => out.push((what.0, what.1, &check.seen, 1)),
        }
    }
    out
}

/// Returns the premises of all findings, each once.
fn premises(verdict: &Verdict) -> Vec<&str> {
    let mut out: Vec<&str> = Vec::new();
    for given in verdict.findings.iter().flat_map(|check| &check.given) {
        if !out.contains(&given.as_str()) {
            out.push(given);
        }
    }
    out
}

fn test<'a>(of: &Reported<'a>, verdict: &'a Verdict) -> TestPage<'a> {
    let known = verbatim_catalog::TESTS.iter().find(|test| test.id == verdict.test);
    let outcome = verdict.outcome();
    TestPage {
        verdict,
        about: known.map_or("", |test| test.about),
        reading: known.map_or("", |test| test.reading),
        took: of.took(&verdict.test).map_or_else(String::new, duration_words),
        again: of.again(&verdict.test),
        as_recorded: of.as_recorded(&verdict.test),
        is_open: matches!(outcome, Outcome::Fail | Outcome::Error),
        findings: findings(verdict)
            .into_iter()
            .map(|finding| FindingBox {
                statement: &finding.check.statement,
                title: title(&finding.check.statement),
                demands: verbatim_catalog::statement(&finding.check.statement).map_or("", |known| &known.about),
                source: verbatim_catalog::statement(&finding.check.statement).map_or("", |known| &known.source),
                result: if finding.check.is_failure() { "failed" } else { "open" },
                about: &finding.check.about,
                times: finding.times,
                expected: &finding.check.expected,
                seen: &finding.check.seen,
                given: &finding.check.given,
                evidence: &finding.check.evidence,
            })
            .collect(),
        followers: followers(verdict).map(ToString::to_string).collect(),
        reason: match outcome {
            Outcome::Pass => String::new(),
            Outcome::Error => explanation(verdict).to_string(),
            _ if verdict.findings.is_empty() => verdict.reason.clone(),
            _ => String::new(),
        },
        passed: passed(verdict),
        times: pictures(verdict),
        premises: premises(verdict),
        ladder: of.record(&verdict.test).map_or(&[], |record| &record.ladder),
    }
}
