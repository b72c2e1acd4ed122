//! The exchange of a test as rungs between tester and device, in the order of the record.

use std::collections::BTreeSet;

use verbatim_record::verbs::{command_words, event_words, reply_words};
use verbatim_record::{Entry, Match, Side, Verdict, duration_words};
use verbatim_wire::packet::Packet;

use crate::fields::{detail, medium};
use crate::told::at;

/// Rungs shown around each that is evidence.
const AROUND: usize = 4;
/// A test with so few is shown whole.
const WHOLE: usize = 120;
/// Rungs that are evidence and are shown: a walk may have a thousand.
const MOST: usize = 60;

/// Which way something went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// From the tester to the device.
    Out,
    /// From the device to the tester.
    In,
    /// Neither: a silence, a wait, a note.
    Here,
}

impl Way {
    /// As the page's style sheet and its readers have it.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Out => "out",
            Self::In => "in",
            Self::Here => "here",
        }
    }
}

/// One rung.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rung {
    /// When, on the rig's clock; empty for what has no time.
    pub(crate) at: String,
    pub(crate) way: Way,
    /// One line.
    pub(crate) what: String,
    /// Fields and bytes; empty where there are none.
    pub(crate) detail: String,
    /// Whether a finding rests on it.
    pub(crate) is_evidence: bool,
}

/// What of the ladder is shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Shown {
    /// A rung.
    Rung(Rung),
    /// So many rungs are left out.
    LeftOut(usize),
}

/// The rungs of a test; of a long one those around the evidence, and its end.
pub(crate) fn ladder(record: &[Entry], verdict: &Verdict) -> Vec<Shown> {
    let rungs = all(record, &Evidence::of(verdict));
    let judged = rungs
        .iter()
        .enumerate()
        .filter(|(_, (_, _, is))| *is)
        .map(|(place, _)| place);
    let shown: BTreeSet<usize> = if rungs.len() <= WHOLE {
        (0..rungs.len()).collect()
    } else {
        let ends = [0, rungs.len() - 1];
        let places = judged.take(MOST).chain(ends);
        places
            .flat_map(|place| place.saturating_sub(AROUND)..=(place + AROUND).min(rungs.len() - 1))
            .collect()
    };
    let mut out = Vec::new();
    let mut next = 0;
    for place in shown.iter().copied().chain([rungs.len()]) {
        if place > next {
            out.push(Shown::LeftOut(place - next));
        }
        next = place + 1;
        if let Some((entry, (way, what), is_evidence)) = rungs.get(place) {
            out.push(Shown::Rung(Rung {
                at: at(entry).map_or_else(String::new, |span| span.latest.to_string()),
                way: *way,
                what: what.clone(),
                detail: detail(entry),
                is_evidence: *is_evidence,
            }));
        }
    }
    out
}

/// Everything that is a rung: which way and what, and whether it is evidence.
fn all<'r>(record: &'r [Entry], evidence: &Evidence) -> Vec<(&'r Entry, (Way, String), bool)> {
    let mut labels = vec![String::new()];
    let mut rungs = Vec::new();
    for entry in record {
        if let Entry::Label { name, .. } = entry {
            labels.push(name.clone());
        }
        if let Some(bare) = bare(entry, &labels) {
            rungs.push((entry, bare, evidence.has(entry)));
        }
    }
    rungs
}

/// The rungs of these exchanges and frames, without their detail.
pub(crate) fn of<'r>(record: &'r [Entry], exchanges: &[u32], frames: &[u32]) -> Vec<(&'r Entry, Rung)> {
    let evidence = Evidence {
        exchanges: exchanges.iter().copied().collect(),
        frames: frames.iter().copied().collect(),
    };
    all(record, &evidence)
        .into_iter()
        .filter(|(_, _, is_evidence)| *is_evidence)
        .map(|(entry, (way, what), is_evidence)| {
            let at = at(entry).map_or_else(String::new, |span| span.latest.to_string());
            let detail = String::new();
            let rung = Rung {
                at,
                way,
                what,
                detail,
                is_evidence,
            };
            (entry, rung)
        })
        .collect()
}

/// The numbers of what the findings rest on.
struct Evidence {
    exchanges: BTreeSet<u32>,
    frames: BTreeSet<u32>,
}

impl Evidence {
    fn of(verdict: &Verdict) -> Self {
        let findings = || verdict.findings.iter();
        Self {
            exchanges: findings().flat_map(|check| &check.exchanges).copied().collect(),
            frames: findings().flat_map(|check| &check.frames).copied().collect(),
        }
    }

    fn has(&self, entry: &Entry) -> bool {
        match entry {
            Entry::Sent(sent) => self.exchanges.contains(&sent.exchange),
            Entry::Arrived(arrived) => self.exchanges.contains(&arrived.exchange),
            Entry::Silence { exchange, .. } | Entry::Returned { exchange, .. } => self.exchanges.contains(exchange),
            Entry::Frame(frame) => self.frames.contains(&frame.number),
            _ => false,
        }
    }
}

/// Which way, and in one line what; nothing for what is no event.
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
            (
                Way::Out,
                format!("#{}{}: {}{again}", sent.exchange, label(sent.label), sent.mad),
            )
        }
        Entry::Arrived(arrived) => {
            let how = match arrived.how {
                Match::Answer => String::new(),
                Match::Wrong => ", which is no answer to it".into(),
                Match::Again => ", a further answer".into(),
                Match::Late => ", after its deadline".into(),
                Match::Stray => ", to nothing that was asked".into(),
                Match::Trap => ", a trap".into(),
            };
            (Way::In, format!("#{}: {}{how}", arrived.exchange, arrived.mad))
        }
        Entry::Silence { exchange, .. } => (Way::Here, format!("#{exchange}: no answer until its deadline")),
        Entry::Returned { exchange, errno, .. } => {
            (Way::Here, format!("#{exchange}: given back by the host, error {errno}"))
        }
        Entry::Frame(frame) => {
            let what = Packet::parse(medium(frame), &frame.bytes).map_or_else(
                |error| format!("{} bytes: {error}", frame.bytes.len()),
                |packet| packet.to_string(),
            );
            let way = if frame.received { Way::In } else { Way::Out };
            (way, format!("frame {}{}: {what}", frame.number, label(frame.label)))
        }
        Entry::VerbsAsked(asked) => {
            let (to, what) = (side(asked.side), command_words(&asked.command));
            (Way::Here, format!("asked of {to}{}: {what}", label(asked.label)))
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
        Entry::RoundTrips(_) | Entry::Begin(_) | Entry::Label { .. } | Entry::Restored(_) | Entry::End { .. } => {
            return None;
        }
    })
}
