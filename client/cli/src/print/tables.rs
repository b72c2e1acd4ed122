//! Tables of runs, rigs, leases and tests.

use std::fmt::Display;
use std::io::{self, IsTerminal};

use chrono::{DateTime, Local, SecondsFormat, TimeZone};
use verbatim_catalog::typable;
use verbatim_client::v1;
use verbatim_record::Restored;

use crate::print::document;

/// Formats a table of runs; the newest is the first.
pub(crate) fn runs(runs: &[v1::Run]) -> String {
    if runs.is_empty() {
        return String::new();
    }
    let mut out = format!(
        "{:<26} {:<8} {:<14} {:<16} {:<12} {:<20} TESTS\n",
        "RUN", "STATE", "OUTCOME", "RIG", "OWNER", "CREATED"
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
            "{:<26} {:<8} {outcome:<14} {:<16} {:<12} {:<20} {what}\n",
            run.name,
            run.state(),
            spec.rig,
            name_or(&run.owner_name, &run.owner),
            shown(run.create_time.map(|time| time.seconds)),
        ));
    }
    out
}

/// Returns the readable name, or the identity if the daemon sends no name.
fn name_or<'a>(words: &'a str, identity: &'a str) -> &'a str {
    if words.is_empty() { identity } else { words }
}

/// Formats a time, given in seconds since 1970, as in RFC 3339, such as 2026-11-20T16:00:00Z. Uses the local time zone
/// if stdout is a terminal, else UTC.
fn shown(time: Option<i64>) -> String {
    let at = time.and_then(|seconds| DateTime::from_timestamp(seconds, 0));
    match at {
        Some(at) if io::stdout().is_terminal() => in_zone(&at.with_timezone(&Local)),
        Some(at) => in_zone(&at),
        None => "-".into(),
    }
}

fn in_zone<Z: TimeZone<Offset: Display>>(at: &DateTime<Z>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// Formats the properties of a run, without its verdicts.
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
    field("owner", name_or(&run.owner_name, &run.owner).into());
    field(
        "files",
        match (run.pinned, &run.purge_time) {
            (true, _) => "pinned".into(),
            (false, Some(time)) => format!("the daemon removes them at {time}"),
            (false, None) => String::new(),
        },
    );
    let times = [
        ("created", run.create_time),
        ("started", run.start_time),
        ("ended", run.end_time),
    ];
    for (name, time) in times {
        field(name, time.map(|time| shown(Some(time.seconds))).unwrap_or_default());
    }
    out
}

/// Formats a table of a run's files.
pub(crate) fn artifacts(artifacts: &[v1::Artifact]) -> String {
    artifacts
        .iter()
        .map(|artifact| format!("{:>12} {}\n", artifact.size_bytes, artifact.name))
        .collect()
}

/// Formats the rigs of a daemon, each with its state and the reason for the state.
pub(crate) fn rigs(rigs: &[v1::Rig]) -> String {
    let mut out = String::new();
    for rig in rigs {
        let state = document::without(rig.state().as_str_name(), "RIG_STATE_");
        let waiting = if rig.queue.is_empty() {
            String::new()
        } else {
            format!(", {} waiting", rig.queue.len())
        };
        let running = match (rig.current_run.as_str(), name_or(&rig.holder_name, &rig.holder)) {
            ("", "") => String::new(),
            ("", holder) => format!("  held by {holder}{waiting}"),
            (run, "") => format!("  {run}{waiting}"),
            (run, holder) => format!("  {run} of {holder}{waiting}"),
        };
        out.push_str(&format!(
            "{:<20} {:<8} {state:<12} {}{running}\n",
            document::bare(&rig.name),
            rig.kind,
            rig.device
        ));
        out.push_str(&labels(&rig.labels));
        for line in rig.state_reason.lines() {
            out.push_str(&format!("    {line}\n"));
        }
        if !rig.pending_restore.is_empty() {
            out.push_str(&format!("    to be restored: {}\n", rig.pending_restore.join(", ")));
        }
    }
    out
}

/// Formats a line with the labels of a rig, without `kind=`; empty if there are none.
pub(crate) fn labels(all: &[String]) -> String {
    let own: Vec<&str> = all
        .iter()
        .map(String::as_str)
        .filter(|label| !label.starts_with("kind="))
        .collect();
    match own.is_empty() {
        true => String::new(),
        false => format!("    labels: {}\n", own.join(", ")),
    }
}

/// Describes why a lease waits: its place, the leases before it, and the latest start. None if the lease does not wait.
pub(crate) fn why_it_waits(lease: &v1::Lease) -> Option<String> {
    let waiting = lease.waiting.as_ref()?;
    let mut words = format!("place {} in the queue", waiting.place);
    let (first, more) = waiting
        .because
        .split_first()
        .map_or((None, 0), |(first, rest)| (Some(first), rest.len()));
    if let Some(first) = first {
        words.push_str(&format!(": {first}"));
    }
    if more > 0 {
        words.push_str(&format!(", and {more} more"));
    }
    match &waiting.latest {
        Some(latest) => words.push_str(&format!(
            "; it begins at {} at the latest, unless a lease is renewed or another lease goes first",
            shown(Some(latest.seconds))
        )),
        None => words.push_str("; the daemon cannot predict when it begins"),
    }
    Some(words)
}

/// Like [`why_it_waits`], but None while the lease only waits for the check of its device.
pub(crate) fn news_of_waiting(lease: &v1::Lease) -> Option<String> {
    let is_news = |waiting: &v1::Waiting| !waiting.about_to_begin;
    lease.waiting.as_ref().filter(|waiting| is_news(waiting))?;
    why_it_waits(lease)
}

/// Formats leases, each with its owner, its rig, its times, and why it waits.
pub(crate) fn leases(leases: &[v1::Lease]) -> String {
    let mut out = String::new();
    for lease in leases {
        let state = document::without(lease.state().as_str_name(), "LEASE_STATE_");
        let rig = if lease.rig.is_empty() {
            lease.candidates.join(" or ")
        } else {
            lease.rig.clone()
        };
        let (word, time) = match lease.state() {
            v1::LeaseState::Ended => ("ended", &lease.end_time),
            v1::LeaseState::Active => ("until", &lease.expire_time),
            _ => ("since", &lease.create_time),
        };
        let time = shown(time.map(|time| time.seconds));
        let run = if lease.run.is_empty() {
            String::new()
        } else {
            format!("  for {}", lease.run)
        };
        out.push_str(&format!(
            "{:<26} {state:<8} {rig:<16} {:<16} {word} {time}{run}\n",
            lease.name,
            name_or(&lease.owner_name, &lease.owner)
        ));
        if let Some(why) = why_it_waits(lease) {
            out.push_str(&format!("    waits, {why}\n"));
        }
        if !lease.reason.is_empty() {
            out.push_str(&format!("    {}\n", lease.reason));
        }
    }
    out
}

/// Formats the result of a restore.
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

/// Formats tests under headings of their chapters; `long` adds all details. Without `long`, lines are cut at `columns`.
pub(crate) fn tests(tests: &[v1::Test], long: bool, columns: Option<usize>) -> String {
    let (mut out, mut heading) = (String::new(), "");
    for test in tests {
        let chapter = verbatim_catalog::chapter(&test.id);
        if chapter != heading {
            let gap = if heading.is_empty() { "" } else { "\n" };
            out.push_str(&format!("{gap}Chapter {chapter}\n"));
            heading = chapter;
        }
        let line = format!("  {:<34} {}", test.id, test.about);
        match columns.filter(|_| !long) {
            Some(columns) => out.push_str(&super::shortened(&line, columns.max(48))),
            None => out.push_str(&line),
        }
        out.push('\n');
        if long {
            out.push_str(&format!("    Reading: {}\n", test.reading));
            if !test.aliases.is_empty() {
                out.push_str(&format!("    Public names: {}\n", test.aliases.join(", ")));
            }
            for id in &test.statements {
                if let Some(known) = verbatim_catalog::statement(id) {
                    out.push_str(&format!("    {}: {}\n", typable(&known.id), known.about));
                }
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_show_names_and_labels() {
        let run = v1::Run {
            owner: "uid:1000".into(),
            owner_name: "alice".into(),
            ..v1::Run::default()
        };
        let text = runs(&[run]);
        assert!(text.contains(" OWNER ") && text.contains(" alice "), "{text}");
        let rig = v1::Rig {
            name: "rigs/bench-3".into(),
            current_run: "runs/1".into(),
            holder_name: "alice".into(),
            labels: vec!["25g".into(), "lab-2".into(), "kind=umad".into()],
            ..v1::Rig::default()
        };
        let text = rigs(&[rig]);
        assert!(text.contains("runs/1 of alice\n    labels: 25g, lab-2\n"), "{text}");
    }

    #[test]
    fn tests_have_headings_and_fit_the_columns() {
        let test = |id: &str| v1::Test {
            id: id.into(),
            about: "A title that is longer than any line of a small terminal.".into(),
            ..v1::Test::default()
        };
        let text = tests(&[test("c09-walk"), test("c09-rtr"), test("c14-walk")], false, Some(60));
        let headings: Vec<&str> = text.lines().filter(|line| line.starts_with("Chapter")).collect();
        assert_eq!(headings, ["Chapter 9 Transport layer", "Chapter 14 Subnet management"]);
        assert!(
            text.lines().all(|line| line.len() <= 60) && text.contains("A title"),
            "{text}"
        );
        assert!(tests(&[test("c09-rtr")], false, None).contains("small terminal."));
    }

    #[test]
    fn statements_are_shown_in_typable_form() {
        let test = v1::Test {
            id: "c09-nak-sequence".into(),
            statements: vec!["C9-60".into(), "9.7.5.1.1 NAK handling".into()],
            ..v1::Test::default()
        };
        let text = tests(&[test], true, None);
        assert!(text.contains("\n    9.7.5.1.1-nak-handling: "), "{text}");
        assert!(!text.contains("9.7.5.1.1 NAK handling"), "{text}");
    }
}
