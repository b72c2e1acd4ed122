//! Counts how often each rule was applied in a record.

use std::collections::BTreeMap;

use verbatim_record::{Entry, Trace};

use super::record::connections;
use super::verbs;

/// Returns the number of packets and events that obeyed each rule in the record of a test, by the rule's name. Lists
/// only rules with at least one such packet or event. Returns `None` if the entries are not a valid record.
#[must_use]
pub fn applications(entries: Vec<Entry>) -> Option<BTreeMap<&'static str, u64>> {
    let trace = Trace::new(entries).ok()?;
    let mut applications = BTreeMap::new();
    for connection in connections(&trace) {
        for (rule, count) in connection.counts() {
            // Violations are not counted. An excused violation proves nothing. If the device conforms, the tester's
            // peer broke the rule on purpose.
            let judged = count.asked - count.excused - count.broken;
            if judged > 0 {
                *applications.entry(rule.name()).or_default() += judged;
            }
        }
    }
    for held in verbs::rule(&trace).held {
        *applications.entry(held.rule.name()).or_default() += u64::from(held.times);
    }
    Some(applications)
}
