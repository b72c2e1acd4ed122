//! The capture of a run: every frame as it passed, every MAD as an InfiniBand packet whose other headers are marked
//! "reconstructed".
//!
//! A MAD interface shows MADs alone. LRH, BTH and DETH of these packets, and their CRCs, are what such a packet
//! carries by the architecture; each packet says so in a comment, with the exchange it belongs to and the statements
//! judged on it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::RECONSTRUCTED;
use verbatim_wire::{Lid, Mad, MadHeaders, mad_packet};

use crate::pcapng::{Direction, InterfaceId, LinkType, Packet, Section, Writer};
use verbatim_record::{Entry, Match, Span, Time, Verdict};

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
    let has = |is: fn(&Entry) -> bool| records.iter().any(|record| record.entries.iter().any(is));
    let mads = has(|entry| matches!(entry, Entry::Sent(_) | Entry::Arrived(_)));
    let frames = has(|entry| matches!(entry, Entry::Frame(frame) if frame.delimiter.is_none()));
    let natives = has(|entry| matches!(entry, Entry::Frame(frame) if frame.delimiter.is_some()));
    let mut comments = Vec::new();
    let mads = mads || !(frames || natives);
    if mads {
        comments.push(
            "Verbatim: the MADs are as sent and received; LRH, BTH, DETH and CRCs are reconstructed.".to_string(),
        );
    }
    if frames {
        comments.push("Verbatim: the Ethernet frames are as sent and received, without their FCS.".to_string());
    }
    if natives {
        comments.push("Verbatim: the native packets are as sent and received, VCRC included.".to_string());
    }
    let section = Section {
        application,
        comments: &comments,
        ..Section::default()
    };
    let mut writer = Writer::new(out, &section)?;
    let mut interfaces = Interfaces::default();
    if mads {
        interfaces.of_mads(&mut writer)?;
    }
    let mut clock = Clock {
        offset: epoch_ns,
        last: 0,
    };
    for record in records {
        one(&mut writer, &mut interfaces, &mut clock, record)?;
    }
    writer.flush()?;
    Ok(writer.into_inner())
}

/// The interfaces, declared when they are first needed.
#[derive(Default)]
struct Interfaces {
    mads: Option<InterfaceId>,
    frames: BTreeMap<u32, InterfaceId>,
    natives: BTreeMap<u32, InterfaceId>,
}

impl Interfaces {
    fn of_mads<W: Write>(&mut self, writer: &mut Writer<W>) -> io::Result<InterfaceId> {
        if let Some(known) = self.mads {
            return Ok(known);
        }
        let made = writer.interface(LinkType::InfiniBand, "port0", RECONSTRUCTED)?;
        self.mads = Some(made);
        Ok(made)
    }

    fn of_frames<W: Write>(&mut self, writer: &mut Writer<W>, port: u32) -> io::Result<InterfaceId> {
        if let Some(known) = self.frames.get(&port) {
            return Ok(*known);
        }
        let about = "frames of the tester's Ethernet port";
        let made = writer.interface(LinkType::Ethernet, &format!("ether{port}"), about)?;
        self.frames.insert(port, made);
        Ok(made)
    }

    fn of_natives<W: Write>(&mut self, writer: &mut Writer<W>, port: u32) -> io::Result<InterfaceId> {
        if let Some(known) = self.natives.get(&port) {
            return Ok(*known);
        }
        let about = "native packets of the tester's port";
        let made = writer.interface(LinkType::InfiniBand, &format!("native{port}"), about)?;
        self.natives.insert(port, made);
        Ok(made)
    }
}

/// The time of the capture: records whose clocks each begin at 0 are put behind one another.
struct Clock {
    offset: u64,
    last: u64,
}

/// What one packet of a record is, for its comments.
struct Shown<'e> {
    span: Span,
    direction: Direction,
    bytes: Cow<'e, [u8]>,
    interface: InterfaceId,
    title: String,
    reconstructed: bool,
    judged: &'e [String],
}

fn one<W: Write>(
    writer: &mut Writer<W>,
    interfaces: &mut Interfaces,
    clock: &mut Clock,
    record: &Recorded<'_>,
) -> io::Result<()> {
    let judged = judged(record.verdict);
    let on = |known: &BTreeMap<u32, Vec<String>>, number: u32| known.get(&number).cloned().unwrap_or_default();
    let mut begun = false;
    let mut test = String::new();
    let mut labels: Vec<&str> = Vec::new();
    let mut exchanges: Vec<(u32, u32)> = Vec::new();
    for (place, entry) in record.entries.iter().enumerate() {
        let comments;
        let shown = match entry {
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
                comments = on(&judged.0, sent.exchange);
                Shown {
                    span: sent.at,
                    direction: Direction::Out,
                    bytes: packet(&sent.mad, Direction::Out).into(),
                    interface: interfaces.of_mads(writer)?,
                    title: title(&test, &labels, &exchanges, sent.exchange, ""),
                    reconstructed: true,
                    judged: &comments,
                }
            }
            Entry::Arrived(arrived) => {
                let note = if arrived.how == Match::Answer {
                    String::new()
                } else {
                    format!(" [{:?}]", arrived.how)
                };
                comments = on(&judged.0, arrived.exchange);
                Shown {
                    span: arrived.at,
                    direction: Direction::In,
                    bytes: packet(&arrived.mad, Direction::In).into(),
                    interface: interfaces.of_mads(writer)?,
                    title: title(&test, &labels, &exchanges, arrived.exchange, &note),
                    reconstructed: true,
                    judged: &comments,
                }
            }
            Entry::Frame(frame) => {
                let label = (frame.label as usize).checked_sub(1).and_then(|at| labels.get(at));
                let label = label.map_or_else(String::new, |label| format!(" \"{label}\""));
                comments = on(&judged.1, frame.number);
                Shown {
                    span: frame.at,
                    direction: if frame.received { Direction::In } else { Direction::Out },
                    bytes: (&frame.bytes[..]).into(),
                    interface: match frame.delimiter {
                        None => interfaces.of_frames(writer, frame.port)?,
                        Some(_) => interfaces.of_natives(writer, frame.port)?,
                    },
                    title: match frame.delimiter {
                        None => format!("{test} frame {}{label}", frame.number),
                        Some(end) => format!("{test} packet {}{label}, ended by {end}", frame.number),
                    },
                    reconstructed: false,
                    judged: &comments,
                }
            }
            _ => continue,
        };
        if !begun {
            begun = true;
            if shown.span.earliest.0 + clock.offset < clock.last {
                clock.offset = clock.last;
            }
        }
        clock.last = shown.span.latest.0 + clock.offset;
        let reconstructed = if shown.reconstructed {
            "headers reconstructed; "
        } else {
            ""
        };
        let mut comments = vec![
            shown.title,
            format!("{reconstructed}entry {place} of the record; {}", when(shown.span)),
        ];
        comments.extend(shown.judged.iter().cloned());
        writer.packet(&Packet {
            interface: shown.interface,
            nanoseconds: clock.last,
            direction: Some(shown.direction),
            bytes: &shown.bytes,
            original_length: shown.bytes.len(),
            comments: &comments,
        })?;
    }
    Ok(())
}

/// What a MAD belongs to.
fn title(test: &str, labels: &[&str], exchanges: &[(u32, u32)], exchange: u32, note: &str) -> String {
    let label = (exchange as usize)
        .checked_sub(1)
        .and_then(|at| exchanges.get(at))
        .and_then(|(label, attempt)| Some((labels.get((*label as usize).checked_sub(1)?)?, attempt)));
    match label {
        Some((label, attempt)) => format!("{test} exchange #{exchange} \"{label}\" try {}{note}", attempt + 1),
        None => format!("{test} unasked{note}"),
    }
}

fn when(span: Span) -> String {
    let Span {
        earliest: Time(earliest),
        latest: Time(latest),
        ..
    } = span;
    let source = span.source_words();
    if earliest == latest {
        format!("at {earliest} ns{source}")
    } else {
        format!("between {earliest} and {latest} ns{source}")
    }
}

/// The statements judged on each exchange, and on each frame, in words.
fn judged(verdict: Option<&Verdict>) -> (BTreeMap<u32, Vec<String>>, BTreeMap<u32, Vec<String>>) {
    let mut judged: (BTreeMap<u32, Vec<String>>, BTreeMap<u32, Vec<String>>) = Default::default();
    for check in verdict
        .iter()
        .flat_map(|verdict| verdict.findings.iter().chain(&verdict.passed))
    {
        let words = || format!("{:?}: {check}", check.result());
        for exchange in &check.exchanges {
            judged.0.entry(*exchange).or_default().push(words());
        }
        for frame in &check.frames {
            judged.1.entry(*frame).or_default().push(words());
        }
    }
    judged
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
