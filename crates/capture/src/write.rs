//! The capture of a run: every frame as it passed, every MAD as an InfiniBand packet whose other headers are marked
//! "reconstructed".
//!
//! A MAD interface shows MADs alone. LRH, BTH and DETH of these packets, and their CRCs, are what such a packet
//! carries by the architecture; each packet says so in a comment, with the exchange it belongs to and the statements
//! judged on it. What a host was told and what it said stands between the packets, as a line of text.

use std::collections::BTreeMap;
use std::io::{self, Write};

use verbatim_record::{Entry, Span, Time, Verdict};

use crate::RECONSTRUCTED;
use crate::pcapng::{InterfaceId, LinkType, Packet, Section, Writer};
use crate::shown::{On, Walk};

/// A record and what was judged from it.
#[derive(Debug)]
pub struct Recorded<'a> {
    /// The record.
    pub entries: &'a [Entry],
    /// Its verdict, if it was judged.
    pub verdict: Option<&'a Verdict>,
}

/// What records hold, as a capture says it at its beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Holds {
    mads: bool,
    frames: bool,
    natives: bool,
    verbs: bool,
}

impl Holds {
    /// A record is to be written too.
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

    /// Whether there is an interface for MADs: also where there is nothing else.
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
                "Verbatim: interfaces \"verbs\" hold no packets, but what hosts were told and said.",
            ),
        ];
        all.iter()
            .filter(|(is, _)| *is)
            .map(|(_, words)| (*words).to_owned())
            .collect()
    }
}

/// The capture of a run, written record by record: none but the one that is written need be in memory.
#[derive(Debug)]
pub struct Capture<W: Write> {
    writer: Writer<W>,
    interfaces: Interfaces,
    clock: Clock,
}

impl<W: Write> Capture<W> {
    /// Begins one of records that hold that.
    ///
    /// `epoch_ns` is what the first record's time 0 stands for: nanoseconds since 1970, or 0. Records whose clocks each
    /// begin at 0 are put behind one another.
    ///
    /// # Errors
    /// When `out` cannot be written.
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
    /// As [`Capture::begin`].
    pub fn record(&mut self, record: &Recorded<'_>) -> io::Result<()> {
        one(&mut self.writer, &mut self.interfaces, &mut self.clock, record)
    }

    /// Ends it.
    ///
    /// # Errors
    /// As [`Capture::begin`].
    pub fn end(mut self) -> io::Result<W> {
        self.writer.flush()?;
        Ok(self.writer.into_inner())
    }
}

/// The interfaces, declared when they are first needed.
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

/// The time of the capture: records whose clocks each begin at 0 are put behind one another.
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
