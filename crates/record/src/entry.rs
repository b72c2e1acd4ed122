//! Entries of a record; [`form`] encodes them.

mod capabilities;
mod form;
pub mod verbs;

use core::time::Duration;

use verbatim_record_proto::Restored;
use verbatim_wire::{Lid, MKey, Mad, RespTime, SubnetTimeout};

pub use form::EntryError;
use verbs::{Frame, RoundTrips, VerbsAnswered, VerbsAsked, VerbsTold, Waited};

use crate::time::Span;

/// A receiver of a procedure's entries.
pub trait Sink {
    /// Accepts an entry.
    fn put(&mut self, entry: Entry);
    /// Starts to write the accepted entries, and returns before they are written. Later, [`Sink::error`] returns a
    /// write error.
    fn flush(&mut self);
    /// Returns the sink's first error, such as a full disk. The runner then stops the test.
    fn error(&self) -> Option<String> {
        None
    }
}

impl Sink for Vec<Entry> {
    fn put(&mut self, entry: Entry) {
        self.push(entry);
    }
    fn flush(&mut self) {}
}

/// The first entry: the test, its parameters and the properties of the rig.
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
    /// The longest time that the tester's host may delay a MAD.
    pub host_bound: Duration,
    /// Whether the run used simulated time.
    pub simulated: bool,
    /// Whether another SM is active on the subnet.
    pub shared_subnet: bool,
    /// The version of the catalogue.
    pub catalogue: String,
    /// SubnetTimeOut from the rig file. If absent, the port's own value applies.
    pub subnet_timeout: Option<SubnetTimeout>,
    /// The largest factor by which the device's clock may be slower than the tester's, from the rig file. All
    /// recorded times have been divided by this factor. 0 and 1 mean equal clocks.
    pub time_scale: u32,
    /// The smallest factor by which the device's clock may be slower; 0 if the factor does not vary.
    pub time_scale_least: u32,
}

impl Begin {
    /// Returns the largest factor by which a time on the device may exceed the recorded time. The record assumes the
    /// slowest speed of the device.
    #[must_use]
    pub fn stretch(&self) -> f64 {
        let slowest = self.time_scale.max(1);
        match self.time_scale_least {
            0 => 1.0,
            least => (f64::from(slowest) / f64::from(least)).max(1.0),
        }
    }

    /// Returns the longest time on the device for a recorded time.
    #[must_use]
    pub fn at_most(&self, recorded: Duration) -> Duration {
        match self.stretch() {
            // Without a stretch, avoid the rounding of floating-point numbers.
            1.0 => recorded,
            stretch => Duration::try_from_secs_f64(recorded.as_secs_f64() * stretch).unwrap_or(Duration::MAX),
        }
    }
}

/// The origin of an exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// The test's procedure.
    Test,
    /// The runner, for the sanity check, the restore and the liveness check.
    Runner,
}

/// A MAD that the tester sent.
#[derive(Clone, PartialEq, Debug)]
pub struct Sent {
    /// The number of the exchange, counted from 1.
    pub exchange: u32,
    /// The number of the exchange's label.
    pub label: u32,
    /// The number of the retry; 0 for the first try.
    pub attempt: u32,
    /// The number of the rig's port.
    pub port: u32,
    /// The time of the send.
    pub at: Span,
    /// The MAD.
    pub mad: Mad,
    /// The destination LID, if it differs from the LID that the rig file configures for the device under test.
    pub dlid: Option<Lid>,
}

/// The relation of a received MAD to the sent requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Match {
    /// The response to a request, in time.
    Answer,
    /// A MAD with a request's transaction ID that is not the response: its method, class, attribute or modifier
    /// differs.
    Wrong,
    /// A second response to the same request.
    Again,
    /// A response after its deadline.
    Late,
    /// A MAD with a transaction ID that the tester did not use.
    Stray,
    /// A trap.
    Trap,
}

/// A MAD that the tester received.
#[derive(Clone, PartialEq, Debug)]
pub struct Arrived {
    /// The number of the exchange with the same transaction ID, or 0 if there is none.
    pub exchange: u32,
    /// The MAD's relation to that exchange.
    pub how: Match,
    /// The number of the rig's port.
    pub port: u32,
    /// The time of the receipt.
    pub at: Span,
    /// The MAD.
    pub mad: Mad,
}

/// A remark of the procedure.
#[derive(Clone, PartialEq, Debug)]
pub struct Note {
    /// The time of the remark.
    pub at: Span,
    /// The text of the remark.
    pub text: String,
}

/// The reason why a procedure stopped early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StopReason {
    /// A user cancelled the run.
    Cancelled,
    /// The lease of the rig expired.
    LeaseEnded,
    /// The rig disappeared.
    RigGone,
    /// A request that the procedure depends on got no response.
    NoAnswer,
    /// A request that the procedure depends on was refused.
    Refused,
    /// The procedure panicked.
    Panicked,
    /// The tester failed: the journal or the disk had an error, or the procedure reached the limit of events.
    Tester,
    /// The device failed the sanity check.
    NotSane,
    /// The rig lacks a capability that the test needs. The tester sent nothing.
    NotOffered,
    /// The run could not continue to this test. The tester sent nothing.
    Skipped,
    /// The user's options ended the run before this test, for example after the first failure. The tester sent nothing.
    NotWanted,
    /// The rig changed after it was opened, so the record is unreliable.
    Disturbed,
    /// The tester's host was too slow, so the record has gaps.
    Stalled,
}

/// An early end of the procedure.
#[derive(Clone, PartialEq, Debug)]
pub struct Stopped {
    /// The reason.
    pub reason: StopReason,
    /// The label, message or error that the reason refers to.
    pub text: String,
}

/// A run of the rig's reset command, after the procedure and the restore.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Reset {
    /// The failure that caused the reset. Empty if the device responded and the reset separates two tests.
    pub silent: String,
    /// The command with its arguments.
    pub command: Vec<String>,
    /// The command's exit, as text.
    pub ended: String,
    /// Whether the reset succeeded.
    pub succeeded: bool,
    /// The duration, on the tester's clock.
    pub took: Duration,
    /// The command's output. Long output is cut at its beginning.
    pub output: String,
    /// The device's failure after the reset; empty if the device responded.
    pub after: String,
}

/// One event of a run. Large variants are boxed, because entries are moved several times and frames arrive fast.
#[derive(Clone, PartialEq, Debug)]
pub enum Entry {
    /// The test, its parameters and the rig.
    Begin(Box<Begin>),
    /// The definition of a label's number.
    Label {
        /// The number, counted from 1.
        number: u32,
        /// The label's text.
        name: String,
        /// The origin of the exchanges under the label.
        role: Role,
    },
    /// The tester sent a MAD.
    Sent(Box<Sent>),
    /// The tester received a MAD.
    Arrived(Box<Arrived>),
    /// A deadline passed without a response.
    Silence {
        /// The number of the exchange.
        exchange: u32,
        /// The time at which the tester noticed the expired deadline.
        at: Span,
        /// The RespTimeValue of the deadline.
        resp_time: RespTime,
        /// The SubnetTimeOut of the deadline.
        subnet_timeout: SubnetTimeout,
    },
    /// The host returned a MAD as unanswered.
    Returned {
        /// The number of the exchange.
        exchange: u32,
        /// The time of the return.
        at: Span,
        /// The host's errno.
        errno: i32,
    },
    /// A remark of the procedure.
    Note(Note),
    /// A change of the restore journal.
    Journal {
        /// The restored area.
        area: String,
        /// The change, as text.
        change: String,
    },
    /// The procedure stopped early.
    Stopped(Stopped),
    /// The result of restoring an area.
    Restored(Restored),
    /// The tester sent or received a frame.
    Frame(Frame),
    /// The tester sent a verbs command to a device's host.
    VerbsAsked(Box<VerbsAsked>),
    /// A device's host replied to a verbs command.
    VerbsAnswered(Box<VerbsAnswered>),
    /// A device's host reported a completion or an asynchronous event.
    VerbsTold(VerbsTold),
    /// A wait of the procedure ended.
    Waited(Waited),
    /// The tester measured the delay of the path.
    RoundTrips(RoundTrips),
    /// The runner ran the rig's reset command.
    Reset(Box<Reset>),
    /// A kernel reported an error on its console.
    KernelReport(verbs::KernelReport),
    /// The trailer of a complete record.
    End {
        /// The number of entries before the trailer.
        entries: u64,
        /// The time of the end.
        at: Span,
    },
}
