//! Reasons why a procedure ends early.

use verbatim_record::{StopReason, Stopped};

/// The result of a step of a procedure.
pub type Step<T = ()> = Result<T, Stop>;

/// The reason why a procedure ends early. The reason alone is not a verdict: the judge interprets it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The run was cancelled.
    Cancelled,
    /// The lease of the rig ended.
    LeaseEnded,
    /// The rig was lost, for the given reason.
    RigGone(String),
    /// The rig changed after it was opened. The text gives the cause and the remedy.
    Disturbed(String),
    /// The device did not answer an exchange that the procedure needs. The text gives the label.
    NoAnswer(String),
    /// The device or its host refused a request that the procedure needs. The text gives the details.
    Refused(String),
    /// The device or the rig lacks a capability that the test needs. The text names the capability.
    NotOffered(String),
    /// The tester's own host did not keep up. The record has gaps, and another run may succeed.
    Stalled(String),
    /// The tester itself cannot go on, for the given reason.
    Tester(String),
}

impl Stop {
    /// Returns the entry of the record for this reason.
    #[must_use]
    pub fn to_entry(&self) -> Stopped {
        let (reason, text) = match self {
            Self::Cancelled => (StopReason::Cancelled, "the run was cancelled"),
            Self::LeaseEnded => (StopReason::LeaseEnded, "the lease of the rig ended"),
            Self::RigGone(text) => (StopReason::RigGone, text.as_str()),
            Self::Disturbed(text) => (StopReason::Disturbed, text.as_str()),
            Self::NoAnswer(text) => (StopReason::NoAnswer, text.as_str()),
            Self::Refused(text) => (StopReason::Refused, text.as_str()),
            Self::NotOffered(text) => (StopReason::NotOffered, text.as_str()),
            Self::Stalled(text) => (StopReason::Stalled, text.as_str()),
            Self::Tester(text) => (StopReason::Tester, text.as_str()),
        };
        Stopped {
            reason,
            text: text.into(),
        }
    }

    /// Whether the reason is an unanswered or refused request.
    pub(crate) fn is_about_the_device(&self) -> bool {
        matches!(self, Self::NoAnswer(_) | Self::Refused(_))
    }
}
