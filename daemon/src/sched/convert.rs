//! What the worker and the store say, in the words of the API.

use prost_types::Timestamp;
use verbatim_proto::v1::watch_run_response::Event;
use verbatim_proto::v1::{self, LogLine, RestoreEnded, RestoredArea, StepStarted, TestEnded, TestStarted};
use verbatim_record::{Cause, Outcome, Restored, Verdict};

use crate::store::RunState;
use crate::worker::WorkerEvent;

/// Nanoseconds since 1970 as a timestamp.
#[must_use]
pub fn timestamp(ns: u64) -> Timestamp {
    Timestamp {
        seconds: i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX),
        nanos: i32::try_from(ns % 1_000_000_000).unwrap_or(0),
    }
}

/// An outcome; "unspecified" when there is none yet.
#[must_use]
pub fn outcome(outcome: Option<Outcome>) -> v1::Outcome {
    match outcome {
        None => v1::Outcome::Unspecified,
        Some(Outcome::Skipped) => v1::Outcome::Skipped,
        Some(Outcome::NotApplicable) => v1::Outcome::NotApplicable,
        Some(Outcome::Pass) => v1::Outcome::Pass,
        Some(Outcome::Inconclusive) => v1::Outcome::Inconclusive,
        Some(Outcome::Fail) => v1::Outcome::Fail,
        Some(Outcome::Error) => v1::Outcome::Error,
    }
}

/// A cause; "unspecified" when there is none.
#[must_use]
pub fn cause(cause: Option<Cause>) -> v1::Cause {
    match cause {
        None => v1::Cause::Unspecified,
        Some(Cause::Dut) => v1::Cause::Dut,
        Some(Cause::Tester) => v1::Cause::Tester,
        Some(Cause::Rig) => v1::Cause::Rig,
        Some(Cause::Operator) => v1::Cause::Operator,
        Some(Cause::SpecAmbiguous) => v1::Cause::SpecAmbiguous,
    }
}

/// A run's state.
#[must_use]
pub fn state(state: RunState) -> v1::RunState {
    match state {
        RunState::Queued => v1::RunState::Queued,
        RunState::Running => v1::RunState::Running,
        RunState::Ended => v1::RunState::Ended,
    }
}

/// A verdict with its findings.
#[must_use]
pub fn verdict(of: &Verdict) -> v1::Verdict {
    v1::Verdict {
        test: of.test.clone(),
        aliases: of.aliases.clone(),
        outcome: outcome(Some(of.outcome)).into(),
        cause: cause(of.cause).into(),
        reason: of.reason.clone(),
        statements: of.statements.clone(),
        findings: of
            .findings
            .iter()
            .map(|check| v1::Finding {
                statement: check.statement.clone(),
                about: check.about.clone(),
                expected: check.expected.clone(),
                seen: check.seen.clone(),
                evidence: check.evidence.clone(),
            })
            .collect(),
    }
}

/// What restoring an area came to.
#[must_use]
pub fn restored(of: &Restored) -> RestoredArea {
    RestoredArea {
        area: of.area.clone(),
        complete: of.is_complete(),
        left: of.left.clone(),
        failure: of.failure.clone(),
    }
}

/// What a worker reports, as an event of the run.
#[must_use]
pub fn event(of: &WorkerEvent) -> Event {
    match of {
        WorkerEvent::Begun(test, place, total) => Event::TestStarted(TestStarted {
            test: test.clone(),
            place: *place,
            total: *total,
        }),
        WorkerEvent::Step(step) => Event::StepStarted(StepStarted { step: step.clone() }),
        WorkerEvent::Ended(ended) => Event::TestEnded(TestEnded {
            verdict: Some(verdict(ended)),
        }),
        WorkerEvent::Recovered(areas) => Event::RestoreEnded(RestoreEnded {
            areas: areas.iter().map(in_words).collect(),
            complete: areas.iter().all(Restored::is_complete),
        }),
        WorkerEvent::Log(text) => Event::LogLine(LogLine { text: text.clone() }),
    }
}

/// What restoring an area came to, in a line.
#[must_use]
pub fn in_words(of: &Restored) -> String {
    if of.is_complete() {
        return of.area.clone();
    }
    let mut what = of.left.clone();
    if !of.failure.is_empty() {
        what.push(of.failure.clone());
    }
    format!("{}: {}", of.area, what.join("; "))
}
