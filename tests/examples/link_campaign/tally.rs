//! Counts of a campaign, and each kind of disagreement.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use verbatim_device::link::LinkDefect;

use crate::case::Case;
use crate::compare::{Disagreement, May, Opinions, reasons};
use crate::shrink::shrink;

/// Largest number of kinds of disagreement that the campaign shows.
const SHOWN: usize = 20;

/// Counts of a campaign, or of one thread.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    packets: u64,
    not_judged: u64,
    /// Number of packets. The key is the set of outcomes that the judge allows.
    allowed: BTreeMap<May, u64>,
    /// Number of packets that fail exactly one check. The key is the name of the check.
    alone: BTreeMap<&'static str, u64>,
    several: u64,
    /// The number of packets of each kind of disagreement, and the number of the first packet.
    disagreements: BTreeMap<Disagreement, (u64, u64)>,
}

impl Tally {
    pub(crate) fn add(&mut self, number: u64, opinions: &Opinions) {
        self.packets += 1;
        if opinions.is_not_judged() {
            self.not_judged += 1;
        } else {
            *self.allowed.entry(opinions.judge).or_default() += 1;
        }
        let failed = &opinions.judgement.failed;
        match (failed.len(), failed.first()) {
            (1, Some(check)) => *self.alone.entry(check.name()).or_default() += 1,
            (0, _) => {}
            _ => self.several += 1,
        }
        if let Some(disagreement) = opinions.disagreement() {
            let (count, first) = self.disagreements.entry(disagreement).or_insert((0, number));
            *count += 1;
            *first = number.min(*first);
        }
    }

    pub(crate) fn join(&mut self, other: Self) {
        self.packets += other.packets;
        self.not_judged += other.not_judged;
        self.several += other.several;
        for (may, count) in other.allowed {
            *self.allowed.entry(may).or_default() += count;
        }
        for (check, count) in other.alone {
            *self.alone.entry(check).or_default() += count;
        }
        for (disagreement, (count, first)) in other.disagreements {
            let mine = self.disagreements.entry(disagreement).or_insert((0, first));
            mine.0 += count;
            mine.1 = mine.1.min(first);
        }
    }

    pub(crate) fn agrees(&self) -> bool {
        self.disagreements.is_empty()
    }

    pub(crate) fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns the number of the first packet on which judge and device disagree.
    pub(crate) fn first(&self) -> Option<u64> {
        self.disagreements.values().map(|&(_, first)| first).min()
    }

    pub(crate) fn print(&self, seed: u64, defects: &[LinkDefect]) {
        println!("what may become of them, as the judge says:");
        for (may, count) in &self.allowed {
            println!("  {count:>10}  {may}");
        }
        println!("  {:>10}  not judged", self.not_judged);
        println!("packets that fail one check alone:");
        for (check, count) in &self.alone {
            println!("  {count:>10}  {check}");
        }
        println!("  {:>10}  (several checks)", self.several);
        for (disagreement, &(count, first)) in self.disagreements.iter().take(SHOWN) {
            show(disagreement, count, first, seed, defects);
        }
        if let more @ 1.. = self.disagreements.len().saturating_sub(SHOWN) {
            println!("\n{more} more kinds of disagreement");
        }
        let disagreed: u64 = self.disagreements.values().map(|(count, _)| count).sum();
        println!("{} packets, seed {seed}: {disagreed} disagreements", self.packets);
    }
}

fn show(disagreement: &Disagreement, count: u64, first: u64, seed: u64, defects: &[LinkDefect]) {
    let opinions = |case: &Case| Opinions::of(case, &case.bytes(), defects);
    let simple = shrink(Case::draw(seed, first), |case| {
        opinions(case).disagreement().as_ref() == Some(disagreement)
    });
    println!("\n{count} x {disagreement}");
    println!("  first in packet --seed {seed} --only {first}; in its simplest form:");
    let (seen, bytes) = (opinions(&simple), simple.bytes());
    println!("  judge  fails {}: {}", seen.failed(), reasons(&simple, &bytes, &seen));
    println!("  port   {:?}", simple.port);
    println!("  packet {:?}", simple.packet);
    println!("  then   {:?}, ended by {:?}", simple.steps, simple.delimiter);
    println!("  bytes  {}", hex(&bytes));
}

/// Formats bytes in hexadecimal; of a long packet, only the first and last bytes.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const SHOWN: usize = 160;
    let mut text = format!("({}) ", bytes.len());
    let (head, tail) = if bytes.len() > SHOWN {
        (&bytes[..SHOWN - 32], &bytes[bytes.len() - 32..])
    } else {
        (bytes, &[][..])
    };
    for byte in head {
        let _ = write!(text, "{byte:02x}");
    }
    if !tail.is_empty() {
        text.push_str("...");
    }
    for byte in tail {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
