//! Frames, verbs commands, events and waits of a record, in the order in which the tester learned of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use prost::bytes::Bytes;
use verbatim_wire::Delimiter;

use crate::entry::Entry;
use crate::entry::verbs::{Command, Event, Reply, RoundTrips, Side};
use crate::label::{Frames, Label, Verbs, Wait};
use crate::time::{HostClock, Span, Time};
use crate::trace::{Gap, Trace};

/// A frame that the tester sent or received.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FrameSeen {
    /// The frame's number, counted from 1.
    pub number: u32,
    /// The frame's label. Empty for a received frame, and for the tester's automatic responses.
    pub label: String,
    /// The number of the rig's port.
    pub port: u32,
    /// Whether the tester received the frame.
    pub received: bool,
    /// The time of the send or the receipt.
    pub at: Span,
    /// The frame from the first byte of its link header. A native packet's bytes end with the VCRC.
    pub bytes: Bytes,
    /// The delimiter that ended a native InfiniBand packet, or `None` for an Ethernet frame.
    pub delimiter: Option<Delimiter>,
    /// The frame's place on the timeline, comparable with other places.
    pub place: usize,
}

/// A verbs command and its reply.
#[derive(Clone, PartialEq, Debug)]
pub struct VerbsDone {
    /// The command's number, counted from 1.
    pub number: u32,
    /// The command's label.
    pub label: String,
    /// The device that the command is for.
    pub side: Side,
    /// The time at which the tester sent the command.
    pub asked: Span,
    /// The command.
    pub command: Command,
    /// The place of the send on the timeline.
    pub place: usize,
    /// The reply. The tuple begins with the time of the receipt by the tester and the time of the execution on the
    /// host's clock. Then follow the reply itself and its place on the timeline.
    pub answer: Option<(Span, Span, Reply, usize)>,
}

/// A completion or an asynchronous event that a device's host reported.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostEvent {
    /// The device of the event.
    pub side: Side,
    /// The time of the event on the tester's clock. The host's clock bounds it from below. The tester's receipt of the
    /// report, which may be much later, bounds it from above.
    pub at: Span,
    /// The time of the event, on the clock of the device's host.
    pub host_at: Span,
    /// The event.
    pub event: Event,
    /// The report's place on the timeline.
    pub place: usize,
}

/// A finished wait of the procedure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitDone {
    /// The wait's label.
    pub label: String,
    /// The time at which the wait began.
    pub since: Time,
    /// The time at which the tester noticed the end.
    pub until: Time,
    /// The place of the wait's end on the timeline.
    pub place: usize,
}

/// One event of the [`Timeline`], as an index into its lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Happened {
    /// The tester sent or received this frame.
    Frame(usize),
    /// The tester sent this verbs command.
    Asked(usize),
    /// The host replied to this verbs command.
    Answered(usize),
    /// A host reported this event.
    Told(usize),
    /// This wait ended.
    Waited(usize),
}

/// Frames, verbs commands, events and waits of a record.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Timeline {
    /// The frames; frame n is at index n − 1.
    pub frames: Vec<FrameSeen>,
    /// The verbs commands; command n is at index n − 1.
    pub commands: Vec<VerbsDone>,
    /// Completions and asynchronous events that hosts reported.
    pub told: Vec<HostEvent>,
    /// The waits.
    pub waits: Vec<WaitDone>,
    /// Measurements of the path's delay.
    pub round_trips: Vec<RoundTrips>,
    /// All events in the order in which the tester learned of them.
    pub order: Vec<Happened>,
    labels: BTreeSet<String>,
    clocks: BTreeMap<Side, HostClock>,
}

/// Returns the elements strictly between two places. The slice must be sorted by place.
fn between<T>(all: &[T], place: impl Fn(&T) -> usize, (after, before): (usize, usize)) -> &[T] {
    let begin = all.partition_point(|of| place(of) <= after);
    let end = all.partition_point(|of| place(of) < before);
    &all[begin..end.max(begin)]
}

impl Timeline {
    /// Returns the frames strictly between two places.
    #[must_use]
    pub fn frames_between(&self, places: (usize, usize)) -> &[FrameSeen] {
        between(&self.frames, |frame| frame.place, places)
    }

    /// Returns the verbs commands strictly between two places.
    #[must_use]
    pub fn commands_between(&self, places: (usize, usize)) -> &[VerbsDone] {
        between(&self.commands, |done| done.place, places)
    }

    /// Returns the events that hosts reported strictly between two places.
    #[must_use]
    pub fn told_between(&self, places: (usize, usize)) -> &[HostEvent] {
        between(&self.told, |told| told.place, places)
    }

    /// Adds an entry. If the entry refers to an undefined item, returns the item's kind and number.
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
                // In simulated time the tester learns of an event at once.
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

    /// Returns whether a frame, command or wait has this label.
    pub(crate) fn uses(&self, label: &str) -> bool {
        self.labels.contains(label)
    }
}

impl Trace {
    /// Returns the frames that the tester sent under a label, in order.
    pub fn frames(&self, label: Label<Frames>) -> impl Iterator<Item = &FrameSeen> {
        self.looked_at(label.name);
        self.timeline
            .frames
            .iter()
            .filter(move |frame| frame.label == label.name)
    }

    /// Returns the only frame that the tester sent under a label.
    ///
    /// # Errors
    /// Returns an error when there is no frame or more than one.
    pub fn frame(&self, label: Label<Frames>) -> Result<&FrameSeen, Gap> {
        one(self.frames(label), label.name)
    }

    /// Returns the verbs commands under a label, in order.
    pub fn commands(&self, label: Label<Verbs>) -> impl Iterator<Item = &VerbsDone> {
        self.looked_at(label.name);
        self.timeline
            .commands
            .iter()
            .filter(move |command| command.label == label.name)
    }

    /// Returns the verbs commands under a label strictly between two places, in order.
    pub fn commands_between(&self, label: Label<Verbs>, places: (usize, usize)) -> impl Iterator<Item = &VerbsDone> {
        self.looked_at(label.name);
        self.timeline
            .commands_between(places)
            .iter()
            .filter(move |command| command.label == label.name)
    }

    /// Returns the only verbs command under a label.
    ///
    /// # Errors
    /// Returns an error when there is no command or more than one.
    pub fn command(&self, label: Label<Verbs>) -> Result<&VerbsDone, Gap> {
        one(self.commands(label), label.name)
    }

    /// Returns the waits under a label, in order.
    pub fn waits(&self, label: Label<Wait>) -> impl Iterator<Item = &WaitDone> {
        self.looked_at(label.name);
        self.timeline.waits.iter().filter(move |wait| wait.label == label.name)
    }

    /// Returns the only wait under a label.
    ///
    /// # Errors
    /// Returns an error when there is no wait or more than one.
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
