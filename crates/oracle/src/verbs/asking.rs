//! RequestKind one rule, and collects the answers of all.

use core::time::Duration;

use verbatim_record::{Evidence, Passed, duration_words};

use super::habit::Habit;
use super::qp_trace::QpTrace;
use crate::rule::Rule;

/// The slack of a case without a bound whose value is in words: it is shown before one that has only its evidence.
const SPOKEN: f64 = 1e9;

/// A rule as a function of a connection.
pub(super) type VerbsRule = for<'t> fn(&QpTrace<'t>, &mut Asking<'_, 't>);

/// The answer of a rule about one event.
#[derive(Clone, Debug)]
pub(crate) struct Said<'t> {
    pub(crate) rule: Rule,
    /// Which event.
    pub(crate) about: String,
    pub(crate) expected: String,
    pub(crate) seen: String,
    pub(crate) evidence: Vec<Evidence<'t>>,
    /// Broken, or undecided; unspecified: the host refused it, so that nothing is said of it.
    pub(crate) result: Passed,
    /// The habit of the device that brings it about.
    pub(crate) habit: Option<Habit>,
    /// The attributes that the rule rests on, in words.
    pub(crate) given: Vec<String>,
}

/// How often a rule held, and its closest case.
#[derive(Clone, Debug)]
pub(crate) struct Kept<'t> {
    pub(crate) rule: Rule,
    pub(crate) times: u32,
    /// Value and bound of the closest case, in words; empty where the evidence is the value.
    pub(crate) closest: String,
    /// How far that case is from the bound, in parts of the bound.
    pub(crate) slack: f64,
    pub(crate) evidence: Vec<Evidence<'t>>,
}

/// The answers of all rules about a record.
#[derive(Debug, Default)]
pub(crate) struct Ruling<'t> {
    /// Where they do not hold.
    pub(crate) said: Vec<Said<'t>>,
    /// Each rule that was asked and held.
    pub(crate) held: Vec<Kept<'t>>,
}

/// A rule that is being asked.
pub(super) struct Asking<'r, 't> {
    pub(super) rule: Rule,
    pub(super) ruling: &'r mut Ruling<'t>,
    /// The habit that the next result is due to, if it does not hold.
    pub(super) habit: Option<Habit>,
}

impl<'t> Asking<'_, 't> {
    /// The next result is due to a habit of the device, if it does not hold.
    pub(super) fn due_to(&mut self, habit: Option<Habit>) -> &mut Self {
        self.habit = habit;
        self
    }

    /// Notes the result for one event. `words` are the event, the expected and the seen behaviour.
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
        self.ruling.said.push(Said {
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

    /// Notes a time that holds: it was at least `value`, and must be at least `bound`. The closest case of a rule stands for all.
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

    /// Notes that it holds for one event, with the value in words.
    pub(super) fn held(&mut self, words: String, evidence: impl IntoIterator<Item = Evidence<'t>>) {
        self.habit = None;
        self.ruling.hold(self.rule, evidence, words, SPOKEN);
    }

    /// Notes for one event whether the demand `is_so`.
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
            self.held.push(Kept {
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
    fn the_case_nearest_to_its_bound_stands_for_all() {
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
