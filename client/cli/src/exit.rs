//! Exit codes: 0 all judged tests passed; 1 a FAIL; 2 usage; 3 an ERROR of tester or rig; 4 inconclusive, or no test
//! judged.

use verbatim_client::Error;
use verbatim_client::v1::{Outcome, Verdict};
use verbatim_record::BundleError;
use verbatim_run::{Report, RunError, SignatureError};

/// Exit code for an invalid command line, rig file, name or key.
pub(crate) const USAGE: u8 = 2;
/// Exit code for a failure of the tester or the rig.
pub(crate) const ERROR: u8 = 3;
/// Exit code if no test failed, but a test is inconclusive or none was judged.
pub(crate) const UNDECIDED: u8 = 4;

/// An error of the operator, such as an invalid name or file.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl core::fmt::Display for Usage {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Returns the exit code of a failed command.
pub(crate) fn of_error(error: &anyhow::Error) -> u8 {
    let is_bad_request = matches!(
        error.downcast_ref::<Error>(),
        Some(
            Error::Address { .. }
                | Error::Certificates(_)
                | Error::Name { .. }
                | Error::Invalid(_)
                | Error::NotFound(_)
        )
    );
    let file_exists = matches!(
        error.downcast_ref::<RunError>(),
        Some(RunError::FileExists(_) | RunError::Bundle(BundleError::Taken { .. }))
    );
    let signature = error
        .downcast_ref::<SignatureError>()
        .or_else(|| match error.downcast_ref::<RunError>()? {
            RunError::Signature(error) => Some(error),
            _ => None,
        });
    let is_key = matches!(
        signature,
        Some(SignatureError::Key { .. } | SignatureError::Already { .. })
    );
    if is_key || is_bad_request || file_exists || error.is::<Usage>() {
        USAGE
    } else {
        ERROR
    }
}

/// Returns the exit code of a run at a daemon. The run may end with ERROR even if no test does.
pub(crate) fn of_run(outcome: Option<Outcome>, report: &Report, tolerates_known: bool) -> u8 {
    if outcome == Some(Outcome::Error) {
        ERROR
    } else {
        of_report(report, tolerates_known)
    }
}

/// Returns the exit code of a run. With `tolerates_known`, ignores the tests whose failures known deviations explain.
pub(crate) fn of_report(report: &Report, tolerates_known: bool) -> u8 {
    let matters = |verdict: &&Verdict| !(tolerates_known && report.is_known(&verdict.test));
    let verdicts: Vec<Verdict> = report.verdicts.iter().filter(matters).cloned().collect();
    match of_verdicts(&verdicts) {
        // Only tolerated tests failed, and no other test applied.
        UNDECIDED if verdicts.len() < report.verdicts.len() && verdicts.iter().all(is_left_out) => 0,
        code => code,
    }
}

fn is_left_out(verdict: &Verdict) -> bool {
    matches!(verdict.outcome(), Outcome::NotApplicable | Outcome::Skipped)
}

/// Returns the exit code of verdicts. An ERROR outranks a FAIL, because it may have caused the FAIL.
pub(crate) fn of_verdicts(verdicts: &[Verdict]) -> u8 {
    let worst = verdicts.iter().map(Verdict::outcome).max();
    let passed = verdicts.iter().any(|verdict| verdict.outcome() == Outcome::Pass);
    match worst {
        Some(Outcome::Error) => ERROR,
        Some(Outcome::Fail) => 1,
        Some(Outcome::Inconclusive) => UNDECIDED,
        _ if passed => 0,
        _ => UNDECIDED,
    }
}

#[cfg(test)]
mod tests {
    use verbatim_client::v1::{KnownDeviation, RunInfo};

    use super::*;

    fn code(outcomes: &[Outcome]) -> u8 {
        let verdicts: Vec<Verdict> = outcomes
            .iter()
            .map(|outcome| Verdict {
                outcome: (*outcome).into(),
                ..Verdict::default()
            })
            .collect();
        of_verdicts(&verdicts)
    }

    #[test]
    fn worst_outcome_decides_and_no_verdict_is_4() {
        use Outcome::{Error, Fail, Inconclusive, NotApplicable, Pass, Skipped};
        assert_eq!(code(&[Pass, NotApplicable, Skipped]), 0);
        assert_eq!(code(&[Pass, Fail]), 1);
        assert_eq!(code(&[Fail, Error]), 3);
        assert_eq!(code(&[Pass, Inconclusive]), 4);
        assert_eq!(code(&[NotApplicable, Skipped]), 4);
        assert_eq!(code(&[]), 4);
    }

    #[test]
    fn tolerated_deviations_do_not_count() {
        let report = |outcomes: &[(&str, Outcome)]| {
            let verdict = |(test, outcome): &(&str, Outcome)| Verdict {
                test: (*test).into(),
                outcome: (*outcome).into(),
                ..Verdict::default()
            };
            let known = KnownDeviation {
                test: "a".into(),
                explains_all: true,
                ..KnownDeviation::default()
            };
            Report {
                known_deviations: vec![known.into()],
                ..Report::new(RunInfo::default(), outcomes.iter().map(verdict).collect())
            }
        };
        use Outcome::{Fail, Inconclusive, NotApplicable, Pass};
        let code = |outcomes: &[_]| {
            let report = report(outcomes);
            (of_report(&report, false), of_report(&report, true))
        };
        assert_eq!(code(&[("a", Fail), ("b", Pass)]), (1, 0));
        assert_eq!(code(&[("a", Inconclusive), ("b", NotApplicable)]), (4, 0));
        assert_eq!(code(&[("a", Fail), ("b", Fail)]), (1, 1));
        assert_eq!(code(&[("a", Fail), ("b", Inconclusive)]), (1, 4));
        assert_eq!(code(&[("b", NotApplicable)]), (4, 4));
    }
}
