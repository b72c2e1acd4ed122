//! Frames, verbs commands, events and waits of a record, in the order in which the tester knew of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use prost::bytes::Bytes;
use verbatim_wire::Delimiter;

use crate::entry::Entry;
use crate::entry::verbs::{Command, Event, Reply, RoundTrips, Side};
use crate::label::{Frames, Label, Verbs, Wait};
use crate::time::{HostClock, Span, Time};
use crate::trace::{Gap, Trace};

/// A frame that left or came in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FrameSeen {
    /// Its number, from 1 on.
    pub number: u32,
    /// Its label; empty when it came in, or when the tester answered by itself.
    pub label: String,
    /// The rig's port.
    pub port: u32,
    /// Whether it came in.
    pub received: bool,
    /// When.
    pub at: Span,
    /// The frame, from the first byte of its link's header; of a native packet all between the delimiters, the VCRC with
    /// it.
    pub bytes: Bytes,
    /// What ended a native InfiniBand packet; `None` for an Ethernet frame.
    pub delimiter: Option<Delimiter>,
    /// Its place among all that happened: compares with other places.
    pub place: usize,
}

/// A verbs command and its answer.
#[derive(Clone, PartialEq, Debug)]
pub struct VerbsDone {
    /// Its number, from 1 on.
    pub number: u32,
    /// Its label.
    pub label: String,
    /// Whose device.
    pub side: Side,
    /// When it left.
    pub asked: Span,
    /// What.
    pub command: Command,
    /// When it left, among all that happened.
    pub place: usize,
    /// The answer: when the tester knew of it, when it was done on the host's clock, what it came to, and its place
    /// among all that happened.
    pub answer: Option<(Span, Span, Reply, usize)>,
}

/// Something that the host of a device told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostEvent {
    /// Whose device.
    pub side: Side,
    /// When it happened: not before the host's clock allows, and not after the tester knew of it, which may be much
    /// later.
    pub at: Span,
    /// When it happened, on the clock of that host.
    pub host_at: Span,
    /// What.
    pub event: Event,
    /// Its place among all that happened.
    pub place: usize,
}

/// A wait that was over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitDone {
    /// Its label.
    pub label: String,
    /// When it began.
    pub since: Time,
    /// When it was found to be over.
    pub until: Time,
    /// Its end's place among all that happened.
    pub place: usize,
}

/// One thing that happened: an index into the lists of the [`Timeline`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Happened {
    /// A frame left or came in.
    Frame(usize),
    /// A verbs command left.
    Asked(usize),
    /// A verbs command was answered.
    Answered(usize),
    /// A host told of something.
    Told(usize),
    /// A wait was over.
    Waited(usize),
}

/// Frames, verbs commands, events and waits of a record.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Timeline {
    /// Frames, by number − 1.
    pub frames: Vec<FrameSeen>,
    /// Verbs commands, by number − 1.
    pub commands: Vec<VerbsDone>,
    /// What hosts told.
    pub told: Vec<HostEvent>,
    /// Waits.
    pub waits: Vec<WaitDone>,
    /// Measurements of the path.
    pub round_trips: Vec<RoundTrips>,
    /// All in order.
    pub order: Vec<Happened>,
    labels: BTreeSet<String>,
    clocks: BTreeMap<Side, HostClock>,
}

/// What stands between two places, both excluded, of what is in the order of its places.
fn between<T>(all: &[T], place: impl Fn(&T) -> usize, (after, before): (usize, usize)) -> &[T] {
    let begin = all.partition_point(|of| place(of) <= after);
    let end = all.partition_point(|of| place(of) < before);
    &all[begin..end.max(begin)]
}

impl Timeline {
    /// Frames between two places, both excluded.
    #[must_use]
    pub fn frames_between(&self, places: (usize, usize)) -> &[FrameSeen] {
        between(&self.frames, |frame| frame.place, places)
    }

    /// Verbs commands between two places, both excluded.
    #[must_use]
    pub fn commands_between(&self, places: (usize, usize)) -> &[VerbsDone] {
        between(&self.commands, |done| done.place, places)
    }

    /// What hosts told between two places, both excluded.
    #[must_use]
    pub fn told_between(&self, places: (usize, usize)) -> &[HostEvent] {
        between(&self.told, |told| told.place, places)
    }

    /// Takes an entry; what it refers to and the number, when that is not there.
    pub(crate) fn take(&mut self, entry: Entry, names: &[Arc<str>]) -> Result<(), (&'static str, u32)> {
        let place = self.order.len();
        let name = |number: u32| {
            let at = (number as usize).checked_sub(1);
            at.and_then(|at| names.get(at))
                .map(ToString::to_string)
                .ok_or(("label", number))
        };
        let happened = match entry {
            Entry::Frame(frame) => {
                if frame.number as usize != self.frames.len() + 1 {
                    return Err(("frame", frame.number));
                }
                let label = if frame.label == 0 {
                    String::new()
                } else {
                    name(frame.label)?
                };
                self.labels.insert(label.clone());
                self.frames.push(FrameSeen {
                    number: frame.number,
                    label,
                    port: frame.port,
                    received: frame.received,
                    at: frame.at,
                    bytes: frame.bytes,
                    delimiter: frame.delimiter,
                    place,
                });
                Happened::Frame(self.frames.len() - 1)
            }
            Entry::VerbsAsked(asked) => {
                if asked.number as usize != self.commands.len() + 1 {
                    return Err(("command", asked.number));
                }
                let label = name(asked.label)?;
                self.labels.insert(label.clone());
                self.commands.push(VerbsDone {
                    number: asked.number,
                    label,
                    side: asked.side,
                    asked: asked.at,
                    command: asked.command,
                    place,
                    answer: None,
                });
                Happened::Asked(self.commands.len() - 1)
            }
            Entry::VerbsAnswered(answered) => {
                let at = (answered.number as usize)
                    .checked_sub(1)
                    .filter(|at| *at < self.commands.len())
                    .ok_or(("command", answered.number))?;
                let done = &self.commands[at];
                let clock = self.clocks.entry(done.side).or_default();
                clock.learn(done.asked.earliest, answered.host_at.earliest);
                self.commands[at].answer = Some((answered.at, answered.host_at, answered.reply, place));
                Happened::Answered(at)
            }
            Entry::VerbsTold(told) => {
                // In simulated time the tester knows at once.
                let clock = self.clocks.get(&told.side).filter(|_| told.at.source.is_some());
                let happened = clock.and_then(|clock| clock.earliest(told.host_at.earliest));
                let earliest = happened.map_or(told.at.earliest, |happened| happened.min(told.at.earliest));
                self.told.push(HostEvent {
                    side: told.side,
                    at: Span { earliest, ..told.at },
                    host_at: told.host_at,
                    event: told.event,
                    place,
                });
                Happened::Told(self.told.len() - 1)
            }
            Entry::Waited(waited) => {
                let label = name(waited.label)?;
                self.labels.insert(label.clone());
                self.waits.push(WaitDone {
                    label,
                    since: waited.since,
                    until: waited.until,
                    place,
                });
                Happened::Waited(self.waits.len() - 1)
            }
            Entry::RoundTrips(trips) => {
                self.round_trips.push(trips);
                return Ok(());
            }
            _ => return Ok(()),
        };
        self.order.push(happened);
        Ok(())
    }

    /// Whether a frame, command or wait has this label.
    pub(crate) fn uses(&self, label: &str) -> bool {
        self.labels.contains(label)
    }
}

impl Trace {
    /// The frames that left under a label, in order.
    pub fn frames(&self, label: Label<Frames>) -> impl Iterator<Item = &FrameSeen> {
        self.looked_at(label.name);
        self.timeline
            .frames
            .iter()
            .filter(move |frame| frame.label == label.name)
    }

    /// The one frame that left under a label.
    ///
    /// # Errors
    /// When there is none, or more than one.
    pub fn frame(&self, label: Label<Frames>) -> Result<&FrameSeen, Gap> {
        one(self.frames(label), label.name)
    }

    /// The verbs commands under a label, in order.
    pub fn commands(&self, label: Label<Verbs>) -> impl Iterator<Item = &VerbsDone> {
        self.looked_at(label.name);
        self.timeline
            .commands
            .iter()
            .filter(move |command| command.label == label.name)
    }

    /// The same between two places, both excluded.
    pub fn commands_between(&self, label: Label<Verbs>, places: (usize, usize)) -> impl Iterator<Item = &VerbsDone> {
        self.looked_at(label.name);
        self.timeline
            .commands_between(places)
            .iter()
            .filter(move |command| command.label == label.name)
    }

    /// The one verbs command under a label.
    ///
    /// # Errors
    /// When there is none, or more than one.
    pub fn command(&self, label: Label<Verbs>) -> Result<&VerbsDone, Gap> {
        one(self.commands(label), label.name)
    }

    /// The waits under a label, in order.
    pub fn waits(&self, label: Label<Wait>) -> impl Iterator<Item = &WaitDone> {
        self.looked_at(label.name);
        self.timeline.waits.iter().filter(move |wait| wait.label == label.name)
    }

    /// The one wait under a label.
    ///
    /// # Errors
    /// When there is none, or more than one.
    pub fn waited(&self, label: Label<Wait>) -> Result<&WaitDone, Gap> {
        one(self.waits(label), label.name)
    }
}

fn one<'a, T>(mut of: impl Iterator<Item = &'a T>, name: &'static str) -> Result<&'a T, Gap> {
    match (of.next(), of.next()) {
        (None, _) => Err(Gap::Missing(name)),
        (Some(only), None) => Ok(only),
        _ => Err(Gap::Repeated(name)),
    }
}
