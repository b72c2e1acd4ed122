//! Checks: what a judge states, each with statement, expected, seen and evidence.

mod claim;
mod legal;

use core::time::Duration;

pub use verbatim_record_proto::v1::{Check, CheckResult as Passed, Measured, Observation};
use verbatim_wire::{Attribute, Field, Status};

use crate::evidence::Evidence;
use crate::trace::{Exchange, Gap, Trace};

pub use claim::{Claim, Seen};
pub use legal::Legal;

/// What a check comes to that the record decides.
fn of(is_so: bool) -> Passed {
    if is_so { Passed::Pass } else { Passed::Fail }
}

/// Tries after which an unanswered request is no lost packet.
pub const TRIES: u32 = 3;

fn no_answer(exchange: &Exchange) -> String {
    match exchange.response() {
        Some(arrived) => format!("no answer, but {}", arrived.mad),
        None => "no answer".into(),
    }
}

/// What a judge has stated so far.
#[derive(Debug)]
pub struct Findings<'t> {
    trace: &'t Trace,
    /// Checks, in the order made.
    pub checks: Vec<Check>,
    /// Observations, in the order made.
    pub observations: Vec<Observation>,
    /// Why the test does not apply to this device.
    pub not_applicable: Option<String>,
    /// That the oracle judges all of the test, and which of its rules must have been asked for that.
    pub exercises: Option<Vec<&'static str>>,
    /// Rules and statements that need not have been asked, since the device has not what they speak of.
    pub goes_without: Vec<&'static str>,
}

impl<'t> Findings<'t> {
    /// Nothing yet.
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

    /// The test is a stimulus: the oracle judges all of it. These of its rules must have been asked, else the record does not
    /// show what the test is there for.
    pub fn exercises(&mut self, rules: &[impl Copy + Into<&'static str>]) {
        let names = rules.iter().map(|rule| (*rule).into());
        self.exercises.get_or_insert_default().extend(names);
        self.trace.judged_whole();
    }

    /// The test is a stimulus: the oracle judges all of it, and no rule must have been asked.
    pub fn exercises_any(&mut self) {
        self.exercises.get_or_insert_default();
        self.trace.judged_whole();
    }

    /// The device has not what these rules and statements speak of, as its agent says: where nothing was shown of them, that is
    /// told, and leaves nothing open.
    pub fn goes_without(&mut self, names: &[&'static str], why: &str) {
        self.goes_without.extend(names);
        self.observe(format!("nothing is asked about {}: {why}", names.join(", ")), &[]);
    }

    /// Begins a check of a statement; what is looked at is a field's name, or what else says it shortly.
    pub fn claim<'e>(&mut self, statement: &str, about: impl Into<String>) -> Claim<'_, 't, 'e>
    where
        't: 'e,
    {
        Claim::new(self, statement, about.into())
    }

    /// States a check that frames, commands, events or waits show, in one call. True when it passed.
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

    /// As [`Findings::prove`], of a time that was measured: between two instants, and not to be shorter or longer than the
    /// bounds.
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

    /// What an exchange was answered with must hold in these fields what `wanted` holds there. True when all do.
    ///
    /// # Errors
    /// When there was no answer or an error status.
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

    /// The exchange must stay unanswered.
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

    /// The exchange must be answered, with one of these status codes.
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

    /// Silence speaks against a device only if it was asked again, unless no packet can be lost, and if it answered
    /// something later.
    #[must_use]
    pub fn silence_of(&self, exchange: &Exchange) -> Passed {
        let asked_again = self.trace.silences(exchange) >= TRIES as usize || self.trace.begin.simulated;
        if asked_again && self.trace.alive_after(exchange.number) {
            Passed::Fail
        } else {
            Passed::Inconclusive
        }
    }

    /// Something that was seen and decides nothing.
    pub fn observe(&mut self, text: impl Into<String>, evidence: &[&Exchange]) {
        self.note(text.into(), evidence, false);
    }

    /// Something that the architecture leaves open.
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
