//! JUnit XML for Jenkins, GitLab and GitHub.

use std::time::Duration;

use chrono::DateTime;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use verbatim_record::{Outcome, Verdict};
use verbatim_text::{Text, shown};

use crate::input::{Reported, explanation, in_words};

/// Renders a run as JUnit XML: one suite, named after the rig, with one case per test.
///
/// FAIL becomes a failure. If known deviations are tolerated and explain all findings of a test, the test becomes
/// skipped, like an expected failure of pytest. ERROR and INCONCLUSIVE become errors with different types: both
/// leave conformance unproven, so they must not count as a pass. NOT_APPLICABLE and SKIPPED become skipped. If no test
/// was judged, a further case `run` is an error.
/// Statements, public names and cause are in the output of the case, because the schema of Jenkins' xunit plugin
/// allows no properties there.
#[must_use]
pub fn junit(of: &Reported<'_>) -> String {
    let mut suite = TestSuite::new(&*shown(&of.run.rig));
    for (name, value) in [
        ("run", &of.run.id),
        ("rig_kind", &of.run.rig_kind),
        ("seed", &of.run.seed.to_string()),
        ("catalogue", &of.run.catalogue),
        ("host", &of.run.host),
        ("fingerprint", &of.run.fingerprint),
    ] {
        suite.add_property((name, &*shown(value)));
    }
    if let Some(at) = i64::try_from(of.run.started_ns).ok().filter(|at| *at > 0) {
        suite.set_timestamp(DateTime::from_timestamp_nanos(at));
    }
    if !of.run.host.is_empty() {
        suite.extra.insert("hostname".into(), (&*shown(&of.run.host)).into());
    }
    let times = of.verdicts.iter().filter_map(|verdict| of.took(&verdict.test));
    suite.set_time(times.sum());
    suite.add_test_cases(of.verdicts.iter().map(|verdict| case(of, verdict)));
    let is_judged = |verdict: &Verdict| {
        !matches!(
            verdict.outcome(),
            Outcome::NotApplicable | Outcome::Skipped | Outcome::Unspecified
        )
    };
    if !of.verdicts.iter().any(is_judged) {
        suite.add_test_case(unjudged(of.verdicts.len()));
    }
    let mut report = Report::new("verbatim");
    report.add_test_suite(suite);
    let mut xml = report.to_string().unwrap_or_else(|error| format!("<!-- {error} -->"));
    // XML 1.0 forbids these two characters. quick-junit removes the other forbidden characters.
    xml.retain(|c| !matches!(c, '\u{FFFE}' | '\u{FFFF}'));
    without_skipped(xml)
}

/// Returns an error, because CI servers show a report without failures as a success.
fn unjudged(tests: usize) -> TestCase {
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
    status
        .set_type("ERROR")
        .set_message(format!("none of {tests} tests was judged"));
    let mut case = TestCase::new("run", status);
    case.set_classname("verbatim.run");
    case.set_time(Duration::ZERO);
    case
}

/// Removes the count of skipped tests from the `testsuites` element, where the schema of Jenkins' xunit plugin does not
/// allow it. Each suite has its own count.
fn without_skipped(mut xml: String) -> String {
    const COUNT: &str = " skipped=\"";
    let place = || {
        // The first match is in the `testsuites` element. No text of the run precedes it.
        let begin = xml.find(COUNT)?;
        let value = begin + COUNT.len();
        Some(begin..value + xml[value..].find('"')? + 1)
    };
    if let Some(place) = place() {
        xml.replace_range(place, "");
    }
    xml
}

fn case(of: &Reported<'_>, verdict: &Verdict) -> TestCase {
    let outcome = verdict.outcome();
    let is_tolerated = of.is_tolerated(&verdict.test);
    let mut status = match outcome {
        _ if is_tolerated => TestCaseStatus::skipped(),
        Outcome::Pass => TestCaseStatus::success(),
        Outcome::NotApplicable | Outcome::Skipped | Outcome::Unspecified => TestCaseStatus::skipped(),
        Outcome::Fail => TestCaseStatus::non_success(NonSuccessKind::Failure),
        Outcome::Inconclusive | Outcome::Error => TestCaseStatus::non_success(NonSuccessKind::Error),
    };
    if is_tolerated {
        status
            .set_type("KNOWN")
            .set_message(format!("{outcome}, known: {}", shown(&verdict.reason)));
    } else if outcome != Outcome::Pass {
        status
            .set_type(outcome.to_string())
            .set_message(&*shown(&verdict.reason));
    }
    if matches!(outcome, Outcome::Fail | Outcome::Inconclusive | Outcome::Error) {
        status.set_description(format!("{}\n{}", explanation(verdict), of.again(&verdict.test)));
    }
    let mut case = TestCase::new(&*shown(&verdict.test), status);
    // The chapter, which readers of JUnit XML show as a folder.
    let chapter = verdict.test.split('-').next().unwrap_or_default();
    case.set_classname(format!("verbatim.{}", shown(chapter)));
    case.set_time(of.took(&verdict.test).unwrap_or(Duration::ZERO));
    let mut about = Text::new();
    for statement in &verdict.statements {
        about.line(format_args!("statement: {statement}"));
    }
    for name in &verdict.aliases {
        about.line(format_args!("public name: {name}"));
    }
    if outcome != Outcome::Pass {
        about.line(format_args!("cause: {}", verdict.cause()));
    }
    if let Some(as_recorded) = of.as_recorded(&verdict.test) {
        about.line(as_recorded);
    }
    // List known deviations whether or not they are tolerated.
    for known in of.known.iter().filter(|known| known.test == verdict.test) {
        about.line(in_words(known));
    }
    case.set_system_out(&*about);
    case
}
