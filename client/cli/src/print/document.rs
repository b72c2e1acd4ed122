//! Converts messages from the daemon to JSON documents and reports.

use serde_json::{Value, json};
use verbatim_catalog::deviations::Known;
pub(crate) use verbatim_client::document::{
    cause, known_deviation, lease, listed_run, outcome, rig, run, short_verdict,
};
use verbatim_client::v1;
use verbatim_client::v1::{Outcome, RunInfo};
use verbatim_record::Restored;
use verbatim_run::Report;

/// A run that ended at a daemon. If the run has no report, `report` is made from the daemon's own data.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The report to print, and for the exit code.
    pub(crate) report: Report,
    /// The JSON document.
    pub(crate) json: Value,
    /// The outcome that the daemon states.
    pub(crate) worst: Option<Outcome>,
    /// The reason why the run itself failed; empty if the tests alone decided the outcome.
    pub(crate) reason: String,
}

/// Converts a run that ended.
pub(crate) fn ended(run: &v1::Run) -> Ended {
    let whole = run.info.is_some();
    let worst = outcome(run.outcome());
    let report = Report {
        // The known deviations come from the daemon, because its rig file may name files that this host lacks.
        known_deviations: run.known_deviations.iter().cloned().map(Known::from).collect(),
        ..Report::new(
            run.info.clone().unwrap_or_else(|| without_report(run)),
            run.verdicts.clone(),
        )
    };
    let mut json = json!(report);
    // The report contains only results of tests. The daemon also knows failures of the run outside its tests.
    let tells_more = worst > Some(report.run.outcome()) || !whole;
    let reason = if tells_more { run.reason.clone() } else { String::new() };
    if let (true, Some(of_run)) = (tells_more, json.get_mut("run").and_then(Value::as_object_mut)) {
        of_run.insert("outcome".into(), json!(worst.unwrap_or(report.run.outcome())));
        of_run.insert("cause".into(), json!(cause(run.cause())));
        of_run.insert("reason".into(), json!(run.reason));
    }
    Ended {
        report,
        json,
        worst,
        reason,
    }
}

/// Returns the information on a run that ended without a report.
fn without_report(run: &v1::Run) -> RunInfo {
    let spec = run.spec.clone().unwrap_or_default();
    RunInfo {
        id: bare(&run.name).into(),
        rig: spec.rig,
        seed: spec.seed,
        started_ns: run.start_time.as_ref().map_or(0, |time| {
            let seconds = u64::try_from(time.seconds).unwrap_or(0);
            seconds * 1_000_000_000 + u64::try_from(time.nanos).unwrap_or(0)
        }),
        outcome: outcome(run.outcome()).unwrap_or(Outcome::Skipped).into(),
        ..RunInfo::default()
    }
}

/// Returns a resource name without its collection.
pub(crate) fn bare(name: &str) -> &str {
    name.split_once('/').map_or(name, |(_, id)| id)
}

/// Returns an event as `verbatim runs watch --json` prints it.
pub(crate) fn event(event: &v1::RunEvent) -> Value {
    use v1::run_event::Event;
    let what = match &event.event {
        Some(Event::StateChanged(changed)) => json!({"state_changed": {
            "state": changed.state(),
            "outcome": outcome(changed.outcome()),
            "cause": cause(changed.cause()),
            "reason": changed.reason,
        }}),
        Some(Event::TestStarted(begun)) => {
            json!({"test_started": {"test": begun.test, "place": begun.place, "total": begun.total}})
        }
        Some(Event::StepStarted(step)) => json!({"step_started": {"step": step.step}}),
        Some(Event::TestEnded(ended)) => {
            let known: Vec<Value> = ended.known_deviations.iter().map(known_deviation).collect();
            json!({"test_ended": {"verdict": ended.verdict.as_ref().map(short_verdict), "known_deviations": known}})
        }
        Some(Event::RestoreEnded(ended)) => {
            let areas: Vec<String> = ended.areas.iter().map(ToString::to_string).collect();
            let complete = ended.areas.iter().all(|area| area.is_complete());
            json!({"restore_ended": {"areas": areas, "complete": complete}})
        }
        Some(Event::LogLine(line)) => json!({"log_line": {"text": line.text}}),
        None => json!({"unknown": {}}),
    };
    let mut document = json!({
        "cursor": event.cursor,
        "time": event.time.as_ref().map(ToString::to_string),
    });
    if let (Some(fields), Value::Object(what)) = (document.as_object_mut(), what) {
        fields.extend(what);
    }
    document
}

/// Returns the result of a restore as `verbatim rigs restore --json` prints it.
pub(crate) fn restored_areas(rig: &str, areas: &[Restored]) -> Value {
    let areas: Vec<Value> = areas
        .iter()
        .map(|area| {
            json!({
                "area": area.area,
                "complete": area.is_complete(),
                "left": area.left,
                "failure": area.failure,
            })
        })
        .collect();
    json!({ "rig": rig, "areas": areas })
}

/// Removes the enum's prefix from the name of its value.
pub(crate) fn without(name: &'static str, prefix: &str) -> &'static str {
    name.strip_prefix(prefix).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use verbatim_catalog::deviations::{Known, Showed};

    use super::*;

    #[test]
    fn known_deviation_has_same_keys_in_event_and_report() {
        for showed in [Showed::Seen, Showed::NotSeen, Showed::Expired] {
            let known = Known {
                test: "c09-060-ghost-ack".into(),
                id: "rxe-ghost-ack".into(),
                showed,
                findings: 3,
                explains_all: true,
                device: "Linux rxe 6.1 until before 6.2".into(),
                statement: "C9-60".into(),
                reason: "It completes.".into(),
                source: "lab rxe".into(),
                expires: "2027-12-31".into(),
            };
            let ended = v1::TestEnded {
                known_deviations: vec![known.clone().into()],
                ..v1::TestEnded::default()
            };
            let told = event(&v1::RunEvent {
                event: Some(v1::run_event::Event::TestEnded(ended)),
                ..v1::RunEvent::default()
            });
            assert_eq!(told["test_ended"]["known_deviations"], json!([known]));
        }
    }
}
