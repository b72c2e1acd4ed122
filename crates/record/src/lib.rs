//! The record of a run: entries with labels and time spans, their file, the trace that judges read, checks and
//! verdicts.
//!
//! A *procedure* writes [`Entry`]s through a [`Sink`]. A *judge* reads them as a [`Trace`] and states [`Check`]s
//! through [`Findings`]. This crate contains no rule of the architecture except how long silence must last
//! ([`silence`]).

mod bundle;
#[cfg(test)]
mod damage;
mod entry;
mod evidence;
mod file;
mod findings;
mod kernel_report;
mod label;
mod time;
mod timeline;
mod trace;

pub mod labels;
pub mod secrets;
pub mod silence;

/// The name of a parameter: whether the device may write a packet's payload to memory before earlier packets arrive.
pub const OUT_OF_ORDER: &str = "dut_out_of_order";

/// The port number that exchanges with the agents of the tester's own port have. Rigs number their ports from 0.
pub const OWN_PORT: u32 = u32::MAX;

/// The bytes of a frame, in a shared buffer.
pub use prost::bytes::Bytes;

pub use bundle::{
    Bundle, BundleError, BundleWriter, LARGEST_BUNDLE, MOST_FILES, Manifest, ManifestFile, Signed, StoredRecord,
    record_name,
};
pub use entry::verbs;
pub use entry::verbs::{Frame, RoundTrips, Side, VerbsAnswered, VerbsAsked, VerbsTold, Waited};
pub use entry::{Arrived, Begin, Entry, EntryError, Match, Note, Reset, Role, Sent, Sink, StopReason, Stopped};
pub use evidence::Evidence;
pub use file::{FileSink, MAGIC, RecordError, read, read_file};
pub use findings::{Check, Claim, Findings, Legal, Measured, Observation, Passed, Seen, TRIES};
pub use kernel_report::{kernel_report_name, kernel_reports};
pub use label::{Frames, Label, Verbs, Wait};
pub use time::{Span, Time, TimeSource, words as duration_words, words_beside as duration_words_beside};
pub use timeline::{FrameSeen, Happened, HostEvent, Timeline, VerbsDone, WaitDone};
pub use trace::{Exchange, Gap, Trace, TraceError, Tracing, nearly_an_answer, unlike_an_answer};
pub use verbatim_record_proto::Restored;
pub use verbatim_record_proto::v1::{Cause, DeviationShowed, KnownDeviation, Outcome, Verdict};
pub use verbatim_wire::Delimiter;
pub use verbatim_wire::verbs::WcStatus;
