//! Frames and verbs commands in a record: what passed on the wire, and what the hosts of the devices did.

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

pub use super::capabilities::{asks_for, takes, takes_value};
use crate::time::{Span, Time, words};

/// A frame left or came in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// Its number, from 1 on.
    pub number: u32,
    /// Number of its label; 0 when it came in, or when the tester answered by itself.
    pub label: u32,
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
}

/// Whose device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Side {
    /// The device under test.
    Dut,
    /// The tester's own.
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

/// A verbs command left for the host of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerbsAsked {
    /// Its number, from 1 on.
    pub number: u32,
    /// Number of its label.
    pub label: u32,
    /// Whose device.
    pub side: Side,
    /// When.
    pub at: Span,
    /// What.
    pub command: Command,
}

/// A verbs command was answered.
#[derive(Clone, PartialEq, Debug)]
pub struct VerbsAnswered {
    /// Number of the command.
    pub number: u32,
    /// When the tester knew of it.
    pub at: Span,
    /// When it was done, on the clock of that host.
    pub host_at: Span,
    /// What it came to.
    pub reply: Reply,
}

/// The host of a device told of something: a completion, an asynchronous event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerbsTold {
    /// Whose device.
    pub side: Side,
    /// When the tester knew of it.
    pub at: Span,
    /// When it happened, on the clock of that host.
    pub host_at: Span,
    /// What.
    pub event: Event,
}

/// A wait of the procedure was over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waited {
    /// Number of its label.
    pub label: u32,
    /// When it began.
    pub since: Time,
    /// When it was found to be over; all that came before this is recorded before it.
    pub until: Time,
}

/// The delay of the path, measured by exchanges that the device answers at once.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RoundTrips {
    /// Exchanges that were answered.
    pub answered: u32,
    /// Exchanges that were not.
    pub lost: u32,
    /// The shortest, as its lower bound.
    pub shortest: Duration,
    /// The longest, as its upper bound.
    pub longest: Duration,
    /// What was exchanged.
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
            write!(f, "; {} were not answered", self.lost)?;
        }
        Ok(())
    }
}

/// A command in words, for evidence.
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

/// A reply in words, for evidence.
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

/// An event in words, for evidence.
#[must_use]
pub fn event_words(event: &Event) -> String {
    match event {
        Event::Completion(of) => format!("completion of wr_id {} with {}", of.wr_id, WcStatus(of.status)),
        Event::AsyncEvent(of) => format!("asynchronous event {}", of.name),
    }
}
