//! What a report needs of a record: a record may have a million packets, and a page that tells them all is read by nobody.

use core::time::Duration;
use std::collections::BTreeSet;

use verbatim_record::{Begin, Entry, Verdict};

use crate::ladder::{Shown, ladder};
use crate::told::at;

/// Of one record: what was asked for, how long it took, what is shown of it, and what its findings rest on.
#[derive(Clone, Debug)]
pub struct Digest {
    pub(crate) begin: Option<Begin>,
    pub(crate) took: Option<Duration>,
    pub(crate) ladder: Vec<Shown>,
    /// The labels, and what the findings name.
    pub(crate) evidence: Vec<Entry>,
}

impl Digest {
    /// Of a record and its verdict.
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
            took: first.zip(last).map(|(first, last)| last.latest.since(first.earliest)),
            ladder: ladder(record, verdict),
            evidence: kept(record, verdict),
        }
    }
}

fn kept(record: &[Entry], verdict: &Verdict) -> Vec<Entry> {
    let evidence = Evidence::of(verdict);
    let is_kept = |entry: &&Entry| matches!(entry, Entry::Label { .. }) || evidence.has(entry);
    record.iter().filter(is_kept).cloned().collect()
}

/// The numbers of what findings rest on.
pub(crate) struct Evidence {
    exchanges: BTreeSet<u32>,
    frames: BTreeSet<u32>,
}

impl Evidence {
    /// Of all findings of a verdict.
    pub(crate) fn of(verdict: &Verdict) -> Self {
        let findings = || verdict.findings.iter();
        Self {
            exchanges: findings().flat_map(|check| &check.exchanges).copied().collect(),
            frames: findings().flat_map(|check| &check.frames).copied().collect(),
        }
    }

    /// Of one finding.
    pub(crate) fn these(exchanges: &[u32], frames: &[u32]) -> Self {
        Self {
            exchanges: exchanges.iter().copied().collect(),
            frames: frames.iter().copied().collect(),
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
