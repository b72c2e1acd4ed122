//! The parts of a record that a report shows. A record may have a million packets, too many for a page.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use verbatim_record::verbs::{Command, Reply, command_words};
use verbatim_record::{Begin, Entry, Role, Side, Verdict};
use verbatim_wire::packet::Packet;

use crate::counted::counted;
use crate::fields::medium;
use crate::input::at;
use crate::ladder::{Shown, ladder};

/// The report's extract of one record: parameters, duration, shown events and the evidence of findings.
#[derive(Clone, Debug)]
pub struct Digest {
    pub(crate) begin: Option<Begin>,
    pub(crate) took: Option<Duration>,
    pub(crate) reached: Reached,
    pub(crate) ladder: Vec<Shown>,
    /// The labels, and the entries that findings name as evidence.
    pub(crate) evidence: Vec<Entry>,
    /// The last send requests that a host posted on the queue pair of a frame before that frame, by the number of each
    /// frame that is evidence.
    pub(crate) posted: BTreeMap<u32, Vec<String>>,
}

impl Digest {
    /// Extracts the digest of a record and its verdict.
    #[must_use]
    pub fn of(record: &[Entry], verdict: &Verdict) -> Self {
        let mut times = record.iter().filter_map(at);
        let first = times.next();
        let last = times.last().or(first);
        Self {
            begin: match record.first() {
                Some(Entry::Begin(begin)) => Some(Begin::clone(begin)),
                _ => None,
            },
            reached: Reached::of(record),
            took: first.zip(last).map(|(first, last)| last.latest.since(first.earliest)),
            ladder: ladder(record, verdict),
            evidence: kept(record, verdict),
            posted: posted(record, verdict),
        }
    }
}

/// The progress of a procedure.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Reached {
    /// How many MADs, packets and commands to hosts the procedure sent.
    pub(crate) did: [usize; 3],
    /// The label of the last MAD, packet or command, or `None` if the procedure sent nothing.
    pub(crate) last: Option<String>,
    /// The reason of an early end.
    pub(crate) stopped: Option<String>,
}

impl Reached {
    fn of(record: &[Entry]) -> Self {
        let mut reached = Self::default();
        let mut labels = BTreeMap::new();
        let mut last = None;
        for entry in record {
            let (kind, label) = match entry {
                Entry::Label { number, name, role } => {
                    // Labels of the runner belong to preparation and restore, not to the procedure.
                    if *role == Role::Test {
                        labels.insert(*number, name.as_str());
                    }
                    continue;
                }
                Entry::Stopped(stopped) => {
                    reached.stopped = Some(stopped.text.clone());
                    continue;
                }
                Entry::Sent(sent) => (0, sent.label),
                Entry::Frame(frame) => (1, frame.label),
                Entry::VerbsAsked(asked) => (2, asked.label),
                _ => continue,
            };
            reached.did[kind] += 1;
            last = labels.get(&label).copied().or(last);
        }
        reached.last = last.map(String::from);
        reached
    }

    pub(crate) fn in_words(&self) -> String {
        let kinds = [("MAD", "MADs"), ("packet", "packets"), ("command", "commands")];
        let did: Vec<String> = (self.did.iter().zip(kinds))
            .filter(|(count, _)| **count > 0)
            .map(|(count, (one, more))| counted(*count as u64, one, more))
            .collect();
        let last = self
            .last
            .as_ref()
            .map_or_else(String::new, |last| format!(", the last for \"{last}\""));
        match (&self.stopped, did.is_empty()) {
            (None, true) => "its end, without a request to the device".into(),
            (None, false) => format!("its end: {}{last}", did.join(", ")),
            (Some(_), true) => "it ended before its first request to the device".into(),
            (Some(why), false) => format!("it ended after {}{last}: {why}", did.join(", ")),
        }
    }
}

fn kept(record: &[Entry], verdict: &Verdict) -> Vec<Entry> {
    let evidence = Evidence::of(verdict);
    let is_kept = |entry: &&Entry| matches!(entry, Entry::Label { .. }) || evidence.has(entry);
    record.iter().filter(is_kept).cloned().collect()
}

/// The most posted requests shown for a frame.
const POSTED: usize = 3;

fn posted(record: &[Entry], verdict: &Verdict) -> BTreeMap<u32, Vec<String>> {
    let evidence = Evidence::of(verdict);
    // The queue pairs of the DUT by their own number, and by the number of the queue pair that they are connected to.
    let (mut own, mut connected) = (BTreeMap::new(), BTreeMap::new());
    let mut posts: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    let mut of_frames = BTreeMap::new();
    for entry in record {
        match entry {
            Entry::VerbsAnswered(answered) => {
                if let Reply::Qp(made) = &answered.reply {
                    own.insert(made.qpn, made.qp);
                }
            }
            Entry::VerbsAsked(asked) if asked.side == Side::Dut => match &asked.command {
                Command::ModifyQp(modify) => {
                    let other = modify.attributes.as_ref().and_then(|named| named.dest_qpn);
                    connected.extend(other.map(|other| (other, modify.qp)));
                }
                Command::PostSend(post) => {
                    let of_qp = posts.entry(post.qp).or_default();
                    if of_qp.len() == POSTED {
                        of_qp.remove(0);
                    }
                    of_qp.push(format!("{} {}", asked.at.latest, command_words(&asked.command)));
                }
                _ => {}
            },
            Entry::Frame(frame) if evidence.has(entry) => {
                let Ok(packet) = Packet::parse(medium(frame), &frame.bytes) else {
                    continue;
                };
                let qps = if frame.received { &connected } else { &own };
                let of_qp = qps.get(&packet.bth().dest_qp().0).and_then(|qp| posts.get(qp));
                of_frames.extend(of_qp.map(|of_qp| (frame.number, of_qp.clone())));
            }
            _ => {}
        }
    }
    of_frames
}

/// The numbers of the exchanges and frames that findings name as evidence.
pub(crate) struct Evidence {
    exchanges: BTreeSet<u32>,
    frames: BTreeSet<u32>,
    /// The exchanges that show the premises of findings.
    premises: BTreeSet<u32>,
}

impl Evidence {
    /// Collects the evidence of all findings of a verdict.
    pub(crate) fn of(verdict: &Verdict) -> Self {
        let findings = || verdict.findings.iter();
        Self {
            exchanges: findings().flat_map(|check| &check.exchanges).copied().collect(),
            frames: findings().flat_map(|check| &check.frames).copied().collect(),
            premises: findings()
                .flat_map(|check| &check.given)
                .filter_map(|given| given.rsplit_once("shown by #")?.1.parse().ok())
                .collect(),
        }
    }

    /// Makes the evidence of one finding from the numbers of its exchanges and frames.
    pub(crate) fn these(exchanges: &[u32], frames: &[u32]) -> Self {
        Self {
            exchanges: exchanges.iter().copied().collect(),
            frames: frames.iter().copied().collect(),
            premises: BTreeSet::new(),
        }
    }

    /// Returns whether an entry belongs to an exchange that shows a premise.
    pub(crate) fn is_premise(&self, entry: &Entry) -> bool {
        match entry {
            Entry::Sent(sent) => self.premises.contains(&sent.exchange),
            Entry::Arrived(arrived) => self.premises.contains(&arrived.exchange),
            _ => false,
        }
    }

    pub(crate) fn has(&self, entry: &Entry) -> bool {
        match entry {
            Entry::Sent(sent) => self.exchanges.contains(&sent.exchange),
            Entry::Arrived(arrived) => self.exchanges.contains(&arrived.exchange),
            Entry::Silence { exchange, .. } | Entry::Returned { exchange, .. } => self.exchanges.contains(exchange),
            Entry::Frame(frame) => self.frames.contains(&frame.number),
            _ => false,
        }
    }
}
