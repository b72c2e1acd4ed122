//! Checks that a judge states, each with statement, expected value, seen value and evidence.

mod claim;
mod legal;

use core::time::Duration;

pub use verbatim_record_proto::v1::{Check, CheckResult as Passed, Measured, Observation};
use verbatim_wire::{Attribute, Field, Status};

use crate::evidence::Evidence;
use crate::trace::{Exchange, Gap, Trace};

pub use claim::{Claim, Seen};
pub use legal::Legal;

fn of(is_so: bool) -> Passed {
    if is_so { Passed::Pass } else { Passed::Fail }
}

/// Number of unanswered tries that prove silence: the tests assume that a path never loses three packets in a row.
pub const TRIES: u32 = 3;

fn no_answer(exchange: &Exchange) -> String {
    match exchange.response() {
        Some(arrived) => format!("no answer, but {}", arrived.mad),
        None => "no answer".into(),
    }
}

/// The findings of a judge on one trace.
#[derive(Debug)]
pub struct Findings<'t> {
    trace: &'t Trace,
    /// Checks, in the order of their creation.
    pub checks: Vec<Check>,
    /// Observations, in the order of their creation.
    pub observations: Vec<Observation>,
    /// The reason why the test does not apply to this device.
    pub not_applicable: Option<String>,
    /// The oracle's rules that the test must exercise. If this is `Some`, the oracle judges the whole test.
    pub exercises: Option<Vec<&'static str>>,
    /// Rules and statements that may stay untested, because the device lacks the feature behind them.
    pub goes_without: Vec<&'static str>,
}

impl<'t> Findings<'t> {
    /// Creates empty findings.
    #[must_use]
    pub fn new(trace: &'t Trace) -> Self {
        Self {
            trace,
            checks: Vec::new(),
            observations: Vec::new(),
            not_applicable: None,
            exercises: None,
            goes_without: Vec::new(),
        }
    }

    /// Declares that the oracle judges the whole test, and that the test must exercise these rules. A rule that the
    /// record does not exercise is inconclusive.
    pub fn exercises(&mut self, rules: &[impl Copy + Into<&'static str>]) {
        let names = rules.iter().map(|rule| (*rule).into());
        self.exercises.get_or_insert_default().extend(names);
        self.trace.judged_whole();
    }

    /// Declares that the oracle judges the whole test, without rules that it must exercise.
    pub fn exercises_any(&mut self) {
        self.exercises.get_or_insert_default();
        self.trace.judged_whole();
    }

    /// Declares that the device's agent reports no support for the feature behind these rules and statements. The
    /// rules and statements may stay untested. An observation names them with the reason.
    pub fn goes_without(&mut self, names: &[&'static str], why: &str) {
        self.goes_without.extend(names);
        self.observe(format!("the test does not exercise {}: {why}", names.join(", ")), &[]);
    }

    /// Begins a check of a statement. `about` is the name of a field, or another short subject.
    pub fn claim<'e>(&mut self, statement: &str, about: impl Into<String>) -> Claim<'_, 't, 'e>
    where
        't: 'e,
    {
        Claim::new(self, statement, about.into())
    }

    /// States a check with its evidence in one call. Returns true if it passed.
    pub fn prove(
        &mut self,
        statement: &str,
        evidence: &[Evidence<'_>],
        about: &str,
        (expected, seen): (impl Into<String>, impl Into<String>),
        result: Passed,
    ) -> bool {
        self.claim(statement, about)
            .by_all(evidence.iter().copied())
            .saw(seen.into())
            .comes_to(expected.into(), result)
    }

    /// States a check of a measured time. `span` is the least and greatest possible value of the time; `lower` and
    /// `upper` are the allowed bounds. The other parameters are those of [`Findings::prove`].
    pub fn prove_time(
        &mut self,
        statement: &str,
        evidence: &[Evidence<'_>],
        about: &str,
        (expected, seen): (impl Into<String>, impl Into<String>),
        (span, lower, upper): ((Duration, Duration), Option<Duration>, Option<Duration>),
        result: Passed,
    ) -> bool {
        self.claim(statement, about)
            .by_all(evidence.iter().copied())
            .measured(span, lower, upper)
            .saw(seen.into())
            .comes_to(expected.into(), result)
    }

    /// Checks that these fields of an exchange's response equal the same fields of `wanted`. Returns true if all are
    /// equal.
    ///
    /// # Errors
    /// Returns an error when there was no response, or an error status.
    #[track_caller]
    pub fn same_fields<A: Attribute>(
        &mut self,
        statement: &str,
        exchange: &Exchange,
        fields: &[&'static str],
        wanted: &A,
    ) -> Result<bool, Gap> {
        let seen: A = self.trace.answered(exchange)?;
        let mut all = true;
        for name in fields {
            let field: &Field = A::field(name);
            let bits = |of: &A| (0..field.count).map(|i| field.bits(of.bytes(), i)).collect::<Vec<_>>();
            all &= self
                .claim(statement, field.name)
                .by(exchange)
                .saw(field.words(seen.bytes()))
                .must(field.words(wanted.bytes()), bits(wanted) == bits(&seen));
        }
        Ok(all)
    }

    /// Checks that the exchange stayed without a response. Returns true if the check passed.
    pub fn silent(&mut self, statement: &str, exchange: &Exchange) -> bool {
        let (result, seen) = match exchange.response() {
            Some(arrived) if exchange.is_busy() => (Passed::Inconclusive, format!("{}", arrived.mad)),
            Some(arrived) => (Passed::Fail, format!("{}", arrived.mad)),
            None if exchange.is_silent(&self.trace.begin) => (Passed::Pass, "no answer".into()),
            None => (Passed::Inconclusive, "the wait was too short to prove silence".into()),
        };
        self.claim(statement, "answer")
            .by(exchange)
            .saw(seen)
            .comes_to("no answer", result)
    }

    /// Checks that the exchange's response has one of these status codes. Returns true if the check passed.
    pub fn status(&mut self, statement: &str, exchange: &Exchange, allowed: &[Status]) -> bool {
        let expected = allowed
            .iter()
            .map(|status| format!("status {status}"))
            .collect::<Vec<_>>()
            .join(" or ");
        let (result, seen) = match exchange.answer() {
            Some(arrived) if allowed.contains(&arrived.mad.status()) => {
                (Passed::Pass, format!("status {}", arrived.mad.status()))
            }
            Some(arrived) => (Passed::Fail, format!("status {}", arrived.mad.status())),
            None if exchange.is_waited_out(&self.trace.begin) => (self.silence_of(exchange), no_answer(exchange)),
            None => (
                Passed::Inconclusive,
                "no answer, and the wait was too short to prove it".into(),
            ),
        };
        self.claim(statement, "status")
            .by(exchange)
            .saw(seen)
            .comes_to(expected, result)
    }

    /// Returns the result of a missing response. The result is a failure only if the device responded to a later
    /// request. Unless time is simulated, [`TRIES`] tries of the request must also be unanswered, because a single
    /// packet may be lost.
    #[must_use]
    pub fn silence_of(&self, exchange: &Exchange) -> Passed {
        let asked_again = self.trace.silences(exchange) >= TRIES as usize || self.trace.begin.simulated;
        if asked_again && self.trace.alive_after(exchange.number) {
            Passed::Fail
        } else {
            Passed::Inconclusive
        }
    }

    /// Adds an observation, which does not affect the outcome.
    pub fn observe(&mut self, text: impl Into<String>, evidence: &[&Exchange]) {
        self.note(text.into(), evidence, false);
    }

    /// Adds an observation on behavior that the architecture leaves open.
    pub fn observe_ambiguous(&mut self, text: impl Into<String>, evidence: &[&Exchange]) {
        self.note(text.into(), evidence, true);
    }

    fn note(&mut self, text: String, evidence: &[&Exchange], spec_ambiguous: bool) {
        let exchanges = evidence.iter().map(|exchange| exchange.number).collect();
        self.observations.push(Observation {
            text,
            spec_ambiguous,
            exchanges,
        });
    }
}
