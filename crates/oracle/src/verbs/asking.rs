//! Asks one rule, and collects the answers of all.

use verbatim_record::{Evidence, Passed};

use super::habit::Habit;
use super::talk::Talk;
use crate::rule::Rule;

/// A rule as a function of a connection.
pub(super) type VerbsRule = for<'t> fn(&Talk<'t>, &mut Asking<'_, 't>);

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
}

/// The answers of all rules about a record.
#[derive(Debug, Default)]
pub(crate) struct Ruling<'t> {
    /// Where they do not hold.
    pub(crate) said: Vec<Said<'t>>,
    /// Each rule that was asked, with how often it held.
    pub(crate) held: Vec<(Rule, u32)>,
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
            self.ruling.hold(self.rule, 1);
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
        });
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

impl Ruling<'_> {
    fn hold(&mut self, rule: Rule, times: u32) {
        match self.held.iter_mut().find(|(held, _)| *held == rule) {
            Some((_, held)) => *held += times,
            None => self.held.push((rule, times)),
        }
    }
}
