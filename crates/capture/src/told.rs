//! What passed between the tester and the hosts of devices, for a capture: commands, their answers, completions, asynchronous events.
//!
//! Each is a line of text in an exported PDU (link type 252), which Wireshark shows in its place on the timeline.

use std::collections::BTreeMap;

use verbatim_record::verbs::{command_words, event_words, reply_words};
use verbatim_record::{Evidence, HostEvent, Side, Span, VerbsAnswered, VerbsAsked, VerbsDone, VerbsTold};

/// One line of the timeline, and how evidence calls it.
pub(crate) struct Line {
    pub(crate) side: Side,
    pub(crate) at: Span,
    pub(crate) text: String,
    /// The words of a check's evidence that rests on it; empty where it is no evidence yet.
    pub(crate) evidence: String,
}

/// The commands of a record that have no answer yet.
#[derive(Default)]
pub(crate) struct Open(BTreeMap<u32, VerbsDone>);

impl Open {
    pub(crate) fn asked(&mut self, asked: &VerbsAsked, label: &str, place: usize) -> Line {
        let done = VerbsDone {
            number: asked.number,
            label: label.into(),
            side: asked.side,
            asked: asked.at,
            command: asked.command.clone(),
            place,
            answer: None,
        };
        let line = Line {
            side: asked.side,
            at: asked.at,
            text: format!("\"{label}\": {}", command_words(&asked.command)),
            // A command that is never answered is called so.
            evidence: Evidence::Command(&done).in_words(),
        };
        self.0.insert(asked.number, done);
        line
    }

    /// The answer to a command; nothing where the record has no such command.
    pub(crate) fn answered(&mut self, answered: &VerbsAnswered, place: usize) -> Option<Line> {
        let mut done = self.0.remove(&answered.number)?;
        let text = format!("\"{}\" answered: {}", done.label, reply_words(&answered.reply));
        done.answer = Some((answered.at, answered.host_at, answered.reply.clone(), place));
        Some(Line {
            side: done.side,
            at: answered.at,
            text,
            evidence: Evidence::Command(&done).in_words(),
        })
    }
}

/// A completion or an asynchronous event.
pub(crate) fn told(told: &VerbsTold, place: usize) -> Line {
    let VerbsTold {
        side,
        at,
        host_at,
        ref event,
    } = *told;
    let evidence = HostEvent {
        side,
        at,
        host_at,
        event: event.clone(),
        place,
    };
    Line {
        side,
        at,
        text: event_words(event),
        evidence: Evidence::HostEvent(&evidence).in_words(),
    }
}

/// Tags of an exported PDU.
const TAG_END: u16 = 0;
const TAG_DISSECTOR_NAME: u16 = 12;
const TAG_COLUMN_PROTOCOL: u16 = 33;

/// A line of text as an exported PDU: tags, big-endian, each with its length, then the text.
///
/// It is shown as a message of syslog: of what Wireshark 4.0 shows text with, that alone puts it into the list.
pub(crate) fn exported(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len() + 32);
    let mut tag = |tag: u16, value: &[u8]| {
        let room = value.len().next_multiple_of(4);
        bytes.extend(tag.to_be_bytes());
        bytes.extend(u16::try_from(room).unwrap_or_default().to_be_bytes());
        bytes.extend(value);
        bytes.extend(core::iter::repeat_n(0, room - value.len()));
    };
    tag(TAG_DISSECTOR_NAME, b"syslog");
    tag(TAG_COLUMN_PROTOCOL, b"verbs");
    tag(TAG_END, &[]);
    bytes.extend(text.as_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_tags_of_whole_words_and_the_text() {
        let bytes = exported("posted");
        let tags = [
            &[0, 12, 0, 8][..],
            b"syslog\0\0",
            &[0, 33, 0, 8],
            b"verbs\0\0\0",
            &[0, 0, 0, 0],
        ];
        assert_eq!(bytes, [&tags.concat()[..], b"posted"].concat());
    }
}
