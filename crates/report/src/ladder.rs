//! The ladder diagram of a test: the events between tester and device, in the order of the record. A rung is one event.

use std::collections::BTreeSet;

use verbatim_record::verbs::{command_words, event_words, reply_words};
use verbatim_record::{Entry, Match, Side, Verdict, duration_words, kernel_report_name};
use verbatim_wire::packet::{NotAPacket, Packet};

use crate::counted::counted;
use crate::digest::Evidence;
use crate::fields::{detail, medium};
use crate::input::at;

/// The number of rungs shown before and after each rung that is evidence.
const AROUND: usize = 4;
/// The most rungs of a test that is shown completely.
const WHOLE: usize = 120;
/// The most shown rungs that are evidence. A test may have a thousand such rungs.
const MOST: usize = 60;

/// The most rungs of a test that are on paper: the first rungs of its premises and evidence.
const ON_PAPER: usize = 8;

/// The direction of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// From the tester to the device.
    Out,
    /// From the device to the tester.
    In,
    /// An event without a direction: a silence, a wait, a note.
    Here,
}

impl Way {
    /// Returns the word for the style sheet and the page's readers.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Out => "out",
            Self::In => "in",
            Self::Here => "here",
        }
    }
}

/// One event of the ladder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rung {
    /// The time on the rig's clock, or empty if the event has none.
    pub(crate) at: String,
    pub(crate) way: Way,
    /// The description in one line.
    pub(crate) what: String,
    /// The fields and bytes; empty if the event has none.
    pub(crate) detail: String,
    /// Whether a finding names the event as evidence.
    pub(crate) is_evidence: bool,
    /// Whether the event shows a premise of a finding.
    pub(crate) is_premise: bool,
    /// Whether the event is also on paper.
    pub(crate) is_on_paper: bool,
}

/// One line of the shown ladder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Shown {
    /// A rung.
    Rung(Rung),
    /// This many rungs are left out.
    LeftOut(usize),
}

/// Returns the rungs of a test. For a long test, returns only the rungs at its beginning, around the evidence and at
/// its end.
pub(crate) fn ladder(record: &[Entry], verdict: &Verdict) -> Vec<Shown> {
    let evidence = Evidence::of(verdict);
    let total = record.iter().filter(|entry| is_rung(entry)).count();
    let shown = places(record, &evidence, total);
    let mut labels = vec![String::new()];
    let mut out = Vec::new();
    let (mut place, mut next, mut on_paper) = (0, 0, 0);
    for entry in record {
        if let Entry::Label { name, .. } = entry {
            labels.push(name.clone());
        }
        if !is_rung(entry) {
            continue;
        }
        // Format only the shown rungs: the text of a million packets would fill the memory.
        if shown.contains(&place) {
            if place > next {
                out.push(Shown::LeftOut(place - next));
            }
            next = place + 1;
            if let Some(mut rung) = rung(entry, &labels, evidence.has(entry), true) {
                rung.is_premise = evidence.is_premise(entry);
                rung.is_on_paper = (rung.is_evidence || rung.is_premise) && on_paper < ON_PAPER;
                on_paper += usize::from(rung.is_on_paper);
                out.push(Shown::Rung(rung));
            }
        }
        place += 1;
    }
    if total > next {
        out.push(Shown::LeftOut(total - next));
    }
    out
}

/// Returns the indices of the shown rungs.
fn places(record: &[Entry], evidence: &Evidence, total: usize) -> BTreeSet<usize> {
    let Some(last) = total.checked_sub(1) else {
        return BTreeSet::new();
    };
    if total <= WHOLE {
        return (0..total).collect();
    }
    let rungs = record.iter().filter(|entry| is_rung(entry)).enumerate();
    let is_judged = |(_, entry): &(usize, &Entry)| evidence.has(entry) || evidence.is_premise(entry);
    let judged = rungs.filter(is_judged).map(|(place, _)| place);
    judged
        .take(MOST)
        .chain([0, last])
        .flat_map(|place| place.saturating_sub(AROUND)..=(place + AROUND).min(last))
        .collect()
}

/// Returns the rungs of these exchanges and frames, without their detail.
pub(crate) fn of<'r>(record: &'r [Entry], exchanges: &[u32], frames: &[u32]) -> Vec<(&'r Entry, Rung)> {
    let evidence = Evidence::these(exchanges, frames);
    let mut labels = vec![String::new()];
    let mut out = Vec::new();
    for entry in record {
        if let Entry::Label { name, .. } = entry {
            labels.push(name.clone());
        }
        if evidence.has(entry) {
            out.extend(rung(entry, &labels, true, false).map(|rung| (entry, rung)));
        }
    }
    out
}

fn rung(entry: &Entry, labels: &[String], is_evidence: bool, with_detail: bool) -> Option<Rung> {
    let (way, what) = bare(entry, labels)?;
    Some(Rung {
        at: at(entry).map_or_else(String::new, |span| span.latest.to_string()),
        way,
        what,
        detail: if with_detail { detail(entry) } else { String::new() },
        is_evidence,
        is_premise: false,
        is_on_paper: false,
    })
}

const fn is_rung(entry: &Entry) -> bool {
    !matches!(
        entry,
        Entry::RoundTrips(_) | Entry::Begin(_) | Entry::Label { .. } | Entry::Restored(_) | Entry::End { .. }
    )
}

/// Returns the direction and the one-line description of an event, or `None` for other entries.
fn bare(entry: &Entry, labels: &[String]) -> Option<(Way, String)> {
    let label = |number: u32| {
        let name = usize::try_from(number).ok().and_then(|number| labels.get(number));
        name.filter(|name| !name.is_empty())
            .map_or_else(String::new, |name| format!(" \"{name}\""))
    };
    let side = |side: Side| match side {
        Side::Dut => "the DUT's host",
        Side::Tester => "the tester's host",
    };
    Some(match entry {
        Entry::Sent(sent) => {
            let again = match sent.attempt {
                0 => String::new(),
                attempt => format!(", repetition {attempt}"),
            };
            let key = if sent.mad.is_smp() {
                format!(" M_Key {}", sent.mad.m_key())
            } else {
                String::new()
            };
            (
                Way::Out,
                format!("#{}{}: {}{key}{again}", sent.exchange, label(sent.label), sent.mad),
            )
        }
        Entry::Arrived(arrived) => {
            let how = match arrived.how {
                Match::Answer => String::new(),
                Match::Wrong => ", not an answer to the request".into(),
                Match::Again => ", a further answer".into(),
                Match::Late => ", after its deadline".into(),
                Match::Stray => ", without a request".into(),
                Match::Trap => ", a trap".into(),
            };
            (Way::In, format!("#{}: {}{how}", arrived.exchange, arrived.mad))
        }
        Entry::Silence { exchange, .. } => (Way::Here, format!("#{exchange}: no answer until its deadline")),
        Entry::Returned { exchange, errno, .. } => (
            Way::Here,
            format!("#{exchange}: the host returned the request, error {errno}"),
        ),
        Entry::Frame(frame) => {
            let bytes = counted(frame.bytes.len() as u64, "byte", "bytes");
            let what = Packet::parse(medium(frame), &frame.bytes).map_or_else(
                |error| match error {
                    // Other protocols, such as address resolution, are not errors.
                    NotAPacket::NotRoce(kind) => format!("{kind}, {bytes}"),
                    error => format!("{bytes}: {error}"),
                },
                |packet| packet.to_string(),
            );
            let way = if frame.received { Way::In } else { Way::Out };
            (way, format!("frame {}{}: {what}", frame.number, label(frame.label)))
        }
        Entry::VerbsAsked(asked) => {
            let (to, what) = (side(asked.side), command_words(&asked.command));
            (Way::Here, format!("command to {to}{}: {what}", label(asked.label)))
        }
        Entry::VerbsAnswered(answered) => (Way::Here, format!("answered: {}", reply_words(&answered.reply))),
        Entry::VerbsTold(told) => (Way::Here, format!("{}: {}", side(told.side), event_words(&told.event))),
        Entry::Note(note) => (Way::Here, note.text.clone()),
        Entry::Journal { area, change } => (Way::Here, format!("restore journal, {area}: {change}")),
        Entry::Stopped(stopped) => (Way::Here, format!("stopped: {}", stopped.text)),
        Entry::Waited(waited) => (
            Way::Here,
            format!(
                "waited{} for {}",
                label(waited.label),
                duration_words(waited.until.since(waited.since))
            ),
        ),
        Entry::KernelReport(report) => (
            Way::Here,
            format!("kernel of {}: {}", side(report.side), kernel_report_name(&report.text)),
        ),
        Entry::Reset(reset) => {
            let why = match reset.silent.as_str() {
                "" => "between two tests",
                _ => "the device did not answer",
            };
            let back = if reset.after.is_empty() {
                "answers"
            } else {
                "does not answer"
            };
            let (command, took) = (reset.command.join(" "), duration_words(reset.took));
            let what = format!(
                "reset, {why}: {command} ({}, after {took}); then the device {back}",
                reset.ended
            );
            (Way::Here, what)
        }
        Entry::RoundTrips(_) | Entry::Begin(_) | Entry::Label { .. } | Entry::Restored(_) | Entry::End { .. } => {
            return None;
        }
    })
}
