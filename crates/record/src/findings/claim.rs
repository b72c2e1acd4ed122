//! Builds one check: statement, subject, evidence, seen value and expected value.

use core::fmt;
use core::time::Duration;

use verbatim_record_proto::v1::Measured;

use super::{Check, Findings, Passed, of};
use crate::evidence::Evidence;
use crate::label::Label;

/// A check under construction: `f.claim("C14-24", "BaseVersion").on(FOUND).saw(found.base_version()).is(1)`.
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

    /// Adds the exchange under a label to the evidence.
    pub fn on<A>(mut self, label: Label<A>) -> Self {
        self.shown_by
            .extend(self.findings.trace.exchange(label).ok().map(Evidence::from));
        self
    }

    /// Adds one item to the evidence.
    pub fn by(mut self, evidence: impl Into<Evidence<'e>>) -> Self {
        self.shown_by.push(evidence.into());
        self
    }

    /// Adds items to the evidence.
    pub fn by_all(mut self, evidence: impl IntoIterator<Item = impl Into<Evidence<'e>>>) -> Self {
        self.shown_by.extend(evidence.into_iter().map(Into::into));
        self
    }

    /// Names the oracle's rule behind the check.
    pub fn rule(mut self, name: &str) -> Self {
        self.check.rule = name.into();
        self
    }

    /// Adds the state that the check depends on, as text.
    pub fn given(mut self, words: impl IntoIterator<Item = String>) -> Self {
        self.check.given.extend(words);
        self
    }

    /// Sets how many times the check was made. The check shows the case closest to its bound.
    pub fn times(mut self, times: u32) -> Self {
        self.check.times = times;
        self
    }

    /// Adds a measured time: its least and greatest possible value, then the lower and upper bound that apply to it.
    pub fn measured(
        mut self,
        (least, most): (Duration, Duration),
        lower: impl Into<Option<Duration>>,
        upper: impl Into<Option<Duration>>,
    ) -> Self {
        self.check.measured = Some(measured((least, most), lower.into(), upper.into()));
        self
    }

    /// Sets the seen value.
    pub fn saw<V: fmt::Display>(self, seen: V) -> Seen<'f, 't, 'e, V> {
        Seen { claim: self, seen }
    }

    /// Adds the check to the findings. Returns true if it passed.
    fn end(self, expected: String, seen: String, result: Passed) -> bool {
        // A busy device may or may not have carried out the request, so its response cannot prove a failure.
        let busy = |shown: &Evidence<'_>| matches!(shown, Evidence::Exchange(exchange) if exchange.is_busy());
        let result = match result {
            Passed::Fail if self.shown_by.iter().any(busy) => Passed::Inconclusive,
            other => other,
        };
        let stretch = self.findings.trace.begin.stretch();
        let result = match &self.check.measured {
            Some(measured) => as_far_as_known(measured, stretch, result),
            None => result,
        };
        let mut check = Check {
            result: result.into(),
            expected,
            seen,
            ..self.check
        };
        for shown in self.shown_by {
            shown.put(&mut check);
            check.places.push(shown.place());
            if result != Passed::Pass {
                check.evidence.push(shown.in_words());
            }
        }
        self.findings.checks.push(check);
        result == Passed::Pass
    }
}

/// Converts a measured time to the form of a check.
fn measured((least, most): (Duration, Duration), lower: Option<Duration>, upper: Option<Duration>) -> Measured {
    let ns = |of: Duration| u64::try_from(of.as_nanos()).unwrap_or(u64::MAX);
    Measured {
        least_ns: ns(least),
        most_ns: ns(most),
        lower_ns: lower.map(ns),
        upper_ns: upper.map(ns),
    }
}

/// Makes a result inconclusive if it depends on the speed of the device's clock, and that speed varies. A recorded time
/// may have been up to `stretch` times as long on the device.
fn as_far_as_known(measured: &Measured, stretch: f64, result: Passed) -> Passed {
    if stretch <= 1.0 {
        return result;
    }
    let most = measured.most_ns as f64 * stretch;
    let too_short = measured.lower_ns.is_some_and(|lower| most < lower as f64);
    let too_long = measured.upper_ns.is_some_and(|upper| measured.least_ns > upper);
    let may_be_too_long = measured.upper_ns.is_some_and(|upper| most > upper as f64);
    match result {
        Passed::Fail if !too_short && !too_long => Passed::Inconclusive,
        Passed::Pass if may_be_too_long => Passed::Inconclusive,
        other => other,
    }
}

/// A check with its seen value. The expected value completes the check.
#[derive(Debug)]
#[must_use = "a claim that is not ended is no check"]
pub struct Seen<'f, 't, 'e, V> {
    claim: Claim<'f, 't, 'e>,
    seen: V,
}

impl<'t: 'e, 'e, V: fmt::Display> Seen<'_, 't, 'e, V> {
    /// Passes if the seen value equals `wanted`. Returns true if the check passed.
    pub fn is(self, wanted: V) -> bool
    where
        V: PartialEq,
    {
        let result = of(self.seen == wanted);
        self.comes_to(wanted, result)
    }

    /// Passes if `is_so` is true; `expected` describes the condition. Returns true if the check passed.
    pub fn must(self, expected: impl fmt::Display, is_so: bool) -> bool {
        self.comes_to(expected, of(is_so))
    }

    /// Completes the check with `result`; `expected` describes the condition. Returns true if the check passed.
    pub fn comes_to(self, expected: impl fmt::Display, result: Passed) -> bool {
        self.claim.end(expected.to_string(), self.seen.to_string(), result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varying_speed_weakens_results() {
        let ms = Duration::from_millis;
        let came = |span: (u64, u64), lower: Option<u64>, upper: Option<u64>, result| {
            let measured = measured((ms(span.0), ms(span.1)), lower.map(ms), upper.map(ms));
            as_far_as_known(&measured, 4.0, result)
        };
        // A recorded time of 8 to 9 ms may be 8 to 36 ms on the device: more than 5 ms, and perhaps more than 10 ms.
        assert_eq!(came((8, 9), Some(10), None, Passed::Fail), Passed::Inconclusive);
        assert_eq!(came((1, 2), Some(10), None, Passed::Fail), Passed::Fail);
        assert_eq!(came((8, 9), None, Some(5), Passed::Fail), Passed::Fail);
        assert_eq!(came((8, 9), Some(5), None, Passed::Pass), Passed::Pass);
        assert_eq!(came((8, 9), Some(5), Some(20), Passed::Pass), Passed::Inconclusive);
        assert_eq!(came((8, 9), Some(5), Some(40), Passed::Pass), Passed::Pass);
        let measured = measured((ms(8), ms(9)), Some(ms(10)), None);
        assert_eq!(as_far_as_known(&measured, 1.0, Passed::Fail), Passed::Fail);
    }
}
