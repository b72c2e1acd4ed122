//! Entries of a record; their form on disk is in [`form`].

mod capabilities;
mod form;
pub mod verbs;

use core::time::Duration;

use verbatim_record_proto::Restored;
use verbatim_wire::{Lid, MKey, Mad, RespTime, SubnetTimeout};

pub use form::EntryError;
use verbs::{Frame, RoundTrips, VerbsAnswered, VerbsAsked, VerbsTold, Waited};

use crate::time::Span;

/// Where a procedure's entries go.
pub trait Sink {
    /// Takes an entry.
    fn put(&mut self, entry: Entry);
    /// Has what was put written now, without waiting for it. An error is kept, and shows when the record is closed at the
    /// latest.
    fn flush(&mut self);
    /// The first error that the sink met: a full disk, say. The runner stops the test on it.
    fn error(&self) -> Option<String> {
        None
    }
}

/// Keeps entries in memory.
impl Sink for Vec<Entry> {
    fn put(&mut self, entry: Entry) {
        self.push(entry);
    }
    fn flush(&mut self) {}
}

/// What was asked for: the first entry.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Begin {
    /// The test's id.
    pub test: String,
    /// The test's revision.
    pub revision: u32,
    /// The run's seed.
    pub seed: u64,
    /// Parameters, sorted by name.
    pub parameters: Vec<(String, u64)>,
    /// The rig's kind.
    pub rig_kind: String,
    /// The M_Key that the rig file gives for this DUT.
    pub rig_key: MKey,
    /// How long our own host may hold up a MAD.
    pub host_bound: Duration,
    /// Whether time is simulated.
    pub simulated: bool,
    /// Whether an SM of somebody else shares the subnet.
    pub shared_subnet: bool,
    /// Version of the catalogue.
    pub catalogue: String,
    /// SubnetTimeOut by the rig file; the port's own counts when there is none.
    pub subnet_timeout: Option<SubnetTimeout>,
    /// How many times slower than our own clock the device's runs, by the rig file: all instants are divided by it. 0 and
    /// 1: it is not slower.
    pub time_scale: u32,
    /// How many times slower it runs at least, where that varies; 0: it does not vary.
    pub time_scale_least: u32,
}

impl Begin {
    /// How many times longer a time may have been for the device than it is in the record: the record counts with the
    /// slowest that the device may be.
    #[must_use]
    pub fn stretch(&self) -> f64 {
        let slowest = self.time_scale.max(1);
        match self.time_scale_least {
            0 => 1.0,
            least => (f64::from(slowest) / f64::from(least)).max(1.0),
        }
    }

    /// The longest that a time of the record may have been for the device.
    #[must_use]
    pub fn at_most(&self, recorded: Duration) -> Duration {
        match self.stretch() {
            // Not by way of a float, which would round what is exact.
            1.0 => recorded,
            stretch => Duration::try_from_secs_f64(recorded.as_secs_f64() * stretch).unwrap_or(Duration::MAX),
        }
    }
}

/// Who made an exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// The test's procedure.
    Test,
    /// The runner: sanity check, restore, liveness.
    Runner,
}

/// A MAD left.
#[derive(Clone, PartialEq, Debug)]
pub struct Sent {
    /// Number of the exchange, from 1 on.
    pub exchange: u32,
    /// Number of its label.
    pub label: u32,
    /// 0 for the first try.
    pub attempt: u32,
    /// The rig's port.
    pub port: u32,
    /// When.
    pub at: Span,
    /// What.
    pub mad: Mad,
    /// The LID that it went to, where that is another than the rig's way to the device under test.
    pub dlid: Option<Lid>,
}

/// How an arrival relates to what was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Match {
    /// The answer.
    Answer,
    /// Transaction id of a request, but no response, or another class, attribute or modifier.
    Wrong,
    /// A further answer.
    Again,
    /// An answer after its deadline.
    Late,
    /// A transaction id that is none of ours.
    Stray,
    /// A trap.
    Trap,
}

/// A MAD came in.
#[derive(Clone, PartialEq, Debug)]
pub struct Arrived {
    /// The exchange that it belongs to by its transaction id, or 0.
    pub exchange: u32,
    /// How it relates to that exchange.
    pub how: Match,
    /// The rig's port.
    pub port: u32,
    /// When.
    pub at: Span,
    /// What.
    pub mad: Mad,
}

/// Something worth knowing about the procedure.
#[derive(Clone, PartialEq, Debug)]
pub struct Note {
    /// When.
    pub at: Span,
    /// The text.
    pub text: String,
}

/// Why a procedure ended before its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StopReason {
    /// Somebody cancelled the run.
    Cancelled,
    /// The lease of the rig ended.
    LeaseEnded,
    /// The rig is gone.
    RigGone,
    /// An exchange that the procedure needs was not answered.
    NoAnswer,
    /// An exchange that the procedure needs was refused.
    Refused,
    /// The procedure panicked.
    Panicked,
    /// The tester could not go on: journal, disk, event budget.
    Tester,
    /// The device failed the sanity check.
    NotSane,
    /// The rig does not offer what the test needs; nothing was sent.
    NotOffered,
    /// The run could not go on to this test; nothing was sent.
    Skipped,
    /// The run ended before this test as its user had asked, such as at the first failure; nothing was sent.
    NotWanted,
    /// The rig did not stay what it was when it was opened: what was recorded cannot be relied on.
    Disturbed,
    /// The tester's own host did not keep up: what was recorded has holes.
    Stalled,
}

/// The procedure ended before its end.
#[derive(Clone, PartialEq, Debug)]
pub struct Stopped {
    /// Why.
    pub reason: StopReason,
    /// The label, message or error.
    pub text: String,
}

/// The rig's reset command was run after the procedure and the restore.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Reset {
    /// How the device was found before it; empty when it answered, and the reset is the one between two tests.
    pub silent: String,
    /// The command.
    pub command: Vec<String>,
    /// How it ended.
    pub ended: String,
    /// Whether it did what it is there for.
    pub succeeded: bool,
    /// How long it took, on our own clock.
    pub took: Duration,
    /// What it wrote, the end of it where that is much.
    pub output: String,
    /// How the device was found after it; empty when it answered.
    pub after: String,
}

/// One thing that happened. What is large is boxed: what holds a frame, of which many come fast, is moved several times.
#[derive(Clone, PartialEq, Debug)]
pub enum Entry {
    /// What was asked for.
    Begin(Box<Begin>),
    /// A label gets its number.
    Label {
        /// The number, from 1 on.
        number: u32,
        /// The words.
        name: String,
        /// Who uses it.
        role: Role,
    },
    /// A MAD left.
    Sent(Box<Sent>),
    /// A MAD came in.
    Arrived(Box<Arrived>),
    /// A deadline passed without an answer.
    Silence {
        /// The exchange.
        exchange: u32,
        /// When the deadline was found to have passed.
        at: Span,
        /// The RespTimeValue that the deadline rests on.
        resp_time: RespTime,
        /// The SubnetTimeOut that the deadline rests on.
        subnet_timeout: SubnetTimeout,
    },
    /// The host gave a MAD back unanswered.
    Returned {
        /// The exchange.
        exchange: u32,
        /// When.
        at: Span,
        /// The host's error number.
        errno: i32,
    },
    /// Something worth knowing.
    Note(Note),
    /// A change of the restore journal.
    Journal {
        /// The area.
        area: String,
        /// What happened to it.
        change: String,
    },
    /// The procedure ended before its end.
    Stopped(Stopped),
    /// What restoring an area came to.
    Restored(Restored),
    /// A frame left or came in.
    Frame(Frame),
    /// A verbs command left for the host of a device.
    VerbsAsked(Box<VerbsAsked>),
    /// A verbs command was answered.
    VerbsAnswered(Box<VerbsAnswered>),
    /// The host of a device told of something.
    VerbsTold(VerbsTold),
    /// A wait of the procedure was over.
    Waited(Waited),
    /// The delay of the path was measured.
    RoundTrips(RoundTrips),
    /// The rig's reset command was run.
    Reset(Box<Reset>),
    /// The record is whole.
    End {
        /// Number of entries before this one.
        entries: u64,
        /// When.
        at: Span,
    },
}
