//! What the daemon says, in the types of the embedded run: one type for verdicts, wherever they come from.

use serde_json::{Value, json};
use verbatim_client::v1;
use verbatim_record::{Cause, Check, Outcome, Passed, Restored, Verdict};
use verbatim_run::{REPORT_SCHEMA, Report, RunInfo};

/// An outcome; none when there is none yet. One that this version does not know is no pass.
pub(crate) fn outcome(of: v1::Outcome) -> Option<Outcome> {
    match of {
        v1::Outcome::Unspecified => None,
        v1::Outcome::Skipped => Some(Outcome::Skipped),
        v1::Outcome::NotApplicable => Some(Outcome::NotApplicable),
        v1::Outcome::Pass => Some(Outcome::Pass),
        v1::Outcome::Inconclusive => Some(Outcome::Inconclusive),
        v1::Outcome::Fail => Some(Outcome::Fail),
        v1::Outcome::Error => Some(Outcome::Error),
    }
}

fn cause(of: v1::Cause) -> Option<Cause> {
    match of {
        v1::Cause::Unspecified => None,
        v1::Cause::Dut => Some(Cause::Dut),
        v1::Cause::Tester => Some(Cause::Tester),
        v1::Cause::Rig => Some(Cause::Rig),
        v1::Cause::Operator => Some(Cause::Operator),
        v1::Cause::SpecAmbiguous => Some(Cause::SpecAmbiguous),
    }
}

/// A verdict as the daemon sends it with events: without checks that passed.
pub(crate) fn verdict(of: &v1::Verdict) -> Verdict {
    let outcome = outcome(of.outcome()).unwrap_or(Outcome::Error);
    Verdict {
        test: of.test.clone(),
        aliases: of.aliases.clone(),
        outcome,
        cause: cause(of.cause()),
        reason: of.reason.clone(),
        statements: of.statements.clone(),
        findings: of
            .findings
            .iter()
            .map(|finding| Check {
                statement: finding.statement.clone(),
                result: if outcome == Outcome::Fail {
                    Passed::Fail
                } else {
                    Passed::Inconclusive
                },
                about: finding.about.clone(),
                expected: finding.expected.clone(),
                seen: finding.seen.clone(),
                evidence: finding.evidence.clone(),
                exchanges: Vec::new(),
                frames: Vec::new(),
            })
            .collect(),
        passed: Vec::new(),
        observations: Vec::new(),
        restored: Vec::new(),
    }
}

/// A run at a daemon: its report, made of what is known when it ended without one.
#[derive(Debug)]
pub(crate) struct Ended {
    /// For people, and for the exit code.
    pub(crate) report: Report,
    /// The document of `--json`.
    pub(crate) json: Value,
    /// What the daemon says that it came to.
    pub(crate) worst: Option<Outcome>,
    /// Why the run as a whole ended otherwise than with its tests; empty when it did not.
    pub(crate) reason: String,
}

/// What a run came to.
pub(crate) fn ended(run: &v1::Run) -> Ended {
    let whole: Option<(Value, Report)> = serde_json::from_str::<Value>(&run.report_json)
        .ok()
        .and_then(|json| Some((json.clone(), serde_json::from_value(json).ok()?)));
    let worst = outcome(run.outcome());
    let (mut json, report) = whole.unwrap_or_else(|| {
        let report = from_parts(run);
        (json!(report), report)
    });
    // The report knows its tests; the daemon knows also what became of the run around them.
    let tells_more = worst > Some(report.run.outcome) || run.report_json.is_empty();
    let reason = if tells_more { run.reason.clone() } else { String::new() };
    if let (true, Some(of_run)) = (tells_more, json.get_mut("run").and_then(Value::as_object_mut)) {
        of_run.insert("outcome".into(), json!(worst.unwrap_or(report.run.outcome)));
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

fn from_parts(run: &v1::Run) -> Report {
    Report {
        schema: REPORT_SCHEMA.into(),
        run: RunInfo {
            id: bare(&run.name).into(),
            rig: bare(&run.rig).into(),
            rig_kind: String::new(),
            seed: run.seed,
            catalogue: String::new(),
            started_ns: run.start_time.as_ref().map_or(0, |time| {
                let seconds = u64::try_from(time.seconds).unwrap_or(0);
                seconds * 1_000_000_000 + u64::try_from(time.nanos).unwrap_or(0)
            }),
            host: String::new(),
            fingerprint: Value::Null,
            outcome: outcome(run.outcome()).unwrap_or(Outcome::Skipped),
            record: None,
        },
        verdicts: run.verdicts.iter().map(verdict).collect(),
    }
}

/// A resource name without its collection.
pub(crate) fn bare(name: &str) -> &str {
    name.split_once('/').map_or(name, |(_, id)| id)
}

/// A run, as `verbatim runs --json` prints it.
pub(crate) fn run(run: &v1::Run) -> Value {
    let mut document = json!({
        "name": run.name,
        "rig": run.rig,
        "state": state(run.state()),
        "outcome": outcome(run.outcome()),
        "cause": cause(run.cause()),
        "reason": run.reason,
        "patterns": run.patterns,
        "parameters": run.parameters,
        "seed": run.seed,
        "tests": run.tests,
        "uid": run.uid,
        "create_time": run.create_time.as_ref().map(ToString::to_string),
        "start_time": run.start_time.as_ref().map(ToString::to_string),
        "end_time": run.end_time.as_ref().map(ToString::to_string),
        "queue_place": run.queue_place,
    });
    if let Some(fields) = document.as_object_mut() {
        if !run.verdicts.is_empty() {
            fields.insert("verdicts".into(), run.verdicts.iter().map(short_verdict).collect());
        }
        if !run.report_json.is_empty() {
            let report = serde_json::from_str(&run.report_json).unwrap_or(Value::Null);
            fields.insert("report".into(), report);
        }
    }
    document
}

fn short_verdict(of: &v1::Verdict) -> Value {
    let findings: Vec<Value> = of
        .findings
        .iter()
        .map(|finding| {
            json!({
                "statement": finding.statement,
                "about": finding.about,
                "expected": finding.expected,
                "seen": finding.seen,
                "evidence": finding.evidence,
            })
        })
        .collect();
    json!({
        "test": of.test,
        "aliases": of.aliases,
        "outcome": outcome(of.outcome()),
        "cause": cause(of.cause()),
        "reason": of.reason,
        "statements": of.statements,
        "findings": findings,
    })
}

/// An event, as `verbatim runs watch --json` prints it.
pub(crate) fn event(event: &v1::WatchRunResponse) -> Value {
    use v1::watch_run_response::Event;
    let what = match &event.event {
        Some(Event::StateChanged(changed)) => json!({"state_changed": {
            "state": state(changed.state()),
            "outcome": outcome(changed.outcome()),
            "cause": cause(changed.cause()),
            "reason": changed.reason,
        }}),
        Some(Event::TestStarted(begun)) => {
            json!({"test_started": {"test": begun.test, "place": begun.place, "total": begun.total}})
        }
        Some(Event::StepStarted(step)) => json!({"step_started": {"step": step.step}}),
        Some(Event::TestEnded(ended)) => {
            json!({"test_ended": {"verdict": ended.verdict.as_ref().map(short_verdict)}})
        }
        Some(Event::RestoreEnded(ended)) => {
            json!({"restore_ended": {"areas": ended.areas, "complete": ended.complete}})
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

/// A rig, as `verbatim rigs --json` prints it when there is a daemon.
pub(crate) fn rig(rig: &v1::Rig) -> Value {
    json!({
        "name": bare(&rig.name),
        "kind": rig.kind,
        "device": rig.device,
        "state": without(rig.state().as_str_name(), "RIG_STATE_"),
        "state_reason": rig.state_reason,
        "current_run": rig.current_run,
        "queue": rig.queue,
        "pending_restore": rig.pending_restore,
    })
}

/// What restoring an area came to, as a daemon would send it.
pub(crate) fn restored(of: &Restored) -> v1::RestoredArea {
    v1::RestoredArea {
        area: of.area.to_string(),
        complete: of.is_complete(),
        left: of.left.iter().map(ToString::to_string).collect(),
        failure: of.failure.to_string(),
    }
}

/// What a restore came to, as `verbatim rigs restore --json` prints it.
pub(crate) fn restored_areas(rig: &str, areas: &[v1::RestoredArea]) -> Value {
    let areas: Vec<Value> = areas
        .iter()
        .map(|area| {
            json!({
                "area": area.area,
                "complete": area.complete,
                "left": area.left,
                "failure": area.failure,
            })
        })
        .collect();
    json!({ "rig": rig, "areas": areas })
}

/// A state in a word.
pub(crate) fn state(state: v1::RunState) -> &'static str {
    without(state.as_str_name(), "RUN_STATE_")
}

/// A name of an enum's value without the enum's own.
pub(crate) fn without(name: &'static str, prefix: &str) -> &'static str {
    name.strip_prefix(prefix).unwrap_or(name)
}
