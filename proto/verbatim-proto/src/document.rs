//! Rigs, leases and runs as JSON. `verbatim --json` and the web page's `/api` print these documents. Their keys are the
//! fields of the messages. Their values are those of the messages: resource names such as `rigs/bench-3`, times in the
//! form of RFC 3339 in UTC, and names of enumeration values without the prefix.

use std::collections::BTreeMap;

use prost_types::Timestamp;
use serde_json::{Value, json};

use crate::v1::{Cause, KnownDeviation, Lease, Outcome, Rig, Run, Verdict};

/// Fields that a short run leaves out.
const OF_WHOLE_RUN: [&str; 4] = ["tests", "verdicts", "info", "known_deviations"];

/// Returns a rig.
#[must_use]
pub fn rig(of: &Rig) -> Value {
    json!({
        "name": of.name,
        "kind": of.kind,
        "device": of.device,
        "state": word(of.state().as_str_name(), "RIG_STATE_"),
        "state_reason": of.state_reason,
        "current_run": of.current_run,
        "queue": of.queue,
        "pending_restore": of.pending_restore,
        "lease": of.lease,
        "holder": of.holder,
        "holder_name": of.holder_name,
        "labels": of.labels,
        "offers": of.offers,
        "host": of.host,
    })
}

/// Returns a lease.
#[must_use]
pub fn lease(of: &Lease) -> Value {
    json!({
        "name": of.name,
        "owner": of.owner,
        "owner_name": of.owner_name,
        "state": word(of.state().as_str_name(), "LEASE_STATE_"),
        "priority": word(of.priority().as_str_name(), "PRIORITY_"),
        "candidates": of.candidates,
        "rig": of.rig,
        "token": of.token,
        "lasts_s": of.lasts_s,
        "create_time": time(of.create_time.as_ref()),
        "start_time": time(of.start_time.as_ref()),
        "expire_time": time(of.expire_time.as_ref()),
        "end_time": time(of.end_time.as_ref()),
        "reason": of.reason,
        "run": of.run,
        "waiting": of.waiting.as_ref().map(|waiting| json!({
            "place": waiting.place,
            "because": waiting.because,
            "about_to_begin": waiting.about_to_begin,
            "latest": time(waiting.latest.as_ref()),
        })),
    })
}

/// Returns a run. Two keys are computed from the message: `test_count`, and `counts`, the number of verdicts by
/// outcome.
#[must_use]
pub fn run(of: &Run) -> Value {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for verdict in &of.verdicts {
        *counts.entry(verdict.outcome().word()).or_default() += 1;
    }
    json!({
        "name": of.name,
        "spec": of.spec,
        "tests": of.tests,
        "test_count": of.tests.len(),
        "state": word(of.state().as_str_name(), "RUN_STATE_"),
        "outcome": outcome(of.outcome()),
        "cause": cause(of.cause()),
        "reason": of.reason,
        "counts": counts,
        "verdicts": of.verdicts,
        "info": of.info,
        "known_deviations": of.known_deviations.iter().map(known_deviation).collect::<Vec<_>>(),
        "owner": of.owner,
        "owner_name": of.owner_name,
        "create_time": time(of.create_time.as_ref()),
        "start_time": time(of.start_time.as_ref()),
        "end_time": time(of.end_time.as_ref()),
        "queue_place": of.queue_place,
        "pinned": of.pinned,
        "purge_time": time(of.purge_time.as_ref()),
        "lease": of.lease,
    })
}

/// Returns a run of a list. Its verdicts are short.
#[must_use]
pub fn listed_run(of: &Run) -> Value {
    let mut document = run(of);
    document["verdicts"] = of.verdicts.iter().map(short_verdict).collect();
    document
}

/// Returns a run without its tests, verdicts and known deviations, which may be large.
#[must_use]
pub fn short_run(of: &Run) -> Value {
    without(run(of), &OF_WHOLE_RUN)
}

/// Returns a verdict without its passed checks, observations and restored areas, which lists and events do not have.
#[must_use]
pub fn short_verdict(of: &Verdict) -> Value {
    without(json!(of), &["passed", "observations", "restored"])
}

/// Returns a known deviation with the same keys as in a report.
#[must_use]
pub fn known_deviation(of: &KnownDeviation) -> Value {
    json!({
        "test": of.test,
        "id": of.id,
        "showed": word(of.showed().as_str_name(), "DEVIATION_SHOWED_"),
        "findings": of.findings,
        "explains_all": of.explains_all,
        "device": of.device,
        "statement": of.statement,
        "reason": of.reason,
        "source": of.source,
        "expires": of.expires,
    })
}

/// Returns the outcome, or `None` if it is not set yet.
#[must_use]
pub fn outcome(of: Outcome) -> Option<Outcome> {
    (of != Outcome::Unspecified).then_some(of)
}

/// Returns the cause, or `None` if it is not set.
#[must_use]
pub fn cause(of: Cause) -> Option<Cause> {
    (of != Cause::Unspecified).then_some(of)
}

/// Returns the name of an enumeration's value without its prefix; `None` if it is not specified.
fn word(name: &'static str, prefix: &str) -> Option<&'static str> {
    let word = name.strip_prefix(prefix).unwrap_or(name);
    (word != "UNSPECIFIED").then_some(word)
}

fn time(of: Option<&Timestamp>) -> Option<String> {
    of.map(ToString::to_string)
}

fn without(mut document: Value, keys: &[&str]) -> Value {
    if let Some(fields) = document.as_object_mut() {
        fields.retain(|key, _| !keys.contains(&key.as_str()));
    }
    document
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use prost::Message as _;
    use prost_types::FileDescriptorSet;

    use super::*;
    use crate::v1::Waiting;

    /// Returns the fields of a message of `verbatim.v1`.
    fn fields(message: &str) -> BTreeSet<String> {
        let files = FileDescriptorSet::decode(crate::DESCRIPTORS).unwrap().file;
        let messages = files.into_iter().filter(|file| file.package() == "verbatim.v1");
        let mut messages = messages.flat_map(|file| file.message_type);
        let of = messages.find(|of| of.name() == message).unwrap();
        of.field.iter().map(|field| field.name().to_owned()).collect()
    }

    fn keys(document: &Value) -> BTreeSet<String> {
        document.as_object().unwrap().keys().cloned().collect()
    }

    #[test]
    fn keys_are_the_fields_of_the_messages() {
        let held = Lease {
            waiting: Some(Waiting::default()),
            ..Lease::default()
        };
        let mut run = keys(&run(&Run::default()));
        assert!(run.remove("counts") && run.remove("test_count"));
        let lease = lease(&held);
        for (message, keys) in [
            ("Rig", keys(&rig(&Rig::default()))),
            ("Waiting", keys(&lease["waiting"])),
            ("Lease", keys(&lease)),
            ("Run", run),
        ] {
            assert_eq!(keys, fields(message), "{message}");
        }
    }

    #[test]
    fn schema_has_the_keys_of_the_documents() {
        let schema: Value = serde_json::from_str(include_str!("../../../docs/schema/service.v1.json")).unwrap();
        for (name, document) in [
            ("rig", rig(&Rig::default())),
            ("lease", lease(&Lease::default())),
            ("run", run(&Run::default())),
        ] {
            let of = &schema["$defs"][name];
            assert_eq!(keys(&of["properties"]), keys(&document), "{name}");
        }
        let required = schema["$defs"]["run"]["required"].as_array().unwrap();
        let required: BTreeSet<String> = required.iter().map(|key| key.as_str().unwrap().to_owned()).collect();
        assert_eq!(
            required,
            keys(&short_run(&Run::default())),
            "a short run has the required keys"
        );
    }

    #[test]
    fn times_and_states_have_one_form() {
        let of = Rig {
            name: "rigs/bench-3".into(),
            state: crate::v1::RigState::Idle.into(),
            ..Rig::default()
        };
        assert_eq!(rig(&of)["state"], "IDLE");
        let of = Run {
            create_time: Some(Timestamp {
                seconds: 1_795_487_734,
                nanos: 0,
            }),
            ..Run::default()
        };
        assert_eq!(run(&of)["create_time"], "2026-11-24T02:35:34Z");
        assert_eq!(run(&of)["outcome"], Value::Null);
    }
}
