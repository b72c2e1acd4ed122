//! Links each finding of a record to its cause, so that one fault counts as one finding.
//!
//! A finding *accuses* one event: the last event of its evidence. If the finding is about a missing event, it
//! accuses the first event of its evidence, which made the missing event necessary. A finding follows from an
//! earlier finding if
//! * both break the same rule and statement in the same aspect,
//! * both accuse the same event and have the same statement,
//! * both accuse the same event, and the earlier finding is on a [`Layer`] further in,
//! * both accuse the same event on the same [`Layer`], which is neither `Frame` nor `Headers`,
//! * both are on the layer `Content` and have the same statement, but are not about two fields of a port,
//! * the earlier finding accuses another event in the evidence of the later finding, or
//! * the later finding is about a missing event, and the event that demanded it is in the evidence of the earlier one.
//!
//! The test's own judge makes checks, too. Such a check follows from a failed rule that has the same statement, or
//! that has an event of its evidence in common. It also follows from an earlier failed check of the judge for the
//! same field or step. No finding is dropped: a finding with a cause keeps its text and result, and names its cause.

use verbatim_record::{Check, Passed};

use crate::management;
use crate::registry::{Layer, Rule};

/// Sort key of a finding: whether the test's judge made it (sorts last), the accused event, and the layer.
type Key = (bool, u64, Option<Layer>);

/// Sets `follows_from` of each finding that another finding causes. Sorts failed findings before inconclusive findings,
/// and causes before their consequences. Passed checks come last.
pub fn link(checks: &mut Vec<Check>) {
    let (mut found, passed): (Vec<Check>, Vec<Check>) =
        checks.drain(..).partition(|check| check.result() != Passed::Pass);
    let causes: Vec<Option<usize>> = (0..found.len()).map(|at| cause(&found, at)).collect();
    let mut order: Vec<usize> = (0..found.len()).collect();
    order.sort_by_key(|at| (found[*at].result() != Passed::Fail, causes[*at].is_some()));
    for (at, check) in found.iter_mut().enumerate() {
        let number = causes[at].and_then(|cause| order.iter().position(|of| *of == cause));
        check.follows_from = number.and_then(|number| u32::try_from(number).ok());
    }
    let mut found: Vec<Option<Check>> = found.into_iter().map(Some).collect();
    checks.extend(order.into_iter().filter_map(|at| found[at].take()));
    checks.extend(passed);
}

/// Returns the first finding in the chain of causes of a finding; `None` if the finding has no cause.
fn cause(found: &[Check], of: usize) -> Option<usize> {
    let mut at = of;
    loop {
        let place = |of: usize| (key(&found[of]), &found[of].rule, of);
        let leads = (0..found.len()).filter(|other| place(*other) < place(at) && leads_to(&found[*other], &found[at]));
        match leads.min_by_key(|other| place(*other)) {
            Some(earlier) => at = earlier,
            None => return (at != of).then_some(at),
        }
    }
}

fn layer(check: &Check) -> Option<Layer> {
    Rule::named(&check.rule).map(Rule::layer)
}

/// Returns the event that a finding accuses.
fn accused(check: &Check) -> Option<u64> {
    match layer(check) {
        Some(Layer::Missing) => check.places.first().copied(),
        _ => check.places.last().copied(),
    }
}

fn key(check: &Check) -> Key {
    let layer = layer(check);
    (layer.is_none(), accused(check).unwrap_or(u64::MAX), layer)
}

/// Returns whether `cause` explains `other`. `cause` must have the smaller key, so that chains of causes end.
fn leads_to(cause: &Check, other: &Check) -> bool {
    if cause.result() != Passed::Fail {
        return false;
    }
    let is_same_demand =
        cause.statement == other.statement && cause.rule == other.rule && aspect(cause) == aspect(other);
    let (inner, outer) = match (layer(cause), layer(other)) {
        (None, None) => {
            let is_alike = cause.statement == other.statement && letters(&cause.about) == letters(&other.about);
            return is_alike || is_of_one_step(&cause.about, &other.about);
        }
        (None, Some(_)) => return false,
        (Some(_), None) => {
            let is_shown = cause.places.iter().any(|place| other.places.contains(place));
            return cause.statement == other.statement || is_shown;
        }
        (Some(inner), Some(outer)) => (inner, outer),
    };
    let (of_cause, of_other) = (accused(cause), accused(other));
    let is_same_statement = cause.statement == other.statement;
    // Two wrong header fields of one packet may come from two faults, so that neither explains the other.
    let is_next_layer = inner < outer || inner == outer && inner > Layer::Headers;
    let is_on_it = of_cause == of_other && (is_next_layer || is_same_statement);
    let are_fields = cause.rule == other.rule && is_of_a_port(cause);
    let is_on_data = inner == Layer::Content && outer == Layer::Content && is_same_statement && !are_fields;
    let is_premise = of_cause.is_some_and(|place| other.places.contains(&place)) && of_cause != of_other;
    let is_told_of = outer == Layer::Missing && inner < outer && of_other.is_some_and(|of| cause.places.contains(&of));
    is_same_demand || is_on_it || is_on_data || is_premise || is_told_of
}

fn is_of_a_port(check: &Check) -> bool {
    Rule::named(&check.rule).is_some_and(|rule| management::RULES.contains(&rule))
}

/// Returns the aspect that a finding names after its event, such as `late retry`; empty if the finding names no aspect.
fn aspect(check: &Check) -> String {
    // The aspect of a port rule is the attribute's field.
    if is_of_a_port(check) {
        return letters(&check.about);
    }
    let mut parts = check.about.rsplit(": ");
    match (parts.next(), parts.nth(1)) {
        (Some(aspect), Some(_)) => aspect.into(),
        _ => String::new(),
    }
}

/// Returns a text without its digits.
fn letters(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// Returns whether two checks of a test belong to one step. In the text of a check, the name of the step precedes
/// the colon.
fn is_of_one_step(one: &str, other: &str) -> bool {
    let step = |about: &str| about.split_once(": ").map(|(step, _)| step.to_owned());
    step(one).is_some() && step(one) == step(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: &str, statement: &str, places: &[u64]) -> Check {
        Check {
            rule: rule.into(),
            statement: statement.into(),
            places: places.to_vec(),
            result: Passed::Fail.into(),
            ..Check::default()
        }
    }

    fn linked(checks: &[Check]) -> Vec<(String, Option<u32>)> {
        let mut checks = checks.to_vec();
        link(&mut checks);
        checks.iter().map(|of| (of.rule.clone(), of.follows_from)).collect()
    }

    #[test]
    fn outer_layer_of_same_event_follows() {
        let came = linked(&[check("rnr-count", "s", &[4, 7]), check("rnr-wait", "s", &[5, 7])]);
        assert_eq!(came, [("rnr-wait".into(), None), ("rnr-count".into(), Some(0))]);
    }

    #[test]
    fn finding_follows_first_cause_in_premise() {
        let came = linked(&[
            check("completed-by", "s", &[7, 9]),
            check("posted", "t", &[3]),
            check("msn", "u", &[3, 7]),
        ]);
        assert_eq!(
            came,
            [
                ("posted".into(), None),
                ("completed-by".into(), Some(0)),
                ("msn".into(), Some(0))
            ]
        );
    }

    #[test]
    fn two_wrong_port_fields_stay_apart() {
        let field = |name: &str, place| Check {
            about: format!("PortInfo {name}"),
            ..check("kept", "C14-24", &[place])
        };
        let mut checks = vec![
            field("OverrunErrors", 3),
            field("SubnetTimeOut", 4),
            field("OverrunErrors", 5),
        ];
        link(&mut checks);
        let follows: Vec<_> = checks.iter().map(|of| of.follows_from).collect();
        assert_eq!(follows, [None, None, Some(0)]);
    }

    #[test]
    fn unrelated_findings_stay_apart() {
        let came = linked(&[check("msn", "s", &[3]), check("fence", "t", &[8])]);
        assert!(came.iter().all(|(_, follows)| follows.is_none()));
    }

    #[test]
    fn own_check_follows_rule_of_statement() {
        let came = linked(&[check("", "s", &[1]), check("", "t", &[1]), check("fence", "s", &[8])]);
        assert_eq!(came, [("".into(), None), ("fence".into(), None), ("".into(), Some(1))]);
    }
}
