//! Writes the capture of a run: frames as they were on the wire, and each MAD as an InfiniBand packet with
//! reconstructed headers.
//!
//! The record of a MAD exchange holds MADs only. The writer therefore fills in LRH, BTH, DETH and the CRCs as the
//! architecture defines them for a MAD packet. A comment of the packet marks these headers as reconstructed. The
//! comment also names the exchange and the statements judged on it. Commands to a host and the host's responses and
//! events appear between the packets, as lines of text.

use std::collections::BTreeMap;
use std::io::{self, Write};

use verbatim_record::{Entry, Span, Time, Verdict};

use crate::RECONSTRUCTED;
use crate::pcapng::{InterfaceId, LinkType, Packet, Section, Writer};
use crate::shown::{On, Walk};

/// A record and its verdict.
#[derive(Debug)]
pub struct Recorded<'a> {
    /// The record.
    pub entries: &'a [Entry],
    /// The verdict, if the record was judged.
    pub verdict: Option<&'a Verdict>,
}

/// The kinds of entries that the records hold; the capture's opening comments name them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Holds {
    mads: bool,
    frames: bool,
    natives: bool,
    verbs: bool,
}

impl Holds {
    /// Adds the kinds of entries of another record.
    pub fn add(&mut self, entries: &[Entry]) {
        for entry in entries {
            match entry {
                Entry::Sent(_) | Entry::Arrived(_) => self.mads = true,
                Entry::Frame(frame) if frame.delimiter.is_some() => self.natives = true,
                Entry::Frame(_) => self.frames = true,
                Entry::VerbsAsked(_) | Entry::VerbsTold(_) => self.verbs = true,
                _ => {}
            }
        }
    }

    /// Returns whether the capture has an interface for MADs. A capture that would have no interface gets one for MADs.
    fn has_mads(self) -> bool {
        self.mads || !(self.frames || self.natives || self.verbs)
    }

    fn in_words(self) -> Vec<String> {
        let all = [
            (
                self.has_mads(),
                "Verbatim: the MADs are as sent and received; LRH, BTH, DETH and CRCs are reconstructed.",
            ),
            (
                self.frames,
                "Verbatim: the Ethernet frames are as sent and received, without their FCS.",
            ),
            (
                self.natives,
                "Verbatim: the native packets are as sent and received, VCRC included.",
            ),
            (
                self.verbs,
                "Verbatim: interfaces \"verbs\" hold no packets, but the commands to hosts and their answers and \
                 events.",
            ),
        ];
        all.iter()
            .filter(|(is, _)| *is)
            .map(|(_, words)| (*words).to_owned())
            .collect()
    }
}

/// The capture of a run, written one record at a time. Only the current record need be in memory.
#[derive(Debug)]
pub struct Capture<W: Write> {
    writer: Writer<W>,
    interfaces: Interfaces,
    clock: Clock,
}

impl<W: Write> Capture<W> {
    /// Begins the capture of records with these kinds of entries.
    ///
    /// `epoch_ns` is the first record's time 0, in nanoseconds since 1970, or 0. If a record would begin before the
    /// end of the previous record, its time 0 moves to that end.
    ///
    /// # Errors
    /// Returns an error of `out`.
    pub fn begin(out: W, holds: Holds, (application, epoch_ns): (&str, u64)) -> io::Result<Self> {
        let comments = holds.in_words();
        let section = Section {
            application,
            comments: &comments,
            ..Section::default()
        };
        let mut writer = Writer::new(out, &section)?;
        let mut interfaces = Interfaces::default();
        if holds.has_mads() {
            interfaces.of(&mut writer, On::Mads)?;
        }
        let clock = Clock {
            offset: epoch_ns,
            last: 0,
        };
        Ok(Self {
            writer,
            interfaces,
            clock,
        })
    }

    /// Writes the next record.
    ///
    /// # Errors
    /// Returns an error of `out`.
    pub fn record(&mut self, record: &Recorded<'_>) -> io::Result<()> {
        one(&mut self.writer, &mut self.interfaces, &mut self.clock, record)
    }

    /// Flushes the capture and returns the sink.
    ///
    /// # Errors
    /// Returns an error of `out`.
    pub fn end(mut self) -> io::Result<W> {
        self.writer.flush()?;
        Ok(self.writer.into_inner())
    }
}

/// The interfaces of the capture. Each is declared at its first use.
#[derive(Debug, Default)]
struct Interfaces(BTreeMap<On, InterfaceId>);

impl Interfaces {
    fn of<W: Write>(&mut self, writer: &mut Writer<W>, on: On) -> io::Result<InterfaceId> {
        if let Some(known) = self.0.get(&on) {
            return Ok(*known);
        }
        let made = match on {
            On::Mads => writer.interface(LinkType::InfiniBand, "port0", RECONSTRUCTED),
            On::Frames(port) => {
                let about = "frames of the tester's Ethernet port";
                writer.interface(LinkType::Ethernet, &format!("ether{port}"), about)
            }
            On::Natives(port) => {
                let about = "native packets of the tester's port";
                writer.interface(LinkType::InfiniBand, &format!("native{port}"), about)
            }
            On::Verbs(side) => {
                let about = format!(
                    "commands to the host of the {side}'s device, its answers, completions and events: no packets"
                );
                writer.interface(LinkType::Exported, &format!("verbs {side}"), &about)
            }
        }?;
        self.0.insert(on, made);
        Ok(made)
    }
}

/// The offset added to the record's times, and the last time written, both in nanoseconds.
#[derive(Debug)]
struct Clock {
    offset: u64,
    last: u64,
}

fn one<W: Write>(
    writer: &mut Writer<W>,
    interfaces: &mut Interfaces,
    clock: &mut Clock,
    record: &Recorded<'_>,
) -> io::Result<()> {
    let mut walk = Walk::new(record.verdict);
    let mut begun = false;
    for (place, entry) in record.entries.iter().enumerate() {
        let Some(shown) = walk.next(place, entry) else { continue };
        if !begun {
            begun = true;
            if shown.span.earliest.0 + clock.offset < clock.last {
                clock.offset = clock.last;
            }
        }
        clock.last = shown.span.latest.0 + clock.offset;
        let reconstructed = match shown.on {
            On::Mads => "headers reconstructed; ",
            _ => "",
        };
        let about = format!("{reconstructed}entry {place} of the record; {}", when(shown.span));
        let comments = [vec![shown.title, about], shown.judged].concat();
        let interface = interfaces.of(writer, shown.on)?;
        writer.packet(&Packet {
            interface,
            nanoseconds: clock.last,
            direction: Some(shown.direction),
            bytes: &shown.bytes,
            original_length: shown.bytes.len(),
            comments: &comments,
        })?;
    }
    Ok(())
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
