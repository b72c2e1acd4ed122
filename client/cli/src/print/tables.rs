//! Tables of runs, rigs, leases and tests.

use std::fmt::Display;
use std::time::Duration;

use chrono::{DateTime, Local, SecondsFormat, TimeZone};
use verbatim_catalog::typable;
use verbatim_client::v1;
use verbatim_record::Restored;
use verbatim_tester::KINDS;
use verbatim_text::Text;

use crate::print::history::Expected;
use crate::print::{document, is_terminal};

/// Formats a table of runs; the newest is the first.
pub(crate) fn runs(runs: &[v1::Run]) -> Text {
    if runs.is_empty() {
        return Text::new();
    }
    let mut out = Text::of(format_args!(
        "{:<26} {:<8} {:<14} {:<16} {:<12} {:<20} TESTS",
        "RUN", "STATE", "OUTCOME", "RIG", "OWNER", "CREATED"
    ));
    for run in runs {
        let outcome = document::outcome(run.outcome()).map_or_else(|| "-".into(), |outcome| outcome.to_string());
        let spec = run.spec.clone().unwrap_or_default();
        let what = patterns(&spec.patterns);
        out.line(format_args!(
            "{:<26} {:<8} {outcome:<14} {:<16} {:<12} {:<20} {what}",
            run.name,
            run.state(),
            spec.rig,
            name_or(&run.owner_name, &run.owner),
            shown(run.create_time.map(|time| time.seconds)),
        ));
    }
    out
}

/// Joins the patterns of a run. Of many, shows the first and the count of the others.
fn patterns(of: &[String]) -> String {
    match of {
        [] => "all".into(),
        [first, rest @ ..] if rest.len() > MOST_PATTERNS => format!("{first} and {} more", rest.len()),
        few => few.join(" "),
    }
}

/// The most patterns after the first that a table shows.
const MOST_PATTERNS: usize = 4;

/// Returns the readable name, or the identity if the daemon sends no name.
fn name_or<'a>(words: &'a str, identity: &'a str) -> &'a str {
    if words.is_empty() { identity } else { words }
}

/// Formats a time, given in seconds since 1970, as in RFC 3339, such as 2026-11-20T16:00:00Z. Uses the local time zone
/// if stdout is a terminal, else UTC.
fn shown(time: Option<i64>) -> String {
    let at = time.and_then(|seconds| DateTime::from_timestamp(seconds, 0));
    match at {
        Some(at) if is_terminal() => in_zone(&at.with_timezone(&Local)),
        Some(at) => in_zone(&at),
        None => "-".into(),
    }
}

fn in_zone<Z: TimeZone<Offset: Display>>(at: &DateTime<Z>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// Formats the properties of a run, without its verdicts.
pub(crate) fn run_head(run: &v1::Run) -> Text {
    let mut out = Text::of(&run.name);
    let mut field = |name: &str, value: String| {
        if !value.is_empty() {
            out.line(format_args!("  {name:<9} {value}"));
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
    field("tests", patterns(&spec.patterns));
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
pub(crate) fn artifacts(artifacts: &[v1::Artifact]) -> Text {
    artifacts
        .iter()
        .map(|artifact| Text::of(format_args!("{:>12} {}", artifact.size_bytes, artifact.name)))
        .collect()
}

/// Formats the rigs of a daemon, each with its state and the reason for the state.
pub(crate) fn rigs(rigs: &[v1::Rig]) -> Text {
    rigs_with(rigs, &[])
}

/// Like [`rigs`], and also counts the reservations among these leases that wait for each rig.
pub(crate) fn rigs_with(rigs: &[v1::Rig], leases: &[v1::Lease]) -> Text {
    let mut out = Text::new();
    for rig in rigs {
        let state = document::without(rig.state().as_str_name(), "RIG_STATE_");
        // The queue of a rig lists the runs.
        let reserves = |lease: &&v1::Lease| {
            let rig = document::bare(&rig.name);
            lease.state() == v1::LeaseState::Pending
                && lease.run.is_empty()
                && lease.candidates.iter().any(|of| of == rig)
        };
        let waiting = match rig.queue.len() + leases.iter().filter(reserves).count() {
            0 => String::new(),
            count => format!(", {count} waiting"),
        };
        let running = match (rig.current_run.as_str(), name_or(&rig.holder_name, &rig.holder)) {
            ("", "") => String::new(),
            ("", holder) => format!("  held by {holder}{waiting}"),
            (run, "") => format!("  {run}{waiting}"),
            (run, holder) => format!("  {run} of {holder}{waiting}"),
        };
        out.line(format_args!(
            "{:<20} {:<8} {state:<12} {}{running}",
            document::bare(&rig.name),
            rig.kind,
            rig.device
        ));
        out.extend([labels(&rig.labels)]);
        out.block("    ", &rig.state_reason);
        if !rig.pending_restore.is_empty() {
            out.line(format_args!("    to be restored: {}", rig.pending_restore.join(", ")));
        }
    }
    out
}

/// Formats a line with the labels of a rig, without `kind=`; empty if there are none.
pub(crate) fn labels(all: &[String]) -> Text {
    let own: Vec<&str> = all
        .iter()
        .map(String::as_str)
        .filter(|label| !label.starts_with("kind="))
        .collect();
    match own.is_empty() {
        true => Text::new(),
        false => Text::of(format_args!("    labels: {}", own.join(", "))),
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
pub(crate) fn leases(leases: &[v1::Lease]) -> Text {
    let mut out = Text::new();
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
        out.line(format_args!(
            "{:<26} {state:<8} {rig:<16} {:<16} {word} {time}{run}",
            lease.name,
            name_or(&lease.owner_name, &lease.owner)
        ));
        if let Some(why) = why_it_waits(lease) {
            out.line(format_args!("    waits, {why}"));
        }
        if !lease.reason.is_empty() {
            out.block("    ", &lease.reason);
        }
    }
    out
}

/// Formats the result of a restore.
pub(crate) fn restored(rig: &str, areas: &[Restored]) -> Text {
    if areas.is_empty() {
        return Text::of(format_args!(
            "{rig}: nothing to restore: the restore journal lists no change"
        ));
    }
    let mut out = Text::new();
    for area in areas {
        let how = if area.is_complete() { "restored" } else { "NOT RESTORED" };
        let why = match area.failure.as_str() {
            "" => String::new(),
            failure => format!(": {failure}"),
        };
        out.line(format_args!("{rig}: {how} {}{why}", area.area));
        for left in &area.left {
            out.line(format_args!("    left as {left}"));
        }
    }
    out
}

/// Formats tests under headings of their chapters; `long` adds all details. Without `long`, lines are cut at `columns`.
/// `on_rig` has the durations on one rig; `None` gives estimates for each kind of rig.
pub(crate) fn tests(tests: &[v1::Test], long: bool, columns: Option<usize>, on_rig: Option<&Expected>) -> Text {
    let (mut out, mut heading) = (Text::new(), "");
    for test in tests {
        let chapter = verbatim_catalog::chapter(&test.id);
        if chapter != heading {
            if !heading.is_empty() {
                out.line("");
            }
            out.line(format_args!("Chapter {chapter}"));
            heading = chapter;
        }
        let line = format!("  {:<34} {}", test.id, test.about);
        match columns.filter(|_| !long) {
            Some(columns) => out.line(super::shortened(&line, columns.max(48))),
            None => out.line(line),
        }
        if long {
            let lasts = on_rig.map_or_else(|| verbatim_catalog::estimate(&test.id), |on| on.of(&test.id));
            out.line(format_args!(
                "    Lasts about {} in real time",
                super::duration_words(lasts)
            ));
            out.line(format_args!("    Reading: {}", test.reading));
            if !test.aliases.is_empty() {
                out.line(format_args!("    Public names: {}", test.aliases.join(", ")));
            }
            for id in &test.statements {
                if let Some(known) = verbatim_catalog::statement(id) {
                    out.line(format_args!("    {}: {}", typable(&known.id), known.about));
                }
            }
            for parameter in &test.parameters {
                out.line(format_args!(
                    "    --set {}={}..{}: {} (default {}, {} in simulated time)",
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
    if long {
        let count = super::counted(tests.len() as u64, "test", "tests");
        out.line("");
        out.line(format_args!("{count}, {}", whole(tests, on_rig)));
    }
    out
}

/// Describes the duration of all tests: on one rig, or on each kind of rig that can run some of them in real time.
fn whole(tests: &[v1::Test], on_rig: Option<&Expected>) -> String {
    if let Some(expected) = on_rig {
        let whole = tests.iter().map(|test| expected.of(&test.id)).sum();
        return format!("about {} in real time on this rig", super::duration_words(whole));
    }
    let mut of_kinds: Vec<(Duration, Vec<&str>)> = Vec::new();
    for kind in KINDS.into_iter().filter(|kind| *kind != "virtual") {
        let can = |test: &&v1::Test| verbatim_catalog::runs_on(&test.id, kind);
        let estimates = tests
            .iter()
            .filter(can)
            .map(|test| verbatim_catalog::estimate(&test.id));
        let whole: Duration = estimates.sum();
        match of_kinds.iter_mut().find(|(other, _)| *other == whole) {
            _ if whole.is_zero() => {}
            Some((_, kinds)) => kinds.push(kind),
            None => of_kinds.push((whole, vec![kind])),
        }
    }
    let words = |(whole, kinds): &(Duration, Vec<&str>)| {
        format!(
            "about {} on rigs of kind {}",
            super::duration_words(*whole),
            kinds.join(" or ")
        )
    };
    let words: Vec<String> = of_kinds.iter().map(words).collect();
    match words.is_empty() {
        true => "in simulated time only".into(),
        false => format!("in real time {}", words.join(", ")),
    }
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
        let text = rigs(std::slice::from_ref(&rig));
        assert!(text.contains("runs/1 of alice\n    labels: 25g, lab-2\n"), "{text}");
        let waits = v1::Lease {
            state: v1::LeaseState::Pending.into(),
            candidates: vec!["bench-2".into(), "bench-3".into()],
            ..v1::Lease::default()
        };
        let text = rigs_with(&[rig], &[waits]);
        assert!(text.contains("runs/1 of alice, 1 waiting\n"), "{text}");
    }

    #[test]
    fn tests_have_headings_and_fit_the_columns() {
        let test = |id: &str| v1::Test {
            id: id.into(),
            about: "A title that is longer than any line of a small terminal.".into(),
            ..v1::Test::default()
        };
        let text = tests(
            &[test("c09-walk"), test("c09-rtr"), test("c14-walk")],
            false,
            Some(60),
            None,
        );
        let headings: Vec<&str> = text.lines().filter(|line| line.starts_with("Chapter")).collect();
        assert_eq!(headings, ["Chapter 9 Transport layer", "Chapter 14 Subnet management"]);
        assert!(
            text.lines().all(|line| line.len() <= 60) && text.contains("A title"),
            "{text}"
        );
        assert!(tests(&[test("c09-rtr")], false, None, None).contains("small terminal."));
    }

    #[test]
    fn statements_are_shown_in_typable_form() {
        let test = v1::Test {
            id: "c09-nak-sequence".into(),
            statements: vec!["C9-60".into(), "9.7.5.1.1 NAK handling".into()],
            ..v1::Test::default()
        };
        let text = tests(&[test], true, None, None);
        assert!(text.contains("\n    9.7.5.1.1-nak-handling: "), "{text}");
        assert!(!text.contains("9.7.5.1.1 NAK handling"), "{text}");
    }
}
