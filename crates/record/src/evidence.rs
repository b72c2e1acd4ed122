//! What shows that a check is right: exchanges, frames, commands and events, with their numbers in the record.

use verbatim_wire::Delimiter;
use verbatim_wire::packet::{Medium, Packet};

use crate::entry::verbs::{command_words, event_words, reply_words};
use crate::findings::Check;
use crate::timeline::{FrameSeen, Told, VerbsDone, WaitDone};
use crate::trace::Exchange;

/// One thing in the record that shows that a check is right.
#[derive(Clone, Copy, Debug)]
pub enum Evidence<'a> {
    /// A management exchange.
    Exchange(&'a Exchange),
    /// A frame.
    Frame(&'a FrameSeen),
    /// A verbs command.
    Command(&'a VerbsDone),
    /// A completion or an asynchronous event.
    Told(&'a Told),
    /// A wait.
    Wait(&'a WaitDone),
}

impl Evidence<'_> {
    /// One line for people.
    #[must_use]
    pub fn in_words(&self) -> String {
        match self {
            Self::Exchange(exchange) => exchange.in_words(),
            Self::Frame(frame) => frame.in_words(),
            Self::Command(done) => {
                let answer = done.answer.as_ref().map_or_else(
                    || "no answer".into(),
                    |(at, _, reply, _)| format!("{} at {}", reply_words(reply), at.latest),
                );
                format!(
                    "{} \"{}\": {} -> {answer}",
                    done.side,
                    done.label,
                    command_words(&done.command)
                )
            }
            Self::Told(told) => format!("{}: {} at {}", told.side, event_words(&told.event), told.at.latest),
            Self::Wait(wait) => format!(
                "\"{}\": waited from {} for {}",
                wait.label,
                wait.since,
                crate::duration_words(wait.until.since(wait.since))
            ),
        }
    }

    pub(crate) fn put(&self, check: &mut Check) {
        match self {
            Self::Exchange(exchange) => check.exchanges.push(exchange.number),
            Self::Frame(frame) => check.frames.push(frame.number),
            Self::Command(_) | Self::Told(_) | Self::Wait(_) => {}
        }
    }
}

impl FrameSeen {
    /// One line for people.
    #[must_use]
    pub fn in_words(&self) -> String {
        let medium = match self.delimiter {
            Some(_) => Medium::InfiniBand,
            None => Medium::Ethernet,
        };
        let what = Packet::parse(medium, &self.bytes).map_or_else(
            |error| format!("{} bytes: {error}", self.bytes.len()),
            |packet| packet.to_string(),
        );
        let end = match self.delimiter {
            None | Some(Delimiter::Egp) => String::new(),
            Some(other) => format!(", ended by {other}"),
        };
        let label = if self.label.is_empty() {
            String::new()
        } else {
            format!(" \"{}\"", self.label)
        };
        let way = if self.received { "received" } else { "sent" };
        format!("frame {}{label} {way} at {}: {what}{end}", self.number, self.at.latest)
    }
}

impl<'a> From<&'a Exchange> for Evidence<'a> {
    fn from(of: &'a Exchange) -> Self {
        Self::Exchange(of)
    }
}
impl<'a> From<&'a FrameSeen> for Evidence<'a> {
    fn from(of: &'a FrameSeen) -> Self {
        Self::Frame(of)
    }
}
impl<'a> From<&'a VerbsDone> for Evidence<'a> {
    fn from(of: &'a VerbsDone) -> Self {
        Self::Command(of)
    }
}
impl<'a> From<&'a Told> for Evidence<'a> {
    fn from(of: &'a Told) -> Self {
        Self::Told(of)
    }
}
impl<'a> From<&'a WaitDone> for Evidence<'a> {
    fn from(of: &'a WaitDone) -> Self {
        Self::Wait(of)
    }
}
