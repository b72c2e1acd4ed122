//! Frames and verbs commands in a record.

use core::fmt;
use core::time::Duration;

use prost::bytes::Bytes;
pub use verbatim_record_proto::agent::v1 as pb;
pub use verbatim_record_proto::agent::v1::command::Kind as Command;
pub use verbatim_record_proto::agent::v1::event::Kind as Event;
pub use verbatim_record_proto::agent::v1::reply::Kind as Reply;
pub use verbatim_record_proto::agent::{OutOfRange, qp_state, service};
use verbatim_wire::Delimiter;
use verbatim_wire::verbs::WcStatus;

pub use super::capabilities::{asks_for, capabilities, takes, takes_value};
use crate::time::{Span, Time, words};

/// A frame that the tester sent or received.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// The frame's number, counted from 1.
    pub number: u32,
    /// The number of the frame's label. 0 for a received frame, and for the tester's automatic responses.
    pub label: u32,
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
}

/// The device that a command or an event belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Side {
    /// The device under test.
    Dut,
    /// The tester's own device.
    Tester,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dut => "DUT",
            Self::Tester => "tester",
        })
    }
}

/// A verbs command that the tester sent to a device's host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerbsAsked {
    /// The command's number, counted from 1.
    pub number: u32,
    /// The number of the command's label.
    pub label: u32,
    /// The device that the command is for.
    pub side: Side,
    /// The time of the send.
    pub at: Span,
    /// The command.
    pub command: Command,
}

/// A reply to a verbs command.
#[derive(Clone, PartialEq, Debug)]
pub struct VerbsAnswered {
    /// The command's number.
    pub number: u32,
    /// The time at which the tester received the reply.
    pub at: Span,
    /// The time of the execution, on the clock of the device's host.
    pub host_at: Span,
    /// The reply.
    pub reply: Reply,
}

/// A completion or an asynchronous event that a device's host reported.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerbsTold {
    /// The device of the event.
    pub side: Side,
    /// The time at which the tester received the report.
    pub at: Span,
    /// The time of the event, on the clock of the device's host.
    pub host_at: Span,
    /// The event.
    pub event: Event,
}

/// A finished wait of the procedure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waited {
    /// The number of the wait's label.
    pub label: u32,
    /// The time at which the wait began.
    pub since: Time,
    /// The time at which the tester noticed the end. The record holds all earlier events before this entry.
    pub until: Time,
}

/// A report of an error that the kernel of a host printed on its console during the test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelReport {
    /// The host.
    pub side: Side,
    /// The lines of the report.
    pub text: String,
}

/// The delay of the path, measured with requests to which the device responds at once.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RoundTrips {
    /// The number of answered requests.
    pub answered: u32,
    /// The number of unanswered requests.
    pub lost: u32,
    /// The lower bound of the shortest round trip.
    pub shortest: Duration,
    /// The upper bound of the longest round trip.
    pub longest: Duration,
    /// The kind of request.
    pub of: String,
}

impl fmt::Display for RoundTrips {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} round trips of {} took {}..{}",
            self.answered,
            self.of,
            words(self.shortest),
            words(self.longest)
        )?;
        if self.lost > 0 {
            write!(f, "; {} without an answer", self.lost)?;
        }
        Ok(())
    }
}

/// Describes a command, for evidence.
#[must_use]
pub fn command_words(command: &Command) -> String {
    match command {
        Command::Open(_) => "open the device".into(),
        Command::RegisterMemory(of) => format!("register {} bytes of memory", of.length),
        Command::CreateQp(of) => format!("create a QP ({})", of.service().as_str_name().replace("SERVICE_", "")),
        Command::ModifyQp(of) => format!(
            "modify QP {} to {}",
            of.qp,
            of.state().as_str_name().replace("QP_STATE_", "")
        ),
        Command::QueryQp(of) => format!("query QP {}", of.qp),
        Command::PostSend(of) => format!(
            "post {} of {} bytes on QP {}, wr_id {}",
            of.operation().as_str_name().replace("OPERATION_", ""),
            of.local.unwrap_or_default().length,
            of.qp,
            of.wr_id
        ),
        Command::PostReceive(of) => format!("post a receive on QP {}, wr_id {}", of.qp, of.wr_id),
        Command::ReadMemory(of) => format!("read {} bytes of memory", of.from.unwrap_or_default().length),
        Command::WriteMemory(of) => format!("write {} bytes of memory", of.bytes.len()),
        Command::DestroyQp(of) => format!("destroy QP {}", of.qp),
        Command::DeregisterMemory(of) => format!("deregister memory {}", of.memory),
        Command::DestroyAll(_) => "destroy all that was made".into(),
    }
}

/// Describes a reply, for evidence.
#[must_use]
pub fn reply_words(reply: &Reply) -> String {
    match reply {
        Reply::Opened(of) => format!("{} port {} is open", of.device, of.port),
        Reply::Memory(of) => format!("memory {} at {:#x}, R_Key {:#x}", of.memory, of.address, of.r_key),
        Reply::Qp(of) => format!("QP {} is {:#08x}", of.qp, of.qpn),
        Reply::Done(_) => "done".into(),
        Reply::Status(of) => format!("the QP is in {}", of.state().as_str_name().replace("QP_STATE_", "")),
        Reply::Bytes(of) => format!("{} bytes", of.bytes.len()),
        Reply::Refused(of) => format!("refused: {}", of.text),
    }
}

/// Describes an event, for evidence.
#[must_use]
pub fn event_words(event: &Event) -> String {
    match event {
        Event::Completion(of) => format!("completion of wr_id {} with {}", of.wr_id, WcStatus(of.status)),
        Event::AsyncEvent(of) => format!("asynchronous event {}", of.name),
    }
}
