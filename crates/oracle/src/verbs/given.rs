//! Attributes of the queue pair that a rule depends on. A finding shows their values.

use core::time::Duration;

use verbatim_record::duration_words;
use verbatim_record::verbs::pb::QpAttributes;
use verbatim_wire::packet::{AckTimeout, RnrTimer};

use crate::registry::Rule;

/// Name of an attribute, its value, and the time that a code stands for.
type Attribute = (
    &'static str,
    fn(&QpAttributes) -> Option<u32>,
    fn(u8) -> Option<Duration>,
);

const RNR_RETRY: Attribute = ("rnr_retry", |of| of.rnr_retry, |_| None);
const RETRY_CNT: Attribute = ("retry_cnt", |of| of.retry_cnt, |_| None);
const TIMEOUT: Attribute = ("timeout", |of| of.timeout, |code| AckTimeout(code).duration());
const READS: Attribute = ("max_rd_atomic", |of| of.max_rd_atomic, |_| None);
const RNR_TIMER: Attribute = (
    "min_rnr_timer",
    |of| of.min_rnr_timer,
    |code| Some(RnrTimer(code).duration()),
);
const MTU: Attribute = ("path_mtu", |of| of.path_mtu, |_| None);

/// Returns the attributes that a rule depends on.
fn of(rule: Rule) -> &'static [Attribute] {
    match rule {
        Rule::RnrWait | Rule::RnrRetried | Rule::RnrCount | Rule::RnrError | Rule::RnrFails => &[RNR_RETRY],
        Rule::AckTimeout | Rule::TimerRestarts | Rule::TimeoutOff | Rule::UnaskedRetry => &[TIMEOUT],
        Rule::RetryCount | Rule::RetryError | Rule::RetryFails | Rule::NakFails | Rule::NakRetried => {
            &[RETRY_CNT, TIMEOUT]
        }
        Rule::TimeoutRetried | Rule::OutstandingEnds => &[TIMEOUT, RETRY_CNT],
        Rule::InFlight => &[READS],
        Rule::RnrTimer => &[RNR_TIMER],
        Rule::Posted | Rule::InOrder => &[MTU],
        _ => &[],
    }
}

/// Returns the attributes of a rule in words, with the values that the queue pair was given.
pub(super) fn in_words(rule: Rule, given: &QpAttributes) -> Vec<String> {
    let one = |(name, value, means): &Attribute| {
        let value = value(given)?;
        let means = u8::try_from(value).ok().and_then(means);
        let means = means.map_or_else(String::new, |of| format!(" ({})", duration_words(of)));
        Some(format!("{name} {value}{means}"))
    };
    of(rule).iter().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_shown_with_their_meaning() {
        let given = QpAttributes {
            timeout: Some(14),
            retry_cnt: Some(3),
            ..QpAttributes::default()
        };
        assert_eq!(
            in_words(Rule::TimeoutRetried, &given),
            ["timeout 14 (67.11 ms)", "retry_cnt 3"]
        );
        assert!(
            in_words(Rule::RnrWait, &given).is_empty(),
            "an unknown attribute is left out"
        );
    }
}
