//! Names of enumeration values in reports, in JSON and on the command line: the proto names without their prefix.

use core::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Restored;
use crate::v1::{Cause, Check, CheckResult, Outcome, RunState, Verdict};

macro_rules! words {
    ($of:ident, $prefix:literal, [$($value:ident),*]) => {
        impl $of {
            /// Every value except `Unspecified`, in order.
            pub const ALL: &'static [Self] = &[$(Self::$value),*];

            /// Returns the name, such as "NOT_APPLICABLE"; empty if unspecified.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self {
                    Self::Unspecified => "",
                    _ => self.as_str_name().strip_prefix($prefix).unwrap_or_default(),
                }
            }
        }

        impl fmt::Display for $of {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.word())
            }
        }

        impl Serialize for $of {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.word())
            }
        }

        impl<'de> Deserialize<'de> for $of {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = String::deserialize(deserializer)?;
                let known = Self::ALL.iter().copied().find(|value| value.word() == name);
                known.ok_or_else(|| {
                    let all: Vec<&str> = Self::ALL.iter().map(|value| value.word()).collect();
                    D::Error::custom(format!("unknown variant `{name}`, expected one of {}", all.join(", ")))
                })
            }
        }
    };
}

words!(
    Outcome,
    "OUTCOME_",
    [Skipped, NotApplicable, Pass, Inconclusive, Fail, Error]
);
words!(Cause, "CAUSE_", [Dut, Tester, Rig, Operator, SpecAmbiguous]);
words!(CheckResult, "CHECK_RESULT_", [Pass, Inconclusive, Fail]);
words!(RunState, "RUN_STATE_", [Queued, Running, Ended]);

impl Check {
    /// Returns whether the device violates the statement.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        self.result() == CheckResult::Fail
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}: expected {}, seen {}",
            self.statement, self.about, self.expected, self.seen
        )
    }
}

impl Verdict {
    /// Returns whether a check of this statement failed.
    #[must_use]
    pub fn fails(&self, statement: &str) -> bool {
        self.findings
            .iter()
            .any(|check| check.is_failure() && check.statement == statement)
    }
}

impl Restored {
    /// Returns whether all restorable fields of the area have their original values.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.left.is_empty() && self.failure.is_empty()
    }
}

impl fmt::Display for Restored {
    /// Formats the area, and the fields that could not be restored, in one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.area)?;
        let mut separator = ": ";
        for what in self
            .left
            .iter()
            .chain((!self.failure.is_empty()).then_some(&self.failure))
        {
            write!(f, "{separator}{what}")?;
            separator = "; ";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_sorted_by_severity_and_named() {
        assert!(Outcome::ALL.is_sorted());
        let words: Vec<String> = Outcome::ALL.iter().map(ToString::to_string).collect();
        assert_eq!(
            words,
            ["SKIPPED", "NOT_APPLICABLE", "PASS", "INCONCLUSIVE", "FAIL", "ERROR"]
        );
        assert_eq!(Cause::SpecAmbiguous.to_string(), "SPEC_AMBIGUOUS");
    }
}
