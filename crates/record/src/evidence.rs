//! The evidence of a check: exchanges, frames, commands, events and waits.

use verbatim_wire::Delimiter;
use verbatim_wire::packet::{Medium, Packet};

use crate::entry::verbs::{command_words, event_words, reply_words};
use crate::findings::Check;
use crate::timeline::{FrameSeen, HostEvent, VerbsDone, WaitDone};
use crate::trace::Exchange;

/// One item of evidence.
#[derive(Clone, Copy, Debug)]
pub enum Evidence<'a> {
    /// A management exchange.
    Exchange(&'a Exchange),
    /// A frame.
    Frame(&'a FrameSeen),
    /// A verbs command.
    Command(&'a VerbsDone),
    /// A completion or an asynchronous event.
    HostEvent(&'a HostEvent),
    /// A wait.
    Wait(&'a WaitDone),
}

impl Evidence<'_> {
    /// Describes the item in one line.
    #[must_use]
    pub fn in_words(&self) -> String {
        match self {
            Self::Exchange(exchange) => exchange.in_words(),
            Self::Frame(frame) => frame.in_words(),
            Self::Command(done) => {
                let answer = done.answer.as_ref().map_or_else(
                    || "no answer".into(),
                    |(at, _, reply, _)| format!("{} at {}{}", reply_words(reply), at.latest, at.source_words()),
                );
                format!(
                    "{} \"{}\": {} -> {answer}",
                    done.side,
                    done.label,
                    command_words(&done.command)
                )
            }
            Self::HostEvent(HostEvent { side, at, event, .. }) => {
                format!("{side}: {} at {}{}", event_words(event), at.latest, at.source_words())
            }
            Self::Wait(wait) => format!(
                "\"{}\": waited from {} for {}",
                wait.label,
                wait.since,
                crate::duration_words(wait.until.since(wait.since))
            ),
        }
    }

    /// Returns the item's place on the timeline, or an exchange's number.
    #[must_use]
    pub fn place(&self) -> u64 {
        match self {
            Self::Exchange(exchange) => exchange.number.into(),
            Self::Frame(frame) => frame.place as u64,
            Self::Command(done) => done.place as u64,
            Self::HostEvent(told) => told.place as u64,
            Self::Wait(wait) => wait.place as u64,
        }
    }

    pub(crate) fn put(&self, check: &mut Check) {
        match self {
            Self::Exchange(exchange) => check.exchanges.push(exchange.number),
            Self::Frame(frame) => check.frames.push(frame.number),
            Self::Command(_) | Self::HostEvent(_) | Self::Wait(_) => {}
        }
    }
}

impl FrameSeen {
    /// Describes the frame in one line.
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
        let (at, source) = (self.at.latest, self.at.source_words());
        format!("frame {}{label} {way} at {at}{source}: {what}{end}", self.number)
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
impl<'a> From<&'a HostEvent> for Evidence<'a> {
    fn from(of: &'a HostEvent) -> Self {
        Self::HostEvent(of)
    }
}
impl<'a> From<&'a WaitDone> for Evidence<'a> {
    fn from(of: &'a WaitDone) -> Self {
        Self::Wait(of)
    }
}

#[cfg(test)]
mod tests {
    use crate::entry::verbs::{Event, pb};
    use crate::{Arrived, Entry, Findings, Frame, Match, Sent, Side, Span, Time, TimeSource, Trace, VerbsTold};
    use verbatim_wire::{AttributeId, Mad, Method};

    /// Returns the evidence of a failed check: a frame, an event and an exchange whose times have this source. All
    /// entries are encoded and decoded before the check.
    fn evidence(source: Option<TimeSource>) -> Vec<String> {
        let at = Span {
            source,
            ..Span::between(Time(7), Time(9))
        };
        let mad = Mad::directed(Method::GET, AttributeId::PORT_INFO, 0, &[1]);
        let entries = [
            Entry::Begin(Box::default()),
            Entry::Label {
                number: 1,
                name: "l".into(),
                role: crate::Role::Test,
            },
            Entry::Frame(Frame {
                number: 1,
                label: 0,
                port: 0,
                received: true,
                at,
                bytes: vec![1].into(),
                delimiter: None,
            }),
            Entry::VerbsTold(VerbsTold {
                side: Side::Dut,
                at,
                host_at: at,
                event: Event::AsyncEvent(pb::AsyncEvent::default()),
            }),
            Entry::Sent(Box::new(Sent {
                exchange: 1,
                label: 1,
                attempt: 0,
                port: 0,
                at: Span::exactly(Time(0)),
                mad,
                dlid: None,
            })),
            Entry::Arrived(Box::new(Arrived {
                exchange: 1,
                how: Match::Answer,
                port: 0,
                at,
                mad: mad.with_method(Method::GET_RESP),
            })),
        ];
        let read = entries.map(|entry| {
            let mut bytes = Vec::new();
            entry.encode(&mut bytes);
            let read = Entry::decode(&bytes).unwrap();
            assert_eq!(read, entry);
            read
        });
        let trace = Trace::new(read.into()).unwrap();
        let line = &trace.timeline;
        let mut findings = Findings::new(&trace);
        findings
            .claim("C9-1", "x")
            .by(&line.frames[0])
            .by(&line.told[0])
            .by(&trace.exchanges[0])
            .saw(1)
            .is(2);
        findings.checks.remove(0).evidence
    }

    #[test]
    fn evidence_names_the_time_source() {
        for (source, words) in [
            (None, ""),
            (Some(TimeSource::Hardware), " (hardware time)"),
            (Some(TimeSource::Kernel), " (kernel time)"),
            (Some(TimeSource::OwnClock), " (own clock)"),
        ] {
            let [frame, told, exchange] = &evidence(source)[..] else {
                panic!("three things");
            };
            assert!(
                frame.starts_with(&format!("frame 1 received at 0.000000009 s{words}: ")),
                "{frame}"
            );
            assert!(told.ends_with(&format!(" at 0.000000009 s{words}")), "{told}");
            assert!(exchange.ends_with(&format!(" after 7 ns..9 ns{words}")), "{exchange}");
        }
    }
}
