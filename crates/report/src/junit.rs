//! JUnit's XML, as Jenkins, GitLab and GitHub read it.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use verbatim_catalog::deviations::Known;
use verbatim_record::{Outcome, Verdict};

use crate::told::{Reported, explanation, in_words};

/// A run as JUnit's XML: one suite, named after the rig, with a case for each test.
///
/// FAIL is a failure, and skipped where it is known and known deviations are tolerated, as an expected failure of
/// pytest is. ERROR and INCONCLUSIVE are errors, told apart by their type: neither says that the device conforms, so
/// neither may look like a pass. NOT_APPLICABLE and SKIPPED are skipped. Statements, public names and cause stand in
/// the output of the case: properties of a case are not in the schema that Jenkins' xunit plugin holds a report
/// against.
#[must_use]
pub fn junit(of: &Reported<'_>) -> String {
    let mut suite = TestSuite::new(&of.run.rig);
    for (name, value) in [
        ("run", &of.run.id),
        ("rig_kind", &of.run.rig_kind),
        ("seed", &of.run.seed.to_string()),
        ("catalogue", &of.run.catalogue),
        ("host", &of.run.host),
        ("fingerprint", &of.run.fingerprint),
    ] {
        suite.add_property((name, value.as_str()));
    }
    let known = of.deviations();
    suite.add_test_cases(of.verdicts.iter().map(|verdict| case(of, verdict, &known)));
    let mut report = Report::new("verbatim");
    report.add_test_suite(suite);
    let mut xml = report.to_string().unwrap_or_else(|error| format!("<!-- {error} -->"));
    // No characters by XML 1.0; quick-junit leaves out the others.
    xml.retain(|c| !matches!(c, '\u{FFFE}' | '\u{FFFF}'));
    without_skipped(xml)
}

/// Without the count of what was skipped in all suites, which that schema does not know; it stands at the suite, too.
fn without_skipped(mut xml: String) -> String {
    const COUNT: &str = " skipped=\"";
    let place = || {
        // The first is that of all suites: before it there is their name alone, which is ours.
        let begin = xml.find(COUNT)?;
        let value = begin + COUNT.len();
        Some(begin..value + xml[value..].find('"')? + 1)
    };
    if let Some(place) = place() {
        xml.replace_range(place, "");
    }
    xml
}

fn case(of: &Reported<'_>, verdict: &Verdict, known: &[Known]) -> TestCase {
    let outcome = verdict.outcome();
    let is_tolerated = of.is_tolerated(&verdict.test, known);
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
            .set_message(format!("{outcome}, known: {}", verdict.reason));
    } else if outcome != Outcome::Pass {
        status
            .set_type(outcome.to_string())
            .set_message(verdict.reason.as_str());
    }
    if matches!(outcome, Outcome::Fail | Outcome::Inconclusive | Outcome::Error) {
        status.set_description(format!("{}\n{}", explanation(verdict), of.again(&verdict.test)));
    }
    let mut case = TestCase::new(verdict.test.as_str(), status);
    // The chapter, which readers of this form show as a folder.
    let chapter = verdict.test.split('-').next().unwrap_or_default();
    case.set_classname(format!("verbatim.{chapter}"));
    case.set_time(of.took(&verdict.test).unwrap_or(Duration::ZERO));
    let statements = verdict
        .statements
        .iter()
        .map(|statement| format!("statement: {statement}\n"));
    let names = verdict.aliases.iter().map(|name| format!("public name: {name}\n"));
    let mut about: String = statements.chain(names).collect();
    if outcome != Outcome::Pass {
        about.push_str(&format!("cause: {}\n", verdict.cause()));
    }
    if let Some(as_recorded) = of.as_recorded(&verdict.test) {
        about.push_str(&format!("{as_recorded}\n"));
    }
    // Tolerated or not, here stands what it is.
    for known in known.iter().filter(|known| known.test == verdict.test) {
        about.push_str(&format!("{}\n", in_words(known)));
    }
    case.set_system_out(about);
    case
}
