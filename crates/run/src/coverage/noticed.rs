//! Which rules of the oracle a defect of the device model breaks: one that none does could be left out, and nobody would notice.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;
use verbatim_oracle::{Rule, rules};
use verbatim_record_proto::v1::{Check, CheckResult, Verdict};

use super::Told;
use crate::qualify::{AnyDefect, Extent};

/// In how many cases of defects a rule failed.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize)]
pub struct Noticed {
    /// Beside other checks, or by itself.
    pub failed: u64,
    /// By itself: without the rule the test would have passed.
    pub alone: u64,
}

/// Of each rule in how many cases it failed: each defect with all tests of its statement, in the first state of a model in which
/// one of them fails.
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

/// Whether a check is what a rule says: it is named after it, with what it speaks of behind that.
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
    fn a_rule_is_alone_where_no_other_check_failed() {
        let rule = rules().find(|rule| rule.name() == "msn").unwrap();
        let of_rule = check(rule.statement(), "msn: RC SEND Only", CheckResult::Fail);
        let other = check("C14-16", "M_KeyViolations", CheckResult::Fail);
        // Named after another rule, and not failed.
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
