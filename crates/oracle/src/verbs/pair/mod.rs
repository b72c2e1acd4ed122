//! Rules for connections between two adapters, from the verbs of both hosts alone.
//!
//! The tester sees no packets of such a connection. The rules compute the outcome of each request from the attributes,
//! posts, receives and memory of both ends, and compare it with completions, events, states, memory and times.
//!
//! **Blame.** A wrong outcome may be the fault of either end. A violation is the device's if only its own end can cause
//! it, such as two completions of one request. For all other violations there is a *control*: a connection of the
//! tester's adapter with itself, with the same attributes and the same posts. If the control is right, the violation is
//! the device's. If the control is wrong in the same way, or missing, the violation is inconclusive, and its text
//! names both ends. A fault that the tester's adapter commits at both ends of the control, so that it cancels out, is
//! not seen.

mod end;
mod ends;
mod fate;
mod memory;
mod talk;

use core::time::Duration;

use verbatim_record::{Evidence, Side, Trace, WcStatus};

use super::asking::{Asking, RuleFinding, Ruling};
use super::qp_trace::EVENT_WAIT;
use crate::rule::Rule;
use ends::{Pair, pairs};
use memory::Images;

/// All rules about connections between two adapters.
pub(super) const RULES: &[Rule] = &[
    Rule::PairCompletes,
    Rule::PairOnce,
    Rule::PairDone,
    Rule::PairRnrRetry,
    Rule::PairRnrError,
    Rule::PairRnrWait,
    Rule::PairRetryError,
    Rule::PairTimeout,
    Rule::PairSequence,
    Rule::PairDuplicate,
    Rule::PairInvalid,
    Rule::PairAccess,
    Rule::PairOperational,
    Rule::PairLocal,
    Rule::PairFlushed,
    Rule::PairRefused,
    Rule::PairEvent,
    Rule::PairReceive,
    Rule::PairExecuted,
    Rule::PairSent,
    Rule::PairReadData,
    Rule::PairAtomic,
];

/// The cause of a violation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    End(Side),
    Either,
    /// Packets may be lost or late.
    Loss,
}

/// A violation: rule, possible cause, words (event, expected, seen) and evidence.
struct Broken<'t> {
    rule: Rule,
    by: By,
    words: (String, String, String),
    evidence: Vec<Evidence<'t>>,
}

/// A case in which a rule held.
struct Held<'t> {
    rule: Rule,
    words: String,
    /// The seen time and its lower bound.
    time: Option<(Duration, Duration)>,
    evidence: Vec<Evidence<'t>>,
}

/// Outcomes of the rules for one connection.
#[derive(Default)]
struct Report<'t> {
    broken: Vec<Broken<'t>>,
    held: Vec<Held<'t>>,
}

impl<'t> Report<'t> {
    fn held(&mut self, rule: Rule, words: String, evidence: impl IntoIterator<Item = Evidence<'t>>) {
        self.held.push(Held {
            rule,
            words,
            time: None,
            evidence: evidence.into_iter().collect(),
        });
    }

    fn in_time(&mut self, rule: Rule, time: (Duration, Duration), evidence: impl IntoIterator<Item = Evidence<'t>>) {
        self.held.push(Held {
            rule,
            words: String::new(),
            time: Some(time),
            evidence: evidence.into_iter().collect(),
        });
    }

    fn broken(
        &mut self,
        (rule, by): (Rule, By),
        words: (String, String, String),
        evidence: impl IntoIterator<Item = Evidence<'t>>,
    ) {
        self.broken.push(Broken {
            rule,
            by,
            words,
            evidence: evidence.into_iter().collect(),
        });
    }
}

/// Applies the rules to each connection between the device and the tester's adapter.
pub(super) fn rule<'t>(trace: &'t Trace, ruling: &mut Ruling<'t>) {
    let (subjects, controls) = pairs(trace);
    for (at, subject) in subjects.iter().enumerate() {
        let next = subjects.get(at + 1).map_or(usize::MAX, Pair::begin);
        let mut later = controls.iter();
        let control = later.find(|control| (subject.begin()..next).contains(&control.begin()));
        let report = of_pair(subject);
        let of_control = control.filter(|_| !report.broken.is_empty()).map(of_pair);
        for held in report.held {
            let mut asking = asking(held.rule, ruling);
            match held.time {
                Some(time) => asking.at_least(time, held.evidence),
                None => asking.held(held.words, held.evidence),
            }
        }
        for broken in report.broken {
            let kind = kind(broken.rule);
            let is_right = |control: &Report<'_>| control.broken.iter().all(|other| self::kind(other.rule) != kind);
            let Some((result, causes)) = talk::blame(broken.by, of_control.as_ref().map(is_right)) else {
                continue;
            };
            let (about, expected, seen) = broken.words;
            ruling.said.push(RuleFinding {
                rule: broken.rule,
                about,
                expected,
                seen: seen + causes,
                evidence: broken.evidence,
                result,
                habit: None,
                given: Vec::new(),
            });
        }
    }
}

/// Returns the rule that a control breaks in the same way. A control has no device under test, so that its messages
/// are sent and executed by the tester's adapter.
fn kind(rule: Rule) -> Rule {
    match rule {
        Rule::PairSent => Rule::PairExecuted,
        rule => rule,
    }
}

fn asking<'r, 't>(rule: Rule, ruling: &'r mut Ruling<'t>) -> Asking<'r, 't> {
    Asking {
        rule,
        ruling,
        habit: None,
    }
}

fn of_pair<'t>(pair: &Pair<'t>) -> Report<'t> {
    let mut report = Report::default();
    let posts = pair.ends.iter().filter(|end| !end.sends.is_empty()).count();
    let is_error = |told: &ends::Told<'_>| told.status() != WcStatus::SUCCESS;
    let has_failed = pair.ends.iter().any(|end| end.completions.iter().any(is_error));
    for end in &pair.ends {
        talk::once(end, &mut report);
    }
    // A failure in one direction ends the other one at an unknown moment.
    if posts == 0 || posts == 2 && has_failed || pair.ends.iter().any(|end| end.was_reset() && !end.sends.is_empty()) {
        return report;
    }
    let mut images = Images::of(pair.trace, memory::extent(pair));
    let mut talks = Vec::new();
    for asker in [0, 1] {
        talks.push(talk::follow(pair, asker, &mut images, &mut report));
    }
    end::receives(pair, &talks, &mut report);
    end::failed(pair, &talks, &mut report);
    if posts == 1 {
        end::memory(pair, &talks, &images, &mut report);
    }
    report
}

#[cfg(test)]
mod tests {
    use verbatim_archives::golden;
    use verbatim_record::verbs::{Command, Reply};
    use verbatim_record::{Entry, Passed, Trace};

    use super::*;

    /// A device that retries once less than rnr_retry says, between two adapters and their controls.
    const TOO_FEW: &str = "c09-pair-rnr-retry@rnr-retry-one-too-few";

    fn results(entries: Vec<Entry>) -> Vec<(Rule, Passed, String)> {
        let trace = Trace::new(entries).unwrap();
        let mut ruling = Ruling::default();
        rule(&trace, &mut ruling);
        let said = ruling.said.into_iter();
        said.map(|said| (said.rule, said.result, said.seen)).collect()
    }

    #[test]
    fn sound_control_blames_the_device() {
        let found = results(golden::entries(TOO_FEW));
        assert!(!found.is_empty());
        assert!(found.iter().all(|(_, result, _)| *result == Passed::Fail), "{found:?}");
        assert_eq!(results(golden::entries("c09-pair-rnr-retry")).len(), 0);
    }

    #[test]
    fn without_control_either_end_is_named() {
        let mut entries = golden::entries(TOO_FEW);
        let gids = entries.iter().find_map(|entry| match entry {
            Entry::VerbsAnswered(answered) => match &answered.reply {
                Reply::Opened(facts) if facts.gids.iter().any(|gid| gid.gid.ends_with(&[10, 0, 0, 3])) => {
                    Some(facts.gids.clone())
                }
                _ => None,
            },
            _ => None,
        });
        let gids = gids.expect("the tester's adapter has the address 10.0.0.3");
        for entry in &mut entries {
            if let Entry::VerbsAsked(asked) = entry
                && asked.side == Side::Tester
                && let Command::ModifyQp(of) = &mut asked.command
                && let Some(given) = &mut of.attributes
                && let Some(address) = &given.address
                && gids.iter().any(|gid| gid.gid == address.dgid)
            {
                given.dest_qpn = Some(1);
            }
        }
        let found = results(entries);
        let named = |(_, result, seen): &(Rule, Passed, String)| {
            *result == Passed::Inconclusive && seen.contains("either end may have caused this")
        };
        assert!(found.iter().any(named), "{found:?}");
        assert!(found.iter().all(|(_, result, _)| *result != Passed::Fail), "{found:?}");
    }
}
