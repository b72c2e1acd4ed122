//! Packets as lines of a table or of JSON, and the sum of them.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::json;
use verbatim_capture::read::CaptureTime;
use verbatim_catalog::link::{self, Action, Certainty, Check, Checks, Judgement};

use super::Judged;
use super::tally::{NotJudged, Tally};
use super::what::What;

/// How packets are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lines {
    /// Columns for people.
    Table,
    /// One document a line.
    Json,
}

pub(super) struct Report {
    lines: Lines,
    has_head: bool,
    /// The first packet's time: the table counts from there.
    begin: Option<CaptureTime>,
    words: String,
    /// Columns of WHAT.
    what: usize,
    /// Whether counter and reason have a line of their own: there is no room for them beside the rest.
    is_narrow: bool,
}

/// Columns of number and time, with a blank behind each, and of the verdict.
const BEFORE_WHAT: usize = 23;
const VERDICT: usize = 18;
/// Columns that a packet in words mostly needs, and those that all columns together need with a reason.
const WHAT: usize = 70;
const WIDE: usize = 190;

/// One packet in JSON.
#[derive(Serialize)]
struct Line<'a> {
    packet: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    offset: u64,
    length: usize,
    what: String,
    verdict: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    certainty: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counter: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
    not_in_this_capture: Vec<&'a str>,
    not_told: Vec<&'a str>,
}

impl Report {
    /// For a terminal of so many columns; without a width, as for a file, nothing is shortened.
    pub(super) fn new(lines: Lines, width: Option<usize>) -> Self {
        let narrow = width.filter(|width| *width < WIDE);
        Self {
            lines,
            what: narrow.map_or(WHAT, |width| {
                width.saturating_sub(BEFORE_WHAT + VERDICT + 1).clamp(24, WHAT)
            }),
            is_narrow: narrow.is_some(),
            has_head: false,
            begin: None,
            words: String::new(),
        }
    }

    /// Takes note of a packet's time, shown or not.
    pub(super) fn clock(&mut self, time: Option<CaptureTime>) {
        self.begin = self.begin.or(time);
    }

    /// Shows a packet.
    pub(super) fn line(&mut self, out: &mut impl Write, judged: &Judged<'_>) -> io::Result<()> {
        if self.lines == Lines::Json {
            serde_json::to_writer(&mut *out, &document(judged))?;
            return out.write_all(b"\n");
        }
        if !self.has_head {
            self.has_head = true;
            write!(
                out,
                "{:>6} {:>15} {:<what$}",
                "PACKET",
                "TIME",
                "WHAT",
                what = self.what
            )?;
            if self.is_narrow {
                writeln!(out, " VERDICT")?;
            } else {
                writeln!(out, " {:<VERDICT$} {:<27} REASON", "VERDICT", "COUNTER")?;
            }
        }
        write!(out, "{:>6} ", judged.packet.number)?;
        match (judged.packet.time, self.begin) {
            (Some(time), Some(begin)) => since(out, time.since(begin))?,
            _ => write!(out, "{:>15}", "-")?,
        }
        self.words.clear();
        // Writing to a string does not fail.
        let _ = core::fmt::Write::write_fmt(&mut self.words, format_args!("{}", What(judged)));
        if self.is_narrow {
            shorten(&mut self.words, self.what);
        }
        let (words, what) = (&self.words, self.what);
        match (reason(judged), counter(judged)) {
            (None, _) => writeln!(out, " {words:<what$} {}", verdict(judged)),
            (Some(reason), counter) if self.is_narrow => {
                writeln!(out, " {words:<what$} {}", verdict(judged))?;
                let counter = counter.map_or_else(String::new, |counter| format!("{counter}; "));
                writeln!(out, "{:>6} {counter}{reason}", "")
            }
            (Some(reason), counter) => {
                let counter = counter.unwrap_or("-");
                writeln!(
                    out,
                    " {words:<what$} {:<VERDICT$} {counter:<27} {reason}",
                    verdict(judged)
                )
            }
        }
    }

    /// Sums up.
    pub(super) fn end(&self, out: &mut impl Write, tally: &Tally) -> io::Result<()> {
        let not_judged: u64 = tally.not_judged.values().sum();
        if self.lines == Lines::Json {
            let reasons: BTreeMap<&str, u64> = tally.reasons().map(|(check, count)| (check.name(), count)).collect();
            let why: BTreeMap<String, u64> = tally
                .not_judged
                .iter()
                .map(|(why, count)| (why.to_string(), *count))
                .collect();
            let summary = json!({ "summary": {
                "packets": tally.packets,
                "accepted": tally.accepted,
                "discarded": tally.discarded,
                "not_judged": not_judged,
                "discarded_by_first_failure": reasons,
                "not_judged_by_reason": why,
                "not_in_this_capture": names(tally.absent),
                "not_told": names(tally.untold),
            }});
            return writeln!(out, "{summary}");
        }
        if self.has_head {
            writeln!(out)?;
        }
        let (all, accepted, discarded) = (tally.packets, tally.accepted, tally.discarded);
        writeln!(
            out,
            "{all} packets: {accepted} accepted, {discarded} discarded, {not_judged} not judged"
        )?;
        for (check, count) in tally.reasons() {
            writeln!(out, "{count:>9} {check}: {}", check.sentence())?;
        }
        for (why, count) in &tally.not_judged {
            writeln!(out, "{count:>9} not judged: {why}")?;
        }
        if !tally.absent.is_empty() {
            writeln!(out, "not in this capture: {}", tally.absent)?;
        }
        for check in tally.untold.iter() {
            let option = if check == Check::Dlid { "--lid" } else { "--p-keys" };
            writeln!(out, "not checked without {option}: {check}")?;
        }
        Ok(())
    }
}

/// Nanoseconds as seconds in 15 columns.
fn since(out: &mut impl Write, nanoseconds: i128) -> io::Result<()> {
    const NANOS: u64 = 1_000_000_000;
    match u64::try_from(nanoseconds) {
        Ok(later) => write!(out, "{:>5}.{:09}", later / NANOS, later % NANOS),
        Err(_) => {
            let earlier = nanoseconds.unsigned_abs();
            let words = format!("-{}.{:09}", earlier / u128::from(NANOS), earlier % u128::from(NANOS));
            write!(out, "{words:>15}")
        }
    }
}

fn names(checks: Checks) -> Vec<&'static str> {
    checks.iter().map(Check::name).collect()
}

fn verdict(judged: &Judged<'_>) -> &'static str {
    match judged.action() {
        Some(Action::Accept) => "accept",
        Some(Action::Discard) => "discard",
        Some(Action::DiscardOrForward) => "discard or forward",
        Some(Action::NotJudged(_)) | None => "not judged",
    }
}

/// Cuts text to so many characters, and shows that.
fn shorten(words: &mut String, most: usize) {
    if words.chars().count() > most {
        let end = words.char_indices().nth(most.saturating_sub(3)).map_or(0, |(at, _)| at);
        words.truncate(end);
        words.push_str("...");
    }
}

fn counter(judged: &Judged<'_>) -> Option<&'static str> {
    let judgement = judged.verdict.as_ref().ok()?;
    judgement.counter.map(link::Counter::name)
}

/// Why it is not simply accepted.
fn reason(judged: &Judged<'_>) -> Option<String> {
    let judgement = match &judged.verdict {
        Err(what) => return Some(NotJudged::Unread(*what).to_string()),
        Ok(judgement) => judgement,
    };
    if let Action::NotJudged(why) = judgement.action {
        return Some(why.into());
    }
    let (first, certainty) = judgement.first?;
    let received = judged.received.as_ref()?;
    let explanation = link::explain(first, judged.port, received);
    let unchecked = if judgement.may_pass_unchecked {
        "; only the destination must check it"
    } else {
        ""
    };
    Some(format!(
        "{first}: {explanation}{unchecked}{}",
        also(judgement, first, certainty)
    ))
}

fn also(judgement: &Judgement, first: Check, certainty: Certainty) -> String {
    let others = judgement.failed.without(Checks::of(&[first]));
    if others.is_empty() {
        return String::new();
    }
    format!("; also {others} (that {first} ranks first is {certainty})")
}

fn document<'a>(judged: &Judged<'_>) -> Line<'a> {
    let judgement = judged.verdict.as_ref().ok();
    let first = judgement.and_then(|judgement| judgement.first);
    Line {
        packet: judged.packet.number,
        time: judged.packet.time.map(|time| time.to_string()),
        offset: judged.packet.offset,
        length: judged.packet.bytes.len(),
        what: What(judged).to_string(),
        verdict: verdict(judged),
        failed: names(judgement.map_or(Checks::NONE, |judgement| judgement.failed)),
        first: first.map(|(first, _)| first.name()),
        certainty: first.map(|(_, certainty)| certainty.name()),
        reason: reason(judged),
        counter: counter(judged),
        detail: first
            .filter(|_| counter(judged).is_some())
            .and_then(|(first, _)| first.detail()),
        not_in_this_capture: names(judgement.map_or(Checks::NONE, |judgement| judgement.absent)),
        not_told: names(judgement.map_or(Checks::NONE, |judgement| judgement.untold)),
    }
}
