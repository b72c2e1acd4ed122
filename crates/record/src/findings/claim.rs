//! A claim: one check in the making. Statement and what it is about, what shows it, what was seen, what must be.

use core::fmt;

use super::{Check, Findings, Passed, of};
use crate::evidence::Evidence;
use crate::label::Label;

/// A check in the making: `f.claim("C14-24", "BaseVersion").on(FOUND).saw(found.base_version()).is(1)`.
#[derive(Debug)]
#[must_use = "a claim that is not ended is no check"]
pub struct Claim<'f, 't, 'e> {
    findings: &'f mut Findings<'t>,
    check: Check,
    shown_by: Vec<Evidence<'e>>,
}

impl<'f, 't: 'e, 'e> Claim<'f, 't, 'e> {
    pub(super) fn new(findings: &'f mut Findings<'t>, statement: &str, about: String) -> Self {
        let check = Check {
            statement: statement.into(),
            about,
            ..Check::default()
        };
        Self {
            findings,
            check,
            shown_by: Vec::new(),
        }
    }

    /// The exchange under a label shows it.
    pub fn on<A>(mut self, label: Label<A>) -> Self {
        self.shown_by
            .extend(self.findings.trace.exchange(label).ok().map(Evidence::from));
        self
    }

    /// This shows it.
    pub fn by(mut self, evidence: impl Into<Evidence<'e>>) -> Self {
        self.shown_by.push(evidence.into());
        self
    }

    /// All of these show it.
    pub fn by_all(mut self, evidence: impl IntoIterator<Item = impl Into<Evidence<'e>>>) -> Self {
        self.shown_by.extend(evidence.into_iter().map(Into::into));
        self
    }

    /// What the record shows.
    pub fn saw<V: fmt::Display>(self, seen: V) -> Seen<'f, 't, 'e, V> {
        Seen { claim: self, seen }
    }

    /// States the check. True when it passed.
    fn end(self, expected: String, seen: String, result: Passed) -> bool {
        // A device that was busy to the end may have done what was asked of it, or not: that is no finding.
        let busy = |shown: &Evidence<'_>| matches!(shown, Evidence::Exchange(exchange) if exchange.is_busy());
        let result = match result {
            Passed::Fail if self.shown_by.iter().any(busy) => Passed::Inconclusive,
            other => other,
        };
        let mut check = Check {
            result: result.into(),
            expected,
            seen,
            ..self.check
        };
        for shown in self.shown_by {
            shown.put(&mut check);
            if result != Passed::Pass {
                check.evidence.push(shown.in_words());
            }
        }
        self.findings.checks.push(check);
        result == Passed::Pass
    }
}

/// A claim that knows what was seen; what must be ends it.
#[derive(Debug)]
#[must_use = "a claim that is not ended is no check"]
pub struct Seen<'f, 't, 'e, V> {
    claim: Claim<'f, 't, 'e>,
    seen: V,
}

impl<'t: 'e, 'e, V: fmt::Display> Seen<'_, 't, 'e, V> {
    /// It must be this. True when it is.
    pub fn is(self, wanted: V) -> bool
    where
        V: PartialEq,
    {
        let result = of(self.seen == wanted);
        self.comes_to(wanted, result)
    }

    /// It must be as `expected` says, and either is or is not. True when it is.
    pub fn must(self, expected: impl fmt::Display, is_so: bool) -> bool {
        self.comes_to(expected, of(is_so))
    }

    /// It must be as `expected` says, and the record came to `result`. True when it passed.
    pub fn comes_to(self, expected: impl fmt::Display, result: Passed) -> bool {
        self.claim.end(expected.to_string(), self.seen.to_string(), result)
    }
}
