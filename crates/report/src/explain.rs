//! Explains findings: in one line, in at most 40 lines, or with the fields and bytes of their evidence.

use verbatim_record::{Cause, Entry, Outcome, Verdict};
use verbatim_record_proto::v1::Check;
use verbatim_text::{Text, quoted};

use crate::fields::{dump, fields};
use crate::input::{Reported, title};
use crate::ladder::{self, Way};

/// The most premises, the most packets and the most other evidence that a finding shows without `fields` and `bytes`.
const FEW: usize = 6;

/// The findings to explain. A member that is `None` selects all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Selected<'a> {
    /// The test.
    pub test: Option<&'a str>,
    /// The statement.
    pub statement: Option<&'a str>,
    /// The number of the finding within its test, from 1.
    pub number: Option<usize>,
}

impl Selected<'_> {
    fn has(&self, verdict: &Verdict, number: usize, check: &Check) -> bool {
        self.test.is_none_or(|test| test == verdict.test)
            && self.statement.is_none_or(|statement| statement == check.statement)
            && self.number.is_none_or(|selected| selected == number)
    }
}

/// The amount of detail of an explanation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Detail {
    /// Whether each packet has its fields.
    pub fields: bool,
    /// Whether each packet has its bytes.
    pub bytes: bool,
}

impl Detail {
    const fn is_full(self) -> bool {
        self.fields || self.bytes
    }
}

/// The commands that an explanation recommends, without the finding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Commands<'a> {
    /// The command that explains findings of this run.
    pub explain: &'a str,
    /// The command that exports the packets of this run.
    pub export: &'a str,
}

/// Returns the selected findings with their numbers within their tests.
pub fn selected<'a>(
    reported: &Reported<'a>,
    of: Selected<'_>,
) -> impl Iterator<Item = (&'a Verdict, usize, &'a Check)> {
    let all = reported.verdicts.iter().flat_map(|verdict| {
        let numbered = (1..).zip(&verdict.findings);
        numbered.map(move |(number, check)| (verdict, number, check))
    });
    all.filter(move |(verdict, number, check)| of.has(verdict, *number, check))
}

/// Returns the selected findings as text, one line each.
#[must_use]
pub fn list(reported: &Reported<'_>, of: Selected<'_>) -> Text {
    let line = |(verdict, number, check): (&Verdict, usize, &Check)| {
        let follows = check.follows_from.map_or_else(String::new, |cause| {
            format!(" (follows from #{})", u64::from(cause) + 1)
        });
        Text::of(format_args!(
            "{} {}#{number} {check}{follows}",
            check.result(),
            verdict.test
        ))
    };
    selected(reported, of).map(line).collect()
}

/// Returns the tests that did not pass and have no finding as text, one line each with the reason.
#[must_use]
pub fn list_without_findings(reported: &Reported<'_>) -> Text {
    let is_open = |verdict: &&Verdict| {
        verdict.findings.is_empty()
            && matches!(
                verdict.outcome(),
                Outcome::Fail | Outcome::Inconclusive | Outcome::Error
            )
    };
    let line = |verdict: &Verdict| {
        Text::of(format_args!(
            "{} {} {}",
            verdict.outcome(),
            verdict.test,
            verdict.reason
        ))
    };
    reported.verdicts.iter().filter(is_open).map(line).collect()
}

/// Returns the selected findings as text. The text of a finding has its premise, stimulus and answer, and the expected
/// and the seen value. It also has the catalogue's wording of the statement, and recommended commands. Without detail,
/// it has at most 40 lines. The text is empty if no finding matches.
#[must_use]
pub fn explain(reported: &Reported<'_>, of: Selected<'_>, detail: Detail, commands: Commands<'_>) -> Text {
    let mut out = Text::new();
    for (verdict, number, check) in selected(reported, of) {
        if !out.is_empty() {
            out.line("");
        }
        let digest = reported.record(&verdict.test);
        let record = digest.map_or(&[][..], |digest| &digest.evidence);
        // The request that led to the first packet.
        let posted = check.frames.iter().find_map(|frame| digest?.posted.get(frame));
        let cause = match verdict.cause() {
            Cause::Unspecified => String::new(),
            cause => format!(", cause {cause}"),
        };
        out.line(format_args!("{} {}#{number}{cause}", check.result(), verdict.test));
        out.extend([one(check, record, posted.map_or(&[][..], Vec::as_slice), detail)]);
        let mut tries = Vec::new();
        if let Some(cause) = check.follows_from {
            let other = format!("{}#{}", verdict.test, u64::from(cause) + 1);
            tries.push(format!("{} {}", commands.explain, quoted(&other)));
        }
        let has_evidence = !check.exchanges.is_empty() || !check.frames.is_empty();
        if has_evidence && !detail.is_full() {
            tries.push(format!(
                "{} {} --fields  # and --hex: the fields and bytes of the packets",
                commands.explain,
                quoted(&format!("{}#{number}", verdict.test))
            ));
        }
        tries.push(format!(
            "verbatim tests --long {}  # how the test reads unclear steps",
            quoted(&verdict.test)
        ));
        // Wireshark counts the packets of all tests, and the lines of the hosts; the comments have our numbers.
        let find = match check.frames.first() {
            Some(frame) => format!(
                "; frame.comment matches \"{} frame {frame}( |$)\" finds the packet",
                verdict.test
            ),
            None => String::new(),
        };
        tries.push(format!("{}  # for Wireshark{find}", commands.export));
        for (place, command) in tries.iter().enumerate() {
            let label = if place == 0 { "try:" } else { "" };
            out.line(format_args!("  {label:<9} {command}"));
        }
        out.line(format_args!("  again: {}", reported.again(&verdict.test)));
    }
    out
}

/// Explains the verdict of a test without findings: the reason, the passed checks and the procedure's progress. Returns
/// `None` if the test has findings or is not part of the run.
#[must_use]
pub fn explain_verdict(reported: &Reported<'_>, test: &str) -> Option<Text> {
    let verdict = reported.verdicts.iter().find(|verdict| verdict.test == test)?;
    if !verdict.findings.is_empty() {
        return None;
    }
    let cause = match verdict.cause() {
        Cause::Unspecified => String::new(),
        cause => format!(", cause {cause}"),
    };
    let mut out = Text::of(format_args!("{} {test}{cause}", verdict.outcome()));
    if !verdict.reason.is_empty() {
        out.line(format_args!("  reason:   {}", verdict.reason));
    }
    let mut looked_at: Vec<(String, usize)> = Vec::new();
    for check in &verdict.passed {
        let words = format!("{} {}: {}", check.statement, check.about, check.seen);
        match looked_at.iter_mut().find(|(known, _)| *known == words) {
            Some((_, count)) => *count += 1,
            None => looked_at.push((words, 1)),
        }
    }
    for (words, count) in looked_at {
        let times = if count > 1 {
            format!(" ({count} times)")
        } else {
            String::new()
        };
        out.line(format_args!("  passed:   {words}{times}"));
    }
    for seen in &verdict.observations {
        out.line(format_args!("  observed: {}", seen.text));
    }
    match reported.record(test) {
        Some(record) => out.line(format_args!("  reached:  {}", record.reached.in_words())),
        None => out.line("  reached:  nothing: the test did not begin"),
    }
    out.line(format_args!("  again: {}", reported.again(test)));
    Some(out)
}

fn one(check: &Check, record: &[Entry], posted: &[String], detail: Detail) -> Text {
    let title = match title(&check.statement) {
        "" => String::new(),
        title => format!(" {title}"),
    };
    let mut out = Text::of(format_args!("  {}{title}: {}", check.statement, check.about));
    let most = if detail.is_full() { usize::MAX } else { FEW };
    out.extend([few("premise:", &check.given, most)]);
    for words in posted {
        out.line(format_args!("  {:<9} {words}", "posted:"));
    }
    let rungs = ladder::of(record, &check.exchanges, &check.frames);
    for (place, (entry, rung)) in rungs.iter().enumerate() {
        // The first packet is often the cause, and the test judged the last packets.
        if place > 0 && place.saturating_add(most) <= rungs.len() {
            if place == 1 {
                let more = rungs.len() - most;
                out.line(format_args!("  {:<9} {more} more packets; --fields shows them", ""));
            }
            continue;
        }
        let label = if rung.way == Way::Out { "stimulus:" } else { "answer:" };
        out.line(format_args!("  {label:<9} {} {}", rung.at, rung.what));
        for (_, part) in [(detail.fields, fields(entry)), (detail.bytes, dump(entry))]
            .iter()
            .filter(|(is_wanted, _)| *is_wanted)
        {
            out.block("    ", part.trim_end());
        }
        if detail.is_full() {
            out.line("");
        }
    }
    // Completions and measured times have no packets, so their evidence is printed as text.
    let is_packet = |words: &&String| !rungs.is_empty() && (words.starts_with('#') || words.starts_with("frame "));
    let others: Vec<&String> = check.evidence.iter().filter(|words| !is_packet(words)).collect();
    out.extend([few("evidence:", &others, most)]);
    if let Some(cause) = check.follows_from {
        out.line(format_args!("  follows from finding #{}", u64::from(cause) + 1));
    }
    out.line(format_args!("  expected: {}", check.expected));
    out.line(format_args!("  seen:     {}", check.seen));
    if let Some(statement) = verbatim_catalog::statement(&check.statement) {
        out.line(format_args!("  demands:  {}", statement.about));
        out.line(format_args!("  source:   {}", statement.source));
    }
    out
}

/// Formats the last `most` lines after their label, and the number of the earlier lines.
fn few(label: &str, lines: &[impl AsRef<str>], most: usize) -> Text {
    let left_out = lines.len().saturating_sub(most);
    let mut out = Text::new();
    if left_out > 0 {
        out.line(format_args!(
            "  {label:<9} {left_out} more before these; --fields shows them"
        ));
    }
    for line in &lines[left_out..] {
        out.line(format_args!("  {label:<9} {}", line.as_ref()));
    }
    out
}
