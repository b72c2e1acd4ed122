//! How often each rule judged something in a record.

use std::collections::BTreeMap;

use verbatim_record::{Entry, Trace};

use super::record::connections;
use super::verbs;

/// How often each rule judged something in the record of a test, by the rule's name: those that never did are left out. `None`:
/// the record refers to what it does not have.
#[must_use]
pub fn asked(entries: Vec<Entry>) -> Option<BTreeMap<&'static str, u64>> {
    let trace = Trace::new(entries).ok()?;
    let mut asked = BTreeMap::new();
    for connection in connections(&trace) {
        for (rule, count) in connection.counts() {
            // What another cause may have made was not judged; and what a sound device's record breaks, its peer has sent.
            let judged = count.asked - count.excused - count.broken;
            if judged > 0 {
                *asked.entry(rule.name()).or_default() += judged;
            }
        }
    }
    for held in verbs::rule(&trace).held {
        *asked.entry(held.rule.name()).or_default() += u64::from(held.times);
    }
    Some(asked)
}
