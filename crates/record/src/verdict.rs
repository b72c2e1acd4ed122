//! Verdicts: outcome and cause.

use core::fmt;

use serde::{Deserialize, Serialize};

use crate::entry::Restored;
use crate::findings::{Check, Observation};

/// What a test came to. The order is that of gravity: a run never gets better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Outcome {
    /// Not run, with a reason.
    Skipped,
    /// The device or rig lacks what the test is about, with a reason.
    NotApplicable,
    /// Every check passed.
    Pass,
    /// A check could not be decided.
    Inconclusive,
    /// A check failed.
    Fail,
    /// The tester or the rig failed: nothing is known about the device.
    Error,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Skipped => "SKIPPED",
            Self::NotApplicable => "NOT_APPLICABLE",
            Self::Pass => "PASS",
            Self::Inconclusive => "INCONCLUSIVE",
            Self::Fail => "FAIL",
            Self::Error => "ERROR",
        })
    }
}

/// What an outcome is due to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Cause {
    /// The device under test.
    Dut,
    /// Verbatim itself or the host it runs on.
    Tester,
    /// The rig: port, cable, simulator, DUT absent.
    Rig,
    /// Somebody stopped or misconfigured the run.
    Operator,
    /// The architecture leaves it open.
    SpecAmbiguous,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Dut => "DUT",
            Self::Tester => "TESTER",
            Self::Rig => "RIG",
            Self::Operator => "OPERATOR",
            Self::SpecAmbiguous => "SPEC_AMBIGUOUS",
        })
    }
}

/// What a judge says of one test.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// The test's id.
    pub test: String,
    /// Its names in public test suites.
    pub aliases: Vec<String>,
    /// Outcome.
    pub outcome: Outcome,
    /// What the outcome is due to; none with PASS.
    pub cause: Option<Cause>,
    /// Why, in a sentence; empty with PASS.
    pub reason: String,
    /// The statements that the test is about.
    pub statements: Vec<String>,
    /// Failed and undecided checks.
    pub findings: Vec<Check>,
    /// Checks that passed.
    pub passed: Vec<Check>,
    /// What was seen and decides nothing.
    pub observations: Vec<Observation>,
    /// Areas whose restoration is not complete, or whose counters moved.
    pub restored: Vec<Restored>,
}

impl Verdict {
    /// Whether this verdict says that the device breaks that statement.
    #[must_use]
    pub fn fails(&self, statement: &str) -> bool {
        self.findings
            .iter()
            .any(|check| check.is_failure() && check.statement == statement)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_ordered_by_gravity() {
        assert!(Outcome::Pass < Outcome::Inconclusive);
        assert!(Outcome::Inconclusive < Outcome::Fail);
        assert!(Outcome::Fail < Outcome::Error);
    }
}
