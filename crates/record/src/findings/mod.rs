//! Checks: what a judge states, each with statement, expected, seen and evidence.

mod claim;
mod row;

use core::fmt;

use serde::{Deserialize, Serialize};
use verbatim_wire::{Attribute, Field, Status};

use crate::evidence::Evidence;
use crate::trace::{Exchange, Gap, Trace};

pub use claim::{Claim, Seen};
pub use row::{FieldName, Row, field};

/// What a check came to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Passed {
    /// As the statement demands.
    Pass,
    /// Cannot be told from the record.
    Inconclusive,
    /// Against the statement.
    Fail,
}

impl Passed {
    /// What a check comes to that the record decides.
    pub(crate) fn of(is_so: bool) -> Self {
        if is_so { Self::Pass } else { Self::Fail }
    }
}

/// One check of one statement.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Check {
    /// The statement, such as "C14-16".
    pub statement: String,
    /// What it came to.
    pub result: Passed,
    /// What was looked at, such as "M_KeyViolations".
    pub about: String,
    /// What the statement demands here.
    pub expected: String,
    /// What the record shows.
    pub seen: String,
    /// The exchanges that show it, in words with their numbers in the record.
    pub evidence: Vec<String>,
    /// Numbers of these exchanges.
    pub exchanges: Vec<u32>,
    /// Numbers of the frames that show it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<u32>,
}

impl Check {
    /// Whether the device breaks the statement.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        self.result == Passed::Fail
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

/// Something that was seen and decides nothing.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Observation {
    /// What.
    pub text: String,
    /// Whether the architecture leaves it open.
    pub spec_ambiguous: bool,
    /// The exchanges that show it.
    pub exchanges: Vec<u32>,
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
        }
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

    /// What an exchange was answered with must hold in these fields what `wanted` holds there. True when all do.
    ///
    /// # Errors
    /// When there was no answer or an error status.
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
        let asked_again = exchange.attempt + 1 >= TRIES || self.trace.begin.simulated;
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
