//! The filter of ListRuns.
//!
//! ```text
//! filter   = [ term { " AND " term } ]
//! term     = "rig=" NAME | "owner=me" | "state=" states | "outcome=" outcomes
//! states   = state { "|" state }
//! outcomes = outcome { "|" outcome }
//! state    = "QUEUED" | "RUNNING" | "ENDED"
//! outcome  = "SKIPPED" | "NOT_APPLICABLE" | "PASS" | "INCONCLUSIVE" | "FAIL" | "ERROR"
//! ```
//!
//! Each key may appear at most once. Spaces around terms, "=" and "|" are ignored. States and outcomes may be in any
//! case.

use verbatim_proto::v1::{Outcome, RunState};

use crate::access::Identity;
use crate::store::Filter;

const EXPECTED: &str =
    "expected terms joined by \" AND \", each rig=NAME, owner=me, state=QUEUED|RUNNING|ENDED or outcome=PASS|FAIL|…";

/// Parses a filter of the caller `me`. The error shows the expected form and the given text.
pub(super) fn parse(text: &str, me: &Identity) -> Result<Filter, String> {
    let mut filter = Filter::default();
    if text.trim().is_empty() {
        return Ok(filter);
    }
    let mut seen = Vec::new();
    for term in text.split(" AND ").map(str::trim) {
        let (key, value) = term
            .split_once('=')
            .map(|(key, value)| (key.trim(), value.trim()))
            .ok_or_else(|| format!("{EXPECTED}; seen {term:?}"))?;
        if seen.contains(&key) {
            return Err(format!("expected {key} at most once, seen it again in {term:?}"));
        }
        seen.push(key);
        match key {
            "rig" => filter.rig = Some(rig(value)?),
            "owner" if value == "me" => filter.owner = Some(me.clone()),
            "state" => filter.states = values(key, value, RunState::ALL)?,
            "outcome" => filter.outcomes = values(key, value, Outcome::ALL)?,
            _ => return Err(format!("{EXPECTED}; seen {term:?}")),
        }
    }
    Ok(filter)
}

fn rig(value: &str) -> Result<String, String> {
    let name = value.strip_prefix("rigs/").unwrap_or(value);
    if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c == '/' || c == '=') {
        return Err(format!("expected the name of a rig after rig=, seen {value:?}"));
    }
    Ok(name.into())
}

fn values<T: Copy + ToString>(key: &str, text: &str, known: &[T]) -> Result<Vec<T>, String> {
    let value = |word: &str| {
        let word = word.trim();
        let found = known.iter().find(|value| value.to_string().eq_ignore_ascii_case(word));
        found.copied().ok_or_else(|| {
            let names: Vec<String> = known.iter().map(ToString::to_string).collect();
            format!("expected {key}= one or more of {}, seen {word:?}", names.join("|"))
        })
    };
    text.split('|').map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: Identity = Identity::User(7);

    #[test]
    fn parses_terms_in_any_order() {
        let filter = parse("outcome=FAIL|error AND rig = rigs/b-1 AND state=ENDED", &ME).unwrap();
        assert_eq!(filter.rig.as_deref(), Some("b-1"));
        assert_eq!(parse("owner=me", &ME).unwrap().owner, Some(ME));
        assert_eq!(filter.states, [RunState::Ended]);
        assert_eq!(filter.outcomes, [Outcome::Fail, Outcome::Error]);
        assert_eq!(parse(" ", &ME), Ok(Filter::default()));
    }

    #[test]
    fn error_shows_expected_form() {
        for (wrong, expected) in [
            ("rig", "rig=NAME"),
            ("uid=3", "rig=NAME"),
            ("rig=", "the name of a rig"),
            ("rig=a b", "the name of a rig"),
            ("state=DONE", "QUEUED|RUNNING|ENDED"),
            ("outcome=", "PASS"),
            ("state=ENDED AND state=QUEUED", "at most once"),
            ("rig=a OR rig=b", "the name of a rig"),
            (" AND ", "rig=NAME"),
        ] {
            let error = parse(wrong, &ME).unwrap_err();
            assert!(error.contains(expected), "{wrong}: {error}");
        }
    }
}
