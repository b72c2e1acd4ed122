//! Turns an entry of a record into a packet of the capture: its bytes, its title, and the checks that cite the entry.

use std::borrow::Cow;
use std::collections::BTreeMap;

use verbatim_record::{Entry, Match, Side, Span, Verdict};
use verbatim_wire::{Lid, Mad, MadHeaders, mad_packet};

use crate::host_lines::{self, Line, Open};
use crate::pcapng::Direction;

/// Made-up LIDs of the tester and the device, because a record need not hold the real LIDs. With these LIDs,
/// Wireshark's packet list shows the sender of each packet.
const TESTER: Lid = Lid(1);
const DEVICE: Lid = Lid(2);

/// The interface of the capture for an entry. Each port has one, and so does each host of a device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum On {
    Mads,
    Frames(u32),
    Natives(u32),
    Verbs(Side),
}

pub(crate) struct Shown<'e> {
    pub(crate) on: On,
    pub(crate) span: Span,
    pub(crate) direction: Direction,
    pub(crate) bytes: Cow<'e, [u8]>,
    pub(crate) title: String,
    /// The text of each check that cites this packet as evidence.
    pub(crate) judged: Vec<String>,
}

/// Converts a record entry by entry. The state holds the labels, requests and commands of earlier entries.
pub(crate) struct Walk<'e> {
    judged: Judged,
    test: &'e str,
    labels: Vec<&'e str>,
    exchanges: Vec<Asked>,
    open: Open,
}

/// A request MAD.
struct Asked {
    label: u32,
    attempt: u32,
    /// The LID of the device that responds.
    device: Lid,
}

impl<'e> Walk<'e> {
    pub(crate) fn new(verdict: Option<&Verdict>) -> Self {
        Self {
            judged: Judged::of(verdict),
            test: "",
            labels: Vec::new(),
            exchanges: Vec::new(),
            open: Open::default(),
        }
    }

    /// Converts the next entry of the record, or returns `None` if the capture does not show this kind of entry.
    pub(crate) fn next(&mut self, place: usize, entry: &'e Entry) -> Option<Shown<'e>> {
        match entry {
            Entry::Begin(begin) => {
                self.test = &begin.test;
                None
            }
            Entry::Label { name, .. } => {
                self.labels.push(name);
                None
            }
            Entry::Sent(sent) => {
                let device = sent.dlid.unwrap_or(DEVICE);
                self.exchanges.push(Asked {
                    label: sent.label,
                    attempt: sent.attempt,
                    device,
                });
                Some(Shown {
                    on: On::Mads,
                    span: sent.at,
                    direction: Direction::Out,
                    bytes: packet(&sent.mad, (TESTER, device)).into(),
                    title: self.title(sent.exchange, ""),
                    judged: self.judged.on_exchange(sent.exchange),
                })
            }
            Entry::Arrived(arrived) => {
                let note = match arrived.how {
                    Match::Answer => String::new(),
                    other => format!(" [{other:?}]"),
                };
                let device = self.asked(arrived.exchange).map_or(DEVICE, |asked| asked.device);
                Some(Shown {
                    on: On::Mads,
                    span: arrived.at,
                    direction: Direction::In,
                    bytes: packet(&arrived.mad, (device, TESTER)).into(),
                    title: self.title(arrived.exchange, &note),
                    judged: self.judged.on_exchange(arrived.exchange),
                })
            }
            Entry::Frame(frame) => {
                let label = self.label(frame.label);
                let label = label.map_or_else(String::new, |label| format!(" \"{label}\""));
                let (test, number) = (self.test, frame.number);
                let (on, title) = match frame.delimiter {
                    None => (On::Frames(frame.port), format!("{test} frame {number}{label}")),
                    Some(end) => (
                        On::Natives(frame.port),
                        format!("{test} packet {number}{label}, ended by {end}"),
                    ),
                };
                Some(Shown {
                    on,
                    span: frame.at,
                    direction: if frame.received { Direction::In } else { Direction::Out },
                    bytes: (&frame.bytes[..]).into(),
                    title,
                    judged: self.judged.on_frame(number),
                })
            }
            Entry::VerbsAsked(asked) => {
                let label = self.label(asked.label).unwrap_or_default();
                let line = self.open.asked(asked, label, place);
                Some(self.line(Direction::Out, &line))
            }
            Entry::VerbsAnswered(answered) => {
                let line = self.open.answered(answered, place)?;
                Some(self.line(Direction::In, &line))
            }
            Entry::VerbsTold(event) => Some(self.line(Direction::In, &host_lines::event(event, place))),
            _ => None,
        }
    }

    fn line(&self, direction: Direction, line: &Line) -> Shown<'e> {
        Shown {
            on: On::Verbs(line.side),
            span: line.at,
            direction,
            bytes: host_lines::exported(&line.text).into(),
            title: format!("{} {}: {}", self.test, line.side, line.text),
            judged: self.judged.on_evidence(&line.evidence),
        }
    }

    /// Returns the label with this number. Numbers begin at 1.
    fn label(&self, number: u32) -> Option<&'e str> {
        self.labels.get((number as usize).checked_sub(1)?).copied()
    }

    fn asked(&self, exchange: u32) -> Option<&Asked> {
        self.exchanges.get((exchange as usize).checked_sub(1)?)
    }

    /// Returns a MAD's title: the test, the exchange, its label and attempt.
    fn title(&self, exchange: u32, note: &str) -> String {
        let test = self.test;
        let asked = self.asked(exchange);
        match asked.and_then(|asked| Some((self.label(asked.label)?, asked.attempt + 1))) {
            Some((label, attempt)) => format!("{test} exchange #{exchange} \"{label}\" try {attempt}{note}"),
            None => format!("{test} unasked{note}"),
        }
    }
}

/// The texts of the verdict's checks, keyed by the exchange, frame or evidence text that the checks cite.
#[derive(Default)]
struct Judged {
    exchanges: BTreeMap<u32, Vec<String>>,
    frames: BTreeMap<u32, Vec<String>>,
    /// The key is the evidence's text, because checks refer to a verbs event by its text alone.
    evidence: BTreeMap<String, Vec<String>>,
}

impl Judged {
    fn of(verdict: Option<&Verdict>) -> Self {
        let mut judged = Self::default();
        let checks = verdict
            .iter()
            .flat_map(|verdict| verdict.findings.iter().chain(&verdict.passed));
        for check in checks {
            let words = || format!("{:?}: {check}", check.result());
            for exchange in &check.exchanges {
                judged.exchanges.entry(*exchange).or_default().push(words());
            }
            for frame in &check.frames {
                judged.frames.entry(*frame).or_default().push(words());
            }
            for evidence in &check.evidence {
                judged.evidence.entry(evidence.clone()).or_default().push(words());
            }
        }
        judged
    }

    fn on_exchange(&self, number: u32) -> Vec<String> {
        self.exchanges.get(&number).cloned().unwrap_or_default()
    }

    fn on_frame(&self, number: u32) -> Vec<String> {
        self.frames.get(&number).cloned().unwrap_or_default()
    }

    fn on_evidence(&self, words: &str) -> Vec<String> {
        self.evidence.get(words).cloned().unwrap_or_default()
    }
}

/// Builds the packet of a MAD between two LIDs. A directed-route MAD has permissive LIDs.
fn packet(mad: &Mad, (slid, dlid): (Lid, Lid)) -> Vec<u8> {
    let headers = if mad.is_directed() {
        MadHeaders::subnet_management(Lid::PERMISSIVE, Lid::PERMISSIVE)
    } else if mad.is_smp() {
        MadHeaders::subnet_management(slid, dlid)
    } else {
        MadHeaders::general(slid, dlid)
    };
    mad_packet(&headers, mad)
}
