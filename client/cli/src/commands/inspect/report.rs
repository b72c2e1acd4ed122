//! Output of packets as lines of a table or of JSON, and their summary.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::json;
use verbatim_capture::read::CaptureTime;
use verbatim_oracle::packet_check::{self as link, Action, Certainty, Check, Checks, Judgement};

use verbatim_wire::{Ethernet, Layout};

use super::Judged;
use super::tally::{NotJudged, Tally};
use super::what::What;
use crate::print::counted;

/// The output format.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lines {
    /// Columns of a table.
    Table,
    /// A JSON document per line.
    Json,
}

pub(super) struct Report {
    lines: Lines,
    has_head: bool,
    /// Time of the first packet. The table shows times relative to it.
    begin: Option<CaptureTime>,
    words: String,
    /// Width of the column WHAT.
    what: usize,
    /// Width of a terminal that is too narrow for all columns. Counter and reason then have their own lines.
    narrow: Option<usize>,
}

/// Width of the columns for number and time, with their blanks.
const BEFORE_WHAT: usize = 23;
/// Width of the column for the verdict.
const VERDICT: usize = 18;
/// Width of most verdicts. On a narrow terminal, a longer verdict shortens WHAT in its line.
const SHORT_VERDICT: usize = 10;
/// Indentation of the lines below a packet.
const BEFORE_REASON: usize = 7;
/// Width of WHAT that most packets need.
const WHAT: usize = 70;
/// Width of all columns together, including a reason.
const WIDE: usize = 190;

/// A packet in JSON.
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
    /// Creates a report for a terminal of `width` columns, where long lines are wrapped. Without a width, as for a
    /// file, each packet has one line.
    pub(super) fn new(lines: Lines, width: Option<usize>) -> Self {
        let narrow = width.filter(|width| *width < WIDE);
        Self {
            lines,
            what: narrow.map_or(WHAT, |width| {
                width.saturating_sub(BEFORE_WHAT + SHORT_VERDICT + 1).clamp(24, WHAT)
            }),
            narrow,
            has_head: false,
            begin: None,
            words: String::new(),
        }
    }

    /// Stores the time of the first packet, even if the packet is not shown.
    pub(super) fn clock(&mut self, time: Option<CaptureTime>) {
        self.begin = self.begin.or(time);
    }

    /// Prints a packet.
    pub(super) fn line(&mut self, out: &mut impl Write, judged: &Judged<'_>) -> io::Result<()> {
        if self.lines == Lines::Json {
            let line = verbatim_text::shown_json(serde_json::to_string(&document(judged))?);
            return writeln!(out, "{line}");
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
            if self.narrow.is_some() {
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
        // Writing to a string cannot fail.
        let _ = core::fmt::Write::write_fmt(&mut self.words, format_args!("{}", What(judged)));
        let (words, what, verdict) = (&self.words, self.what, verdict(judged));
        if let Some(width) = self.narrow {
            let what = what - verdict.len().saturating_sub(SHORT_VERDICT);
            for (place, words) in wrapped(words, what).into_iter().enumerate() {
                match place {
                    0 => writeln!(out, " {words:<what$} {verdict}")?,
                    _ => writeln!(out, "{:BEFORE_WHAT$}{words}", "")?,
                }
            }
            let reason = reason(judged).map(|reason| match counter(judged) {
                Some(counter) => format!("{counter}; {reason}"),
                None => reason,
            });
            let room = width.saturating_sub(BEFORE_REASON);
            for words in reason.iter().flat_map(|reason| wrapped(reason, room)) {
                writeln!(out, "{:BEFORE_REASON$}{words}", "")?;
            }
            return Ok(());
        }
        match (reason(judged), counter(judged)) {
            (None, _) => writeln!(out, " {words:<what$} {verdict}"),
            (Some(reason), counter) => {
                let counter = counter.unwrap_or("-");
                writeln!(out, " {words:<what$} {verdict:<VERDICT$} {counter:<27} {reason}")
            }
        }
    }

    /// Prints the summary.
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
            "{}: {accepted} accepted, {discarded} discarded, {not_judged} not judged",
            counted(all, "packet", "packets")
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

/// Writes nanoseconds as seconds in 15 columns.
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

/// Splits a text into lines of at most `most` characters, at blanks only. A longer word stays whole.
fn wrapped(text: &str, most: usize) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while rest.chars().count() > most {
        let end = rest.char_indices().nth(most).map_or(rest.len(), |(at, _)| at);
        // A blank just behind the limit is suitable too.
        let blank = match rest[end..].starts_with(' ') {
            true => Some(end),
            false => rest[..end].rfind(' ').or_else(|| rest.find(' ')),
        };
        let Some(blank) = blank else { break };
        lines.push(&rest[..blank]);
        rest = &rest[blank + 1..];
    }
    lines.push(rest);
    lines
}

fn counter(judged: &Judged<'_>) -> Option<&'static str> {
    let judgement = judged.verdict.as_ref().ok()?;
    judgement.counter.map(link::Counter::name)
}

/// Returns the reason of the verdict; None if no check failed.
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
        length: judged.packet.bytes.len() - if judged.packet.is_bare { Ethernet::SIZE } else { 0 },
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

#[cfg(test)]
mod tests {
    use super::*;
    use verbatim_capture::read::{Captured, Content};
    use verbatim_oracle::packet_check::{Kind, Port, Received};
    use verbatim_wire::{Medium, Mtu, PortState};

    /// Returns the output for a management packet with a reason, for a terminal of `width` columns.
    fn lines(width: Option<usize>, attribute: u8) -> String {
        let mut bytes = vec![0; 8 + 12 + 8 + 256 + 4];
        bytes[..8].copy_from_slice(&[0xF0, 0x02, 0xFF, 0xFF, 0, 72, 0, 3]);
        bytes[8..12].copy_from_slice(&[0x64, 0, 0xFF, 0xFF]);
        bytes[28..32].copy_from_slice(&[1, 1, 1, 1]);
        bytes[45] = attribute;
        bytes[51] = 7;
        let port = Port {
            kind: Kind::Ca,
            is_destination: true,
            lid: None,
            lmc: 0,
            mtu_cap: Mtu::B4096,
            vls: 15,
            state: PortState::ACTIVE,
            p_keys: None,
        };
        let judged = Judged {
            packet: Captured {
                number: 1,
                offset: 0,
                time: None,
                content: Content::InfiniBand,
                bytes: &bytes,
                tunnel: None,
                is_bare: false,
                is_whole: true,
                is_reconstructed: false,
            },
            port: &port,
            received: Some(Received {
                medium: Medium::InfiniBandNoVcrc,
                bytes: &bytes,
                delimiter: None,
                is_whole: true,
            }),
            verdict: Ok(Judgement::not_judged(crate::commands::inspect::NO_LIDS)),
        };
        let mut out = Vec::new();
        Report::new(Lines::Table, width).line(&mut out, &judged).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn narrow_terminal_wraps_without_cutting_names() {
        for (attribute, name) in [
            (0x11, "SubnGet(NodeInfo,"),
            (0x15, "SubnGet(PortInfo,"),
            (0x18, "SubnGet(VLArbitrationTable,"),
        ] {
            let text = lines(Some(80), attribute);
            assert!(text.contains(name), "{text}");
            assert!(!text.contains("..."), "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
            assert!(
                text.lines().nth(1).is_some_and(|line| line.ends_with(" not judged")),
                "{text}"
            );
            let words: Vec<&str> = text.split_whitespace().collect();
            let words = words.join(" ");
            assert!(
                words.contains("0x00000007)") && words.ends_with("none, and the export made them up"),
                "{text}"
            );
        }
    }

    #[test]
    fn without_terminal_a_packet_has_one_line() {
        let text = lines(None, 0x11);
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.contains("SubnGet(NodeInfo, modifier 0x00000007) "), "{text}");
    }

    #[test]
    fn wraps_at_blanks_and_keeps_long_words() {
        assert_eq!(wrapped("ab cd ef", 5), ["ab cd", "ef"]);
        assert_eq!(wrapped("ab cd ef", 4), ["ab", "cd", "ef"]);
        assert_eq!(wrapped("abcdefgh ij", 4), ["abcdefgh", "ij"]);
        assert_eq!(wrapped("abcdefgh", 4), ["abcdefgh"]);
        assert_eq!(wrapped("", 4), [""]);
    }
}
