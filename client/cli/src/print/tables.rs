//! Lists of runs, rigs and tests for people.

use verbatim_client::v1;
use verbatim_record::Restored;

use crate::print::document;

/// A table of runs, the newest first.
pub(crate) fn runs(runs: &[v1::Run]) -> String {
    if runs.is_empty() {
        return String::new();
    }
    let mut out = format!(
        "{:<26} {:<8} {:<14} {:<16} {:<20} TESTS\n",
        "RUN", "STATE", "OUTCOME", "RIG", "CREATED"
    );
    for run in runs {
        let outcome = document::outcome(run.outcome()).map_or_else(|| "-".into(), |outcome| outcome.to_string());
        let spec = run.spec.clone().unwrap_or_default();
        let what = if spec.patterns.is_empty() {
            "all".into()
        } else {
            spec.patterns.join(" ")
        };
        out.push_str(&format!(
            "{:<26} {:<8} {outcome:<14} {:<16} {:<20} {what}\n",
            run.name,
            run.state(),
            spec.rig,
            seconds(run.create_time.map(|time| time.to_string())),
        ));
    }
    out
}

/// A moment to the second, such as 2026-11-20T16:00:00Z.
fn seconds(time: Option<String>) -> String {
    time.map_or_else(
        || "-".into(),
        |time| match time.split_once('.') {
            Some((whole, _)) => format!("{whole}Z"),
            None => time,
        },
    )
}

/// What is known of a run, before its verdicts.
pub(crate) fn run_head(run: &v1::Run) -> String {
    let mut out = format!("{}\n", run.name);
    let mut field = |name: &str, value: String| {
        if !value.is_empty() {
            out.push_str(&format!("  {name:<9} {value}\n"));
        }
    };
    let place = if run.queue_place > 0 {
        format!(", place {} in the rig's queue", run.queue_place)
    } else {
        String::new()
    };
    field("state", format!("{}{place}", run.state()));
    let outcome = document::outcome(run.outcome()).map(|outcome| outcome.to_string());
    field("outcome", outcome.unwrap_or_default());
    field("reason", run.reason.clone());
    let spec = run.spec.clone().unwrap_or_default();
    field("rig", spec.rig);
    field("tests", spec.patterns.join(" "));
    let set: Vec<String> = spec
        .parameters
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    field("set", set.join(" "));
    field("seed", spec.seed.to_string());
    field("owner", run.owner.clone());
    let times = [
        ("created", run.create_time),
        ("started", run.start_time),
        ("ended", run.end_time),
    ];
    for (name, time) in times {
        field(name, time.map(|time| time.to_string()).unwrap_or_default());
    }
    out
}

/// A table of a run's files.
pub(crate) fn artifacts(artifacts: &[v1::Artifact]) -> String {
    artifacts
        .iter()
        .map(|artifact| format!("{:>12} {}\n", artifact.size_bytes, artifact.name))
        .collect()
}

/// A daemon's rigs: each with its state, and what stands in its way.
pub(crate) fn rigs(rigs: &[v1::Rig]) -> String {
    let mut out = String::new();
    for rig in rigs {
        let state = document::without(rig.state().as_str_name(), "RIG_STATE_");
        let waiting = if rig.queue.is_empty() {
            String::new()
        } else {
            format!(", {} waiting", rig.queue.len())
        };
        let running = if rig.current_run.is_empty() {
            String::new()
        } else {
            format!("  {}{waiting}", rig.current_run)
        };
        out.push_str(&format!(
            "{:<20} {:<8} {state:<12} {}{running}\n",
            document::bare(&rig.name),
            rig.kind,
            rig.device
        ));
        for line in rig.state_reason.lines() {
            out.push_str(&format!("    {line}\n"));
        }
        if !rig.pending_restore.is_empty() {
            out.push_str(&format!("    to be restored: {}\n", rig.pending_restore.join(", ")));
        }
    }
    out
}

/// What a restore came to.
pub(crate) fn restored(rig: &str, areas: &[Restored]) -> String {
    if areas.is_empty() {
        return format!("{rig}: nothing to restore\n");
    }
    let mut out = String::new();
    for area in areas {
        let how = if area.is_complete() { "restored" } else { "NOT RESTORED" };
        out.push_str(&format!("{rig}: {how} {}", area.area));
        if !area.failure.is_empty() {
            out.push_str(&format!(": {}", area.failure));
        }
        out.push('\n');
        for left in &area.left {
            out.push_str(&format!("    left as {left}\n"));
        }
    }
    out
}

/// Tests, with all that is known of each when `long`.
pub(crate) fn tests(tests: &[v1::Test], long: bool) -> String {
    let mut out = String::new();
    for test in tests {
        let aliases = if test.aliases.is_empty() {
            String::new()
        } else {
            format!(" ({})", test.aliases.join(", "))
        };
        out.push_str(&format!("{:<34} {}{aliases}\n", test.id, test.statements.join(" ")));
        if long {
            out.push_str(&format!("    {}\n    Reading: {}\n", test.about, test.reading));
            for parameter in &test.parameters {
                out.push_str(&format!(
                    "    --set {}={}..{}: {} (default {}, {} in simulated time)\n",
                    parameter.name,
                    parameter.least,
                    parameter.most,
                    parameter.about,
                    parameter.default_value,
                    parameter.default_value_when_simulated
                ));
            }
        }
    }
    out
}
