//! What all forms tell, worked out once.

use core::time::Duration;
use std::collections::{BTreeMap, HashMap};

use verbatim_catalog::Register;
use verbatim_catalog::deviations::{Known, Showed};
use verbatim_record::{Entry, Outcome, Span, Verdict};
use verbatim_record_proto::v1::{Check, RunInfo};

use crate::counted::{counted, plural};
use crate::digest::Digest;
use crate::trend::Past;

/// A run, its verdicts, and the record of each test that has one.
#[derive(Clone, Copy, Debug)]
pub struct Reported<'a> {
    /// What was run.
    pub run: &'a RunInfo,
    /// A verdict for each test, in the order of the run.
    pub verdicts: &'a [Verdict],
    /// Of each record what a report needs. A test that was skipped has none.
    pub records: &'a [Digest],
    /// Earlier runs of the device, the oldest first.
    pub before: &'a [Past],
    /// Tests whose verdict is that of the run, and why it was not judged anew.
    pub not_judged_anew: &'a BTreeMap<String, String>,
    /// Known deviations of such devices.
    pub deviations: &'a Register,
    /// Whether what is known counts as no failure, where readers count.
    pub tolerates_known: bool,
    /// What ties it to its evidence: the manifest's hash and who signed it, in words; nothing where there is no bundle.
    pub seal: &'a str,
}

impl<'a> Reported<'a> {
    /// The record of a test.
    pub(crate) fn record(&self, test: &str) -> Option<&'a Digest> {
        self.records
            .iter()
            .find(|record| record.begin.as_ref().is_some_and(|begin| begin.test == test))
    }

    /// What is known of devices of its kind, and whether it showed.
    pub(crate) fn deviations(&self) -> Vec<Known> {
        self.deviations
            .known(&self.run.fingerprint, self.run.started_ns, self.verdicts)
    }

    /// Whether a test counts as no failure, since all that it found is known.
    pub(crate) fn is_tolerated(&self, test: &str, known: &[Known]) -> bool {
        self.tolerates_known && known.iter().any(|known| known.test == test && known.explains_all)
    }

    /// Why the verdict of a test is that of the run, in words; none where it was judged anew.
    pub(crate) fn as_recorded(&self, test: &str) -> Option<String> {
        let why = self.not_judged_anew.get(test)?;
        Some(format!("not judged anew: {why}"))
    }

    /// How long a test took on its rig's clock, which may be simulated.
    pub(crate) fn took(&self, test: &str) -> Option<Duration> {
        self.record(test)?.took
    }

    /// Outcomes with how many tests have each, the gravest first.
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

    /// One line: how many tests, on what, and what they came to.
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

    /// The command that runs a test again as it was run.
    pub(crate) fn again(&self, test: &str) -> String {
        let options = match self.run.rig_options.as_str() {
            "" => String::new(),
            options => format!(" {options}"),
        };
        let mut command = format!(
            "verbatim run{options} --rig {} {test} --seed {}",
            self.run.rig, self.run.seed
        );
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
                    command.push_str(&format!(" --set {name}={value}"));
                }
            }
        }
        command
    }

    /// When the run began.
    pub(crate) fn started(&self) -> String {
        time::OffsetDateTime::from_unix_timestamp_nanos(self.run.started_ns.into()).map_or_else(
            |_| String::new(),
            |at| {
                let (hour, minute, second) = at.to_hms();
                format!("{} {hour:02}:{minute:02}:{second:02} UTC", at.date())
            },
        )
    }
}

/// The day of an instant.
pub(crate) fn day(ns: u64) -> String {
    time::OffsetDateTime::from_unix_timestamp_nanos(ns.into())
        .map_or_else(|_| String::new(), |at| at.date().to_string())
}

/// Every outcome, the gravest first.
const GRAVEST_FIRST: [Outcome; 6] = [
    Outcome::Error,
    Outcome::Fail,
    Outcome::Inconclusive,
    Outcome::Pass,
    Outcome::NotApplicable,
    Outcome::Skipped,
];

/// An outcome behind a number.
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

/// A deviation in a line, with its place among the known ones.
pub(crate) fn in_words(known: &Known) -> String {
    let kind = match known.showed {
        Showed::Seen => "known deviation",
        Showed::NotSeen => "known deviation, not seen",
        Showed::Expired => "known deviation, expired",
    };
    format!("{kind}: {}", known.words())
}

/// When something in a record happened.
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

/// What a statement is about, in a few words; nothing where its id says it.
pub(crate) fn title(statement: &str) -> &'static str {
    verbatim_catalog::statement(statement)
        .filter(|known| !known.id.contains(' '))
        .map_or("", |known| &known.title)
}

/// Findings that say the same of one statement, told once.
#[derive(Debug)]
pub(crate) struct Finding<'a> {
    /// The first.
    pub(crate) check: &'a Check,
    /// How many there are.
    pub(crate) times: usize,
}

/// The causes among the findings of a verdict, equal ones together, in the order of the first of each: failed ones before
/// open ones.
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
        // By hash: a sweep has a hundred thousand findings.
        let place = *places.entry(what).or_insert(found.len());
        match found.get_mut(place) {
            Some(known) => known.times += 1,
            None => found.push(Finding { check, times: 1 }),
        }
    }
    // Stable: what failed is what matters, and is not hidden behind what is open.
    found.sort_by_key(|finding| core::cmp::Reverse(finding.check.result));
    found
}

/// The findings that follow from another one.
pub(crate) fn followers(verdict: &Verdict) -> impl Iterator<Item = &Check> {
    verdict.findings.iter().filter(|check| check.follows_from.is_some())
}

/// Text as a block of lines: statement, expected, seen, evidence of each finding; or the reason.
pub(crate) fn explanation(verdict: &Verdict) -> String {
    let mut out = String::new();
    if verdict.findings.is_empty() || verdict.outcome() == Outcome::Error {
        out.push_str(&format!("{}\n", verdict.reason));
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
        out.push_str(&format!(
            "{}{title}: {}{times}\n  expected  {}\n  seen      {}\n",
            check.statement, check.about, check.expected, check.seen
        ));
        for given in &check.given {
            out.push_str(&format!("  given     {given}\n"));
        }
        for evidence in &check.evidence {
            out.push_str(&format!("  evidence  {evidence}\n"));
        }
    }
    for check in followers(verdict) {
        out.push_str(&format!("follows from these: {check}\n"));
    }
    for restored in verdict.restored.iter().filter(|restored| !restored.is_complete()) {
        out.push_str(&format!("not restored: {} {}\n", restored.area, restored.failure));
        for field in &restored.left {
            out.push_str(&format!("  {field}\n"));
        }
    }
    out
}
