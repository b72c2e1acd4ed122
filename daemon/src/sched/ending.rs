//! The outcome of a run, computed without I/O.

use verbatim_proto::v1::{Cause, Outcome, Verdict};
use verbatim_report::counted;

use super::plan::NeverBegan;
use crate::worker::WorkerEnd;

/// The outcome, cause and reason of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ending {
    /// The worst outcome of the run's tests, or ERROR when the run ended before all its tests had a verdict.
    pub outcome: Outcome,
    /// The cause of the outcome.
    pub cause: Option<Cause>,
    /// The reason, in a sentence.
    pub reason: String,
}

impl Ending {
    fn error(cause: Cause, reason: impl Into<String>) -> Self {
        Self {
            outcome: Outcome::Error,
            cause: Some(cause),
            reason: reason.into(),
        }
    }

    /// Returns the ending of a waiting run. `began` tells whether the run had begun and given way. `by` tells who
    /// cancelled the run.
    #[must_use]
    pub fn of_waiting(why: &NeverBegan, began: bool, by: &str) -> Self {
        let when = if began {
            "while the run waited to continue after giving way (its record so far is kept)"
        } else {
            "before the run's first test"
        };
        match why {
            NeverBegan::Cancelled => Self::error(Cause::Operator, format!("{by} {when}")),
            NeverBegan::Stopping => Self::error(
                Cause::Operator,
                format!("the daemon was stopped {when}; run it again when the daemon is back"),
            ),
            NeverBegan::LeaseEnded(why) => Self::error(Cause::Operator, format!("the lease {why} {when}")),
            NeverBegan::Quarantined(reason) => {
                Self::error(Cause::Rig, format!("the rig was quarantined {when}: {reason}"))
            }
            NeverBegan::CannotGoOn(why) => Self::error(
                Cause::Operator,
                format!("the daemon was restarted {when}, and {why}; run it again"),
            ),
            NeverBegan::GaveUp(cause, why) => Self::error(*cause, format!("{why}; the run did not begin")),
        }
    }

    /// Returns the ending of a run that the end of a daemon interrupted.
    #[must_use]
    pub fn of_interrupted() -> Self {
        let what = "the daemon ended during the run: its record so far is kept, and the device is restored first; run \
                    it again";
        Self::error(Cause::Tester, what)
    }

    /// Returns the ending of a run whose events could not be stored.
    #[must_use]
    pub fn of_unkept(why: &str) -> Self {
        let reason = format!("the events of the run could not be stored: {why}; then run it again");
        Self::error(Cause::Tester, reason)
    }

    /// Returns the ending of a run that began, from its verdicts. `stopped` tells who stopped the run; `unkept`
    /// tells why its events could not be stored.
    #[must_use]
    pub fn of(end: &WorkerEnd, verdicts: &[Verdict], stopped: Option<&str>, unkept: Option<&str>) -> Self {
        if let Some(why) = unkept {
            return Self::of_unkept(why);
        }
        match end {
            WorkerEnd::Failed { cause, reason, .. } => match stopped {
                Some(stopped) => Self::error(Cause::Operator, format!("{stopped}; {reason}")),
                None => Self::error(*cause, reason.clone()),
            },
            // Only a run that was also stopped, or whose lease ended, gets here. Any other run that gave way waits
            // again.
            WorkerEnd::GaveWay => Self::error(
                Cause::Operator,
                format!(
                    "{}: the run gave way to another after {}",
                    stopped.unwrap_or("its lease ended"),
                    counted(verdicts.len() as u64, "judged test", "judged tests")
                ),
            ),
            WorkerEnd::Finished(_) => of_verdicts(verdicts, stopped),
        }
    }
}

fn of_verdicts(verdicts: &[Verdict], stopped: Option<&str>) -> Ending {
    let skipped = verdicts
        .iter()
        .filter(|verdict| verdict.outcome() == Outcome::Skipped)
        .count();
    let worst = verdicts.iter().map(Verdict::outcome).max();
    let first = verdicts.iter().find(|verdict| Some(verdict.outcome()) == worst);
    if let Some(stopped) = stopped
        && (skipped > 0 || worst == Some(Outcome::Error))
    {
        let judged = |verdict: &&Verdict| !matches!(verdict.outcome(), Outcome::Skipped | Outcome::Error);
        let (judged, all) = (verdicts.iter().filter(judged).count(), verdicts.len());
        return Ending::error(
            Cause::Operator,
            format!("{stopped}: {judged} of {all} tests were judged"),
        );
    }
    match first {
        None => Ending::error(Cause::Tester, "the run ended without a verdict; see its log lines"),
        Some(verdict) if verdict.outcome() == Outcome::Pass => Ending {
            outcome: Outcome::Pass,
            cause: None,
            reason: String::new(),
        },
        Some(verdict) => Ending {
            outcome: verdict.outcome(),
            cause: Some(verdict.cause()).filter(|cause| *cause != Cause::Unspecified),
            reason: format!("{}: {}", verdict.test, verdict.reason),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(outcome: Outcome) -> Verdict {
        let cause = if outcome == Outcome::Fail {
            Cause::Dut
        } else {
            Cause::Unspecified
        };
        Verdict {
            test: "t".into(),
            outcome: outcome.into(),
            cause: cause.into(),
            reason: "because".into(),
            ..Verdict::default()
        }
    }

    fn of(outcomes: &[Outcome], stopped: Option<&str>) -> (Outcome, Option<Cause>, String) {
        let verdicts: Vec<Verdict> = outcomes.iter().map(|outcome| verdict(*outcome)).collect();
        let ending = of_verdicts(&verdicts, stopped);
        (ending.outcome, ending.cause, ending.reason)
    }

    #[test]
    fn run_has_outcome_of_worst_verdict() {
        use Outcome::{Fail, Pass, Skipped};
        assert_eq!(of(&[Pass, Skipped], None), (Pass, None, String::new()));
        assert_eq!(of(&[Pass, Fail], None), (Fail, Some(Cause::Dut), "t: because".into()));
        assert_eq!(of(&[], None).0, Outcome::Error);
    }

    #[test]
    fn stopped_run_is_error_unless_complete() {
        use Outcome::{Error, Fail, Pass, Skipped};
        let (outcome, cause, reason) = of(&[Fail, Skipped], Some("cancelled by uid:7"));
        assert_eq!((outcome, cause), (Error, Some(Cause::Operator)));
        assert_eq!(reason, "cancelled by uid:7: 1 of 2 tests were judged");
        assert_eq!(of(&[Pass, Pass], Some("too late")).0, Pass);
    }
}
