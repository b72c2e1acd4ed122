//! The report's input, and the texts that all forms share.

use core::time::Duration;
use std::collections::{BTreeMap, HashMap};

use verbatim_catalog::deviations::{Known, Showed};
use verbatim_record::{Entry, Outcome, Span, Verdict};
use verbatim_record_proto::v1::{Check, RunInfo};
use verbatim_text::{Command, Text};

use crate::counted::{counted, plural};
use crate::digest::Digest;
use crate::trend::Past;

/// A run with its verdicts and the digests of its records.
#[derive(Clone, Copy, Debug)]
pub struct Reported<'a> {
    /// The run.
    pub run: &'a RunInfo,
    /// One verdict per test, in the order of the run.
    pub verdicts: &'a [Verdict],
    /// The digests of the records. A skipped test has none.
    pub records: &'a [Digest],
    /// Earlier runs of the device, the oldest first.
    pub before: &'a [Past],
    /// The tests whose verdict was taken from the run instead of judged anew, each with the reason.
    pub not_judged_anew: &'a BTreeMap<String, String>,
    /// The known deviations of this kind of device, each with whether it was seen.
    pub known: &'a [Known],
    /// Whether JUnit and TAP do not count a test as failed if known deviations explain all its findings.
    pub tolerates_known: bool,
    /// The manifest's hash and its signer, as text, or empty without a bundle.
    pub seal: &'a str,
}

impl<'a> Reported<'a> {
    /// Returns the digest of a test's record.
    pub(crate) fn record(&self, test: &str) -> Option<&'a Digest> {
        self.records
            .iter()
            .find(|record| record.begin.as_ref().is_some_and(|begin| begin.test == test))
    }

    /// Returns whether a test does not count as failed, because known deviations explain all its findings.
    pub(crate) fn is_tolerated(&self, test: &str) -> bool {
        self.tolerates_known && self.known.iter().any(|known| known.test == test && known.explains_all)
    }

    /// Returns the reason why a test's verdict was taken from the run, or `None` if it was judged anew.
    pub(crate) fn as_recorded(&self, test: &str) -> Option<String> {
        let why = self.not_judged_anew.get(test)?;
        Some(format!("not judged anew: {why}"))
    }

    /// Returns the duration of a test on its rig's clock, which may be simulated.
    pub(crate) fn took(&self, test: &str) -> Option<Duration> {
        self.record(test)?.took
    }

    /// Returns the outcomes with their numbers of tests, the worst first.
    pub(crate) fn counts(&self) -> Vec<(Outcome, usize)> {
        GRAVEST_FIRST
            .into_iter()
            .map(|outcome| {
                (
                    outcome,
                    self.verdicts.iter().filter(|it| it.outcome() == outcome).count(),
                )
            })
            .filter(|(_, count)| *count > 0)
            .collect()
    }

    /// Returns a one-line summary: the number of tests, the rig, the seed and the outcomes.
    pub(crate) fn summary(&self) -> String {
        let counts: Vec<String> = self
            .counts()
            .into_iter()
            .map(|(outcome, count)| format!("{count} {}", words(outcome, count)))
            .collect();
        let counts = if counts.is_empty() {
            "nothing judged".into()
        } else {
            counts.join(", ")
        };
        let as_recorded = match self.not_judged_anew.len() {
            0 => String::new(),
            count => format!("; {count} as recorded, not judged anew"),
        };
        format!(
            "{} on {}, seed {}: {counts}{as_recorded}",
            counted(self.verdicts.len() as u64, "test", "tests"),
            self.run.rig,
            self.run.seed
        )
    }

    /// Returns the command that repeats a test with the same seed and parameters. It is empty for a run
    /// that did not begin, which has no id.
    pub(crate) fn again(&self, test: &str) -> String {
        if self.run.id.is_empty() {
            return String::new();
        }
        let mut set = Vec::new();
        if let Some(begin) = self.record(test).and_then(|record| record.begin.as_ref()) {
            let known = verbatim_catalog::TESTS.iter().find(|known| known.id == test);
            for (name, value) in &begin.parameters {
                let usual = known.and_then(|test| test.parameters.iter().find(|known| known.name == name));
                let usual = usual.map(|known| {
                    if begin.simulated {
                        known.simulated
                    } else {
                        known.default
                    }
                });
                if usual != Some(*value) {
                    set.push(format!("{name}={value}"));
                }
            }
        }
        again(self.run, false, Some(&self.run.rig), test, &set)
    }

    /// Returns the time of the run's start, by RFC 3339 in UTC. The report then does not depend on the time zone of
    /// its host. Returns "-" for a run that did not begin.
    pub(crate) fn started(&self) -> String {
        if self.run.started_ns == 0 {
            return "-".into();
        }
        time::OffsetDateTime::from_unix_timestamp_nanos(self.run.started_ns.into()).map_or_else(
            |_| String::new(),
            |at| {
                let (hour, minute, second) = at.to_hms();
                format!("{}T{hour:02}:{minute:02}:{second:02}Z", at.date())
            },
        )
    }
}

/// Options that select the rig of a run; a record stores them.
const RIG_OPTIONS: [&str; 10] = [
    "--server",
    "--rig-file",
    "--deviations",
    "--rig-key",
    "--umad",
    "--route",
    "--lid",
    "--packets",
    "--agent",
    "--ip",
];

/// The keys of a rig file that only choose the behaviour of the model in this process.
const MODEL_KEYS: [&str; 10] = [
    "busy",
    "defects",
    "disturbance",
    "dut_ack_timeout_least",
    "infiniband",
    "ipv6",
    "link_choices",
    "profile",
    "seed",
    "simulated",
];

/// Returns whether a user can repeat an option whose value another person chose: it names no file, command, server,
/// agent or device.
fn is_harmless(option: &str, value: &str) -> bool {
    let is_value = |value: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_\"[], ".contains(c);
        value.chars().all(is_plain)
    };
    match option {
        "--server" => value == "none",
        "--rig-key" => {
            let pair = value.split_once('=');
            pair.is_some_and(|(key, value)| MODEL_KEYS.contains(&key) && is_value(value))
        }
        _ => false,
    }
}

/// Returns the command that repeats a test. A word of the record can add neither a shell command nor another option.
///
/// `is_own` tells that the options of the run are those of this user's command line. Otherwise the author of the record
/// chose them: the command then has only harmless options, and a comment of the shell names the others.
#[must_use]
pub fn again(run: &RunInfo, is_own: bool, rig: Option<&str>, test: &str, set: &[String]) -> String {
    let is_option = [Some(test), rig].iter().flatten().any(|word| word.starts_with('-'));
    let is_known = |option: &str| RIG_OPTIONS.contains(&option);
    let is_allowed = |option: &str, value: &str| is_harmless(option, value) || is_own && is_known(option);
    let command = Command::new("verbatim run").options(&run.rig_options, is_allowed);
    let command = command.filter(|(_, left_out)| !is_option && left_out.iter().all(|option| is_known(option)));
    let Some((mut command, left_out)) = command else {
        return "no command: the record has other options than those of a rig".into();
    };
    if let Some(rig) = rig {
        command = command.own("--rig").word(rig);
    }
    command = command.word(test).own("--seed").word(run.seed);
    for set in set {
        command = command.own("--set").word(set);
    }
    if left_out.is_empty() {
        return command.to_string();
    }
    let left_out = left_out.into_iter().collect::<Vec<_>>().join(", ");
    format!("{command} # add your own {left_out}: not taken from the record")
}

/// Formats the date of a time in nanoseconds since 1970.
pub(crate) fn day(ns: u64) -> String {
    time::OffsetDateTime::from_unix_timestamp_nanos(ns.into())
        .map_or_else(|_| String::new(), |at| at.date().to_string())
}

/// All outcomes, the worst first.
const GRAVEST_FIRST: [Outcome; 6] = [
    Outcome::Error,
    Outcome::Fail,
    Outcome::Inconclusive,
    Outcome::Pass,
    Outcome::NotApplicable,
    Outcome::Skipped,
];

/// Returns the word for an outcome after a count.
pub(crate) const fn words(outcome: Outcome, count: usize) -> &'static str {
    match outcome {
        Outcome::Error => plural(count as u64, "error", "errors"),
        Outcome::Fail => "failed",
        Outcome::Inconclusive => "inconclusive",
        Outcome::Pass => "passed",
        Outcome::NotApplicable => "not applicable",
        Outcome::Skipped | Outcome::Unspecified => "skipped",
    }
}

/// Describes a known deviation in one line.
pub(crate) fn in_words(known: &Known) -> String {
    let kind = match known.showed {
        Showed::Seen => "known deviation",
        Showed::NotSeen => "known deviation, not seen",
        Showed::Expired => "known deviation, expired",
    };
    format!("{kind}: {}", known.words())
}

/// Returns the time of an entry, if it has one.
pub(crate) fn at(entry: &Entry) -> Option<Span> {
    match entry {
        Entry::Sent(sent) => Some(sent.at),
        Entry::Arrived(arrived) => Some(arrived.at),
        Entry::Silence { at, .. } | Entry::Returned { at, .. } | Entry::End { at, .. } => Some(*at),
        Entry::Note(note) => Some(note.at),
        Entry::Frame(frame) => Some(frame.at),
        Entry::VerbsAsked(asked) => Some(asked.at),
        Entry::VerbsAnswered(answered) => Some(answered.at),
        Entry::VerbsTold(told) => Some(told.at),
        Entry::Waited(waited) => Some(Span::exactly(waited.until)),
        _ => None,
    }
}

/// Returns the short title of a statement, or an empty string if its id already describes it.
pub(crate) fn title(statement: &str) -> &'static str {
    verbatim_catalog::statement(statement)
        .filter(|known| !known.id.contains(' '))
        .map_or("", |known| &known.title)
}

/// Equal findings on one statement, grouped.
#[derive(Debug)]
pub(crate) struct Finding<'a> {
    /// The first of the equal findings.
    pub(crate) check: &'a Check,
    /// The number of equal findings.
    pub(crate) times: usize,
}

/// Groups equal findings in the order of their first occurrence, failed before inconclusive findings. Leaves out
/// findings that follow from other findings.
pub(crate) fn findings(verdict: &Verdict) -> Vec<Finding<'_>> {
    let mut found: Vec<Finding<'_>> = Vec::new();
    let mut places = HashMap::new();
    for check in verdict.findings.iter().filter(|check| check.follows_from.is_none()) {
        let what = (
            &check.statement,
            &check.about,
            &check.expected,
            &check.seen,
            check.result,
        );
        // Look up by hash, because a sweep may have a hundred thousand findings.
        let place = *places.entry(what).or_insert(found.len());
        match found.get_mut(place) {
            Some(known) => known.times += 1,
            None => found.push(Finding { check, times: 1 }),
        }
    }
    // The sort is stable, and puts failed findings before inconclusive findings.
    found.sort_by_key(|finding| core::cmp::Reverse(finding.check.result));
    found
}

/// Returns the findings that follow from another finding.
pub(crate) fn followers(verdict: &Verdict) -> impl Iterator<Item = &Check> {
    verdict.findings.iter().filter(|check| check.follows_from.is_some())
}

/// Explains a verdict in lines of text: each finding's statement, expected value, seen value and evidence. The
/// text begins with the verdict's reason if there is no finding or the outcome is ERROR.
pub(crate) fn explanation(verdict: &Verdict) -> Text {
    let mut out = Text::new();
    if verdict.findings.is_empty() || verdict.outcome() == Outcome::Error {
        out.extend([Text::message(&verdict.reason)]);
    }
    for Finding { check, times } in findings(verdict) {
        let title = title(&check.statement);
        let title = if title.is_empty() {
            String::new()
        } else {
            format!(" {title}")
        };
        let times = if times > 1 {
            format!(" ({times} times)")
        } else {
            String::new()
        };
        out.line(format_args!("{}{title}: {}{times}", check.statement, check.about));
        out.line(format_args!("  expected  {}", check.expected));
        out.line(format_args!("  seen      {}", check.seen));
        for given in &check.given {
            out.line(format_args!("  given     {given}"));
        }
        for evidence in &check.evidence {
            out.line(format_args!("  evidence  {evidence}"));
        }
    }
    for check in followers(verdict) {
        out.line(format_args!("follows from these: {check}"));
    }
    for restored in verdict.restored.iter().filter(|restored| !restored.is_complete()) {
        out.line(format_args!("not restored: {} {}", restored.area, restored.failure));
        for field in &restored.left {
            out.line(format_args!("  {field}"));
        }
    }
    out
}
