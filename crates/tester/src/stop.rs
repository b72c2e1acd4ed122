//! Why a procedure ends before its end.

use verbatim_record::{StopReason, Stopped};

/// The result of a step of a procedure.
pub type Step<T = ()> = Result<T, Stop>;

/// Why a procedure ends before its end. Never a verdict: what it means is for the judge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// Somebody cancelled the run.
    Cancelled,
    /// The lease of the rig ended.
    LeaseEnded,
    /// The rig is gone: why.
    RigGone(String),
    /// The rig did not stay what it was when it was opened: what came between, and the remedy.
    Disturbed(String),
    /// An exchange that the procedure needs was not answered: its label.
    NoAnswer(String),
    /// An exchange that the procedure needs was refused: label and status.
    Refused(String),
    /// The device has not what the test is about: what it said.
    NotOffered(String),
    /// The tester's own host did not keep up: what is recorded has holes, and the next test may go better.
    Stalled(String),
    /// The tester itself cannot go on: why.
    Tester(String),
}

impl Stop {
    /// What a record says of it.
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

    /// Whether the procedure may go on although this happened: only an unanswered or refused exchange.
    pub(crate) fn is_about_the_device(&self) -> bool {
        matches!(self, Self::NoAnswer(_) | Self::Refused(_))
    }
}
