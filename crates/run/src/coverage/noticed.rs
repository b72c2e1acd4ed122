//! Counts the defects of the device model that break each rule of the oracle. If no defect breaks a rule, the loss of
//! that rule would go unnoticed.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;
use verbatim_oracle::{Rule, rules};
use verbatim_record_proto::v1::{Check, CheckResult, Verdict};

use super::Told;
use crate::qualify::{AnyDefect, Extent};

/// How often a rule failed in the runs of tests with defects.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize)]
pub struct Noticed {
    /// Failed runs in which the rule failed, with or without other checks.
    pub failed: u64,
    /// Failed runs in which only this rule failed: without the rule, the test would pass.
    pub alone: u64,
}

/// Returns the counts of each rule. For each defect, counts only the runs on one device: the first model and seed
/// on which a test fails.
pub(super) fn noticed(extent: &Extent, told: Told<'_>) -> BTreeMap<&'static str, Noticed> {
    let next = AtomicUsize::new(0);
    let ended = AtomicUsize::new(0);
    let all = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..extent.threads.max(1) {
            scope.spawn(|| {
                while let Some(defect) = extent.defects.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = of_defect(extent, *defect);
                    let mut all = all.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                    for verdict in found {
                        count(&verdict, &mut all);
                    }
                    told(
                        "defects",
                        ended.fetch_add(1, Ordering::Relaxed) + 1,
                        extent.defects.len(),
                    );
                }
            });
        }
    });
    all.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn of_defect(extent: &Extent, defect: AnyDefect) -> Vec<Verdict> {
    let mut states = extent.verdicts_of(defect).map(|verdicts| {
        let failed = |verdict: &Verdict| verdict.findings.iter().any(is_failed);
        verdicts.into_iter().filter(failed).collect::<Vec<_>>()
    });
    states.find(|failed| !failed.is_empty()).unwrap_or_default()
}

fn is_failed(check: &Check) -> bool {
    check.result() == CheckResult::Fail
}

/// Returns whether a rule made this check: the check's text starts with the rule's name, and the packet may follow.
fn is_of(check: &Check, rule: Rule) -> bool {
    let about = check.about.strip_prefix(rule.name());
    check.statement == rule.statement() && about.is_some_and(|rest| rest.is_empty() || rest.starts_with(": "))
}

fn count(verdict: &Verdict, all: &mut BTreeMap<&'static str, Noticed>) {
    let failed: Vec<&Check> = verdict.findings.iter().filter(|check| is_failed(check)).collect();
    for rule in rules() {
        let of_it = failed.iter().filter(|check| is_of(check, rule)).count();
        if of_it > 0 {
            let noticed = all.entry(rule.name()).or_default();
            noticed.failed += 1;
            noticed.alone += u64::from(of_it == failed.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(statement: &str, about: &str, result: CheckResult) -> Check {
        Check {
            statement: statement.into(),
            about: about.into(),
            result: result.into(),
            ..Check::default()
        }
    }

    #[test]
    fn counts_a_rule_alone_without_other_failures() {
        let rule = rules().find(|rule| rule.name() == "msn").unwrap();
        let of_rule = check(rule.statement(), "msn: RC SEND Only", CheckResult::Fail);
        let other = check("C14-16", "M_KeyViolations", CheckResult::Fail);
        // The first check belongs to another rule, and the second did not fail.
        let longer = check(rule.statement(), "msn-something", CheckResult::Fail);
        let open = check("C14-16", "M_KeyViolations", CheckResult::Inconclusive);
        let of = |findings: &[&Check]| {
            let mut all = BTreeMap::new();
            let findings = findings.iter().map(|check| (*check).clone()).collect();
            let verdict = Verdict {
                findings,
                ..Verdict::default()
            };
            count(&verdict, &mut all);
            all.get("msn").map(|noticed| (noticed.failed, noticed.alone))
        };
        assert_eq!(of(&[&of_rule, &of_rule, &open]), Some((1, 1)));
        assert_eq!(of(&[&of_rule, &other]), Some((1, 0)));
        assert_eq!(of(&[&longer, &other]), None);
    }
}
