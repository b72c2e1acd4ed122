//! Application of one rule, and the collected outcomes of all rules.

use core::time::Duration;

use verbatim_record::{Evidence, Passed, duration_words};

use super::habit::Habit;
use super::qp_trace::QpTrace;
use crate::rule::Rule;

/// Slack of a case that has a value in words but no bound. A report shows such a case rather than a case with
/// evidence only.
const SPOKEN: f64 = 1e9;

/// Rule as a function of a connection.
pub(super) type VerbsRule = for<'t> fn(&QpTrace<'t>, &mut Asking<'_, 't>);

/// Violation, or undecided case, of a rule at one event.
#[derive(Clone, Debug)]
pub(crate) struct RuleFinding<'t> {
    pub(crate) rule: Rule,
    /// Event that the outcome is about.
    pub(crate) about: String,
    pub(crate) expected: String,
    pub(crate) seen: String,
    pub(crate) evidence: Vec<Evidence<'t>>,
    /// `Fail` or `Inconclusive`; or `Unspecified` if the host refused the command, so that the rule is not judged.
    pub(crate) result: Passed,
    /// Habit of the device that causes the outcome.
    pub(crate) habit: Option<Habit>,
    /// Attributes of the queue pair that the rule depends on, in words.
    pub(crate) given: Vec<String>,
}

/// Number of times that a rule held, and the case that came closest to a violation.
#[derive(Clone, Debug)]
pub(crate) struct RuleHeld<'t> {
    pub(crate) rule: Rule,
    pub(crate) times: u32,
    /// Value and bound of the closest case, in words; empty if the case has no value.
    pub(crate) closest: String,
    /// Distance of the closest case from the bound, as a fraction of the bound.
    pub(crate) slack: f64,
    pub(crate) evidence: Vec<Evidence<'t>>,
}

/// Outcomes of all rules for a record.
#[derive(Debug, Default)]
pub(crate) struct Ruling<'t> {
    /// Violations and undecided cases.
    pub(crate) said: Vec<RuleFinding<'t>>,
    /// Rules that were applied and held.
    pub(crate) held: Vec<RuleHeld<'t>>,
}

/// Rule that is being applied.
pub(super) struct Asking<'r, 't> {
    pub(super) rule: Rule,
    pub(super) ruling: &'r mut Ruling<'t>,
    /// Habit that causes the next outcome, unless the rule holds.
    pub(super) habit: Option<Habit>,
}

impl<'t> Asking<'_, 't> {
    /// Sets [`Self::habit`].
    pub(super) fn due_to(&mut self, habit: Option<Habit>) -> &mut Self {
        self.habit = habit;
        self
    }

    /// Notes the outcome for one event. `words` returns the event, the expected and the seen behaviour.
    pub(super) fn say(
        &mut self,
        result: Passed,
        evidence: impl IntoIterator<Item = Evidence<'t>>,
        words: impl FnOnce() -> (String, String, String),
    ) {
        let habit = self.habit.take();
        if result == Passed::Pass {
            self.ruling.hold(self.rule, evidence, String::new(), f64::MAX);
            return;
        }
        let (about, expected, seen) = words();
        self.ruling.said.push(RuleFinding {
            rule: self.rule,
            about,
            expected,
            seen,
            evidence: evidence.into_iter().collect(),
            result,
            habit,
            given: Vec::new(),
        });
    }

    /// Notes that the rule holds: the seen time `value` is not below the allowed minimum `bound`. Only the closest case
    /// is stored.
    pub(super) fn at_least(
        &mut self,
        (value, bound): (Duration, Duration),
        evidence: impl IntoIterator<Item = Evidence<'t>>,
    ) {
        self.habit = None;
        let words = format!("{}, at least {}", duration_words(value), duration_words(bound));
        let slack = value.as_secs_f64() / bound.as_secs_f64().max(f64::MIN_POSITIVE) - 1.0;
        self.ruling.hold(self.rule, evidence, words, slack);
    }

    /// Notes that the rule holds for one event, with the value in words.
    pub(super) fn held(&mut self, words: String, evidence: impl IntoIterator<Item = Evidence<'t>>) {
        self.habit = None;
        self.ruling.hold(self.rule, evidence, words, SPOKEN);
    }

    /// Notes for one event whether the rule holds.
    pub(super) fn must(
        &mut self,
        is_so: bool,
        evidence: impl IntoIterator<Item = Evidence<'t>>,
        words: impl FnOnce() -> (String, String, String),
    ) {
        let result = if is_so { Passed::Pass } else { Passed::Fail };
        self.say(result, evidence, words);
    }
}

impl<'t> Ruling<'t> {
    fn hold(&mut self, rule: Rule, evidence: impl IntoIterator<Item = Evidence<'t>>, closest: String, slack: f64) {
        let Some(held) = self.held.iter_mut().find(|held| held.rule == rule) else {
            let evidence = evidence.into_iter().collect();
            self.held.push(RuleHeld {
                rule,
                times: 1,
                closest,
                slack,
                evidence,
            });
            return;
        };
        held.times += 1;
        if slack < held.slack || slack <= held.slack && held.evidence.is_empty() {
            (held.closest, held.slack) = (closest, slack);
            held.evidence = evidence.into_iter().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closest_case_stands_for_all() {
        let mut ruling = Ruling::default();
        let mut asking = Asking {
            rule: Rule::RnrWait,
            ruling: &mut ruling,
            habit: None,
        };
        let ms = Duration::from_millis;
        for waited in [30, 11, 20] {
            asking.at_least((ms(waited), ms(10)), []);
        }
        asking.must(true, [], Default::default);
        let [held] = &ruling.held[..] else {
            panic!("one rule was asked");
        };
        assert_eq!((held.times, held.closest.as_str()), (4, "11.00 ms, at least 10.00 ms"));
    }
}
