//! The capture of a run: every MAD as an InfiniBand packet whose other headers are marked "reconstructed".
//!
//! A MAD interface shows MADs alone. LRH, BTH and DETH of these packets, and their CRCs, are what such a packet
//! carries by the architecture; each packet says so in a comment, with the exchange it belongs to and the statements
//! judged on it.

use std::collections::BTreeMap;
use std::io::{self, Write};

use verbatim_wire::{Lid, Mad, MadHeaders, mad_packet};

use crate::entry::{Entry, Match};
use crate::pcapng::{Direction, LinkType, Packet, Section, Writer};
use crate::time::{Span, Time};
use crate::verdict::Verdict;

/// A record and what was judged from it.
#[derive(Debug)]
pub struct Recorded<'a> {
    /// The record.
    pub entries: &'a [Entry],
    /// Its verdict, if it was judged.
    pub verdict: Option<&'a Verdict>,
}

/// Writes the capture of a run: all its records, one after the other.
///
/// `epoch_ns` is what the first record's time 0 stands for: nanoseconds since 1970, or 0. Records whose clocks each
/// begin at 0 are put behind one another.
///
/// # Errors
/// When `out` cannot be written.
pub fn write<W: Write>(out: W, records: &[Recorded<'_>], (application, epoch_ns): (&str, u64)) -> io::Result<W> {
    let comments =
        ["Verbatim: the MADs are as sent and received; LRH, BTH, DETH and CRCs are reconstructed.".to_string()];
    let section = Section {
        application,
        comments: &comments,
        ..Section::default()
    };
    let mut writer = Writer::new(out, &section)?;
    let interface = writer.interface(
        LinkType::InfiniBand,
        "port0",
        "MADs of the tester's port, headers reconstructed",
    )?;
    let (mut offset, mut last) = (epoch_ns, 0);
    for record in records {
        let judged = judged(record.verdict);
        let mut begun = false;
        let mut test = String::new();
        let mut labels: Vec<&str> = Vec::new();
        let mut exchanges: Vec<(u32, u32)> = Vec::new();
        for (place, entry) in record.entries.iter().enumerate() {
            let (span, mad, direction, exchange, note) = match entry {
                Entry::Begin(begin) => {
                    test.clone_from(&begin.test);
                    continue;
                }
                Entry::Label { name, .. } => {
                    labels.push(name);
                    continue;
                }
                Entry::Sent(sent) => {
                    exchanges.push((sent.label, sent.attempt));
                    (sent.at, &sent.mad, Direction::Out, sent.exchange, String::new())
                }
                Entry::Arrived(arrived) => {
                    let note = if arrived.how == Match::Answer {
                        String::new()
                    } else {
                        format!(" [{:?}]", arrived.how)
                    };
                    (arrived.at, &arrived.mad, Direction::In, arrived.exchange, note)
                }
                _ => continue,
            };
            if !begun {
                begun = true;
                if span.earliest.0 + offset < last {
                    offset = last;
                }
            }
            let label = (exchange as usize)
                .checked_sub(1)
                .and_then(|at| exchanges.get(at))
                .and_then(|(label, attempt)| Some((labels.get((*label as usize).checked_sub(1)?)?, attempt)));
            let mut comments = vec![match label {
                Some((label, attempt)) => format!("{test} exchange #{exchange} \"{label}\" try {}{note}", attempt + 1),
                None => format!("{test} unasked{note}"),
            }];
            comments.push(format!(
                "headers reconstructed; entry {place} of the record; {}",
                when(span)
            ));
            comments.extend(judged.get(&exchange).into_iter().flatten().cloned());
            let bytes = packet(mad, direction);
            last = span.latest.0 + offset;
            writer.packet(&Packet {
                interface,
                nanoseconds: last,
                direction: Some(direction),
                bytes: &bytes,
                original_length: bytes.len(),
                comments: &comments,
            })?;
        }
    }
    writer.flush()?;
    Ok(writer.into_inner())
}

fn when(span: Span) -> String {
    let Span {
        earliest: Time(earliest),
        latest: Time(latest),
    } = span;
    if earliest == latest {
        format!("at {earliest} ns")
    } else {
        format!("between {earliest} and {latest} ns")
    }
}

/// The statements judged on each exchange, in words.
fn judged(verdict: Option<&Verdict>) -> BTreeMap<u32, Vec<String>> {
    let mut by_exchange: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for check in verdict
        .iter()
        .flat_map(|verdict| verdict.findings.iter().chain(&verdict.passed))
    {
        for exchange in &check.exchanges {
            by_exchange
                .entry(*exchange)
                .or_default()
                .push(format!("{:?}: {check}", check.result));
        }
    }
    by_exchange
}

fn packet(mad: &Mad, direction: Direction) -> Vec<u8> {
    let lids = if mad.is_directed() {
        (Lid::PERMISSIVE, Lid::PERMISSIVE)
    } else {
        (Lid(0), Lid(0))
    };
    let (slid, dlid) = if direction == Direction::Out {
        lids
    } else {
        (lids.1, lids.0)
    };
    let headers = if mad.is_smp() {
        MadHeaders::subnet_management(slid, dlid)
    } else {
        MadHeaders::general(slid, dlid)
    };
    mad_packet(&headers, mad)
}
