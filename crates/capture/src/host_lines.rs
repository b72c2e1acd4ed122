//! Renders the exchange between the tester and the hosts of devices as text: commands, their responses, completions and
//! asynchronous events.
//!
//! Each line is an exported PDU (link type 252). Wireshark shows the line between the packets, in the order of time.

use std::collections::BTreeMap;

use verbatim_record::verbs::{command_words, event_words, reply_words};
use verbatim_record::{Evidence, HostEvent, Side, Span, VerbsAnswered, VerbsAsked, VerbsDone, VerbsTold};

/// One line of the timeline.
pub(crate) struct Line {
    pub(crate) side: Side,
    pub(crate) at: Span,
    pub(crate) text: String,
    /// The text with which checks name this event as evidence.
    pub(crate) evidence: String,
}

/// The commands that have no response yet; the key is the command's number.
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
            // A check names a command without a response by this text.
            evidence: Evidence::Command(&done).in_words(),
        };
        self.0.insert(asked.number, done);
        line
    }

    /// Returns the line of the response to a command, or `None` if the record has no such command.
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

/// Returns the line of a completion or of an asynchronous event.
pub(crate) fn event(told: &VerbsTold, place: usize) -> Line {
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

/// Tags of an exported PDU. Source: Wireshark's `epan/exported_pdu.h`.
const TAG_END: u16 = 0;
const TAG_DISSECTOR_NAME: u16 = 12;
const TAG_COLUMN_PROTOCOL: u16 = 33;

/// Encodes a line of text as an exported PDU: big-endian tags, each with its length, then the text.
///
/// The PDU names the syslog dissector: of the text dissectors of Wireshark 4.0, only this one shows the text in the
/// packet list.
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
    fn exported_pdu_has_padded_tags() {
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
