//! Entries as bytes: `verbatim.record.v1`, with MADs packed.

use core::time::Duration;

use prost::Message;
use verbatim_record_proto as pb;
use verbatim_wire::{Delimiter, Lid, MKey, Mad, RespTime, SubnetTimeout};

use super::verbs::{Frame, RoundTrips, Side, VerbsAnswered, VerbsAsked, VerbsTold, Waited, pb as verbs};
use super::{Arrived, Begin, Entry, Match, Note, Role, Sent, StopReason, Stopped};
use crate::time::{Span, Time};

/// Why bytes are no entry.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EntryError {
    /// Not a message of the schema.
    #[error("not an entry of verbatim.record.v1: {0}")]
    Malformed(String),
    /// A field that every entry of this kind has is absent or holds no known value.
    #[error("entry without a usable {0}: made by a newer version?")]
    Unusable(&'static str),
}

macro_rules! both_ways {
    ($ours:ident = $theirs:ident { $($variant:ident),* }) => {
        impl From<$ours> for pb::$theirs {
            fn from(value: $ours) -> Self {
                match value { $( $ours::$variant => Self::$variant, )* }
            }
        }
        impl TryFrom<i32> for $ours {
            type Error = EntryError;
            fn try_from(number: i32) -> Result<Self, EntryError> {
                match pb::$theirs::try_from(number) {
                    $( Ok(pb::$theirs::$variant) => Ok(Self::$variant), )*
                    _ => Err(EntryError::Unusable(stringify!($theirs))),
                }
            }
        }
    };
}
both_ways!(Role = Role { Test, Runner });
both_ways!(
    Match = Match {
        Answer,
        Wrong,
        Again,
        Late,
        Stray,
        Trap
    }
);
both_ways!(
    StopReason = StopReason {
        Cancelled,
        LeaseEnded,
        RigGone,
        NoAnswer,
        Refused,
        Panicked,
        Tester,
        NotSane,
        NotOffered,
        Skipped
    }
);

both_ways!(Side = Side { Dut, Tester });

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn span_out(span: Span) -> Option<pb::Span> {
    Some(pb::Span {
        earliest_ns: span.earliest.0,
        width_ns: span.latest.0 - span.earliest.0,
    })
}

fn span_in(span: Option<pb::Span>) -> Result<Span, EntryError> {
    let span = span.ok_or(EntryError::Unusable("time span"))?;
    let latest = span
        .earliest_ns
        .checked_add(span.width_ns)
        .ok_or(EntryError::Unusable("time span"))?;
    Ok(Span {
        earliest: Time(span.earliest_ns),
        latest: Time(latest),
    })
}

/// Zeros that end a run: fewer cost less inside a run than the head of the next one.
const GAP: usize = 3;

/// The runs of a MAD that are not 0: most of its 256 bytes are.
fn pack(mad: &Mad) -> Vec<u8> {
    let bytes = mad.bytes();
    let mut packed = Vec::with_capacity(96);
    let mut at = 0;
    while let Some(skip) = bytes[at..].iter().position(|byte| *byte != 0) {
        let first = at + skip;
        let mut end = first + 1;
        while let Some(next) = bytes[end..].iter().take(GAP).position(|byte| *byte != 0) {
            end += next + 1;
        }
        #[allow(clippy::cast_possible_truncation)] // offsets and lengths within 256 bytes
        packed.extend([first as u8, (end - first - 1) as u8]);
        packed.extend_from_slice(&bytes[first..end]);
        at = end;
    }
    packed
}

fn mad_in(packed: &[u8]) -> Result<Mad, EntryError> {
    let mut mad = Mad::default();
    let mut rest = packed;
    while let [first, length, more @ ..] = rest {
        let (first, length) = (usize::from(*first), usize::from(*length) + 1);
        let run = more.get(..length).ok_or(EntryError::Unusable("MAD"))?;
        let place = mad
            .bytes_mut()
            .get_mut(first..first + length)
            .ok_or(EntryError::Unusable("MAD"))?;
        place.copy_from_slice(run);
        rest = &more[length..];
    }
    if rest.is_empty() {
        Ok(mad)
    } else {
        Err(EntryError::Unusable("MAD"))
    }
}

fn code_in(code: u32) -> Result<u8, EntryError> {
    u8::try_from(code).map_err(|_| EntryError::Unusable("time code"))
}

fn lid_in(lid: u32) -> Result<Lid, EntryError> {
    u16::try_from(lid).map(Lid).map_err(|_| EntryError::Unusable("LID"))
}

fn delimiter_in(number: i32) -> Result<Option<Delimiter>, EntryError> {
    Ok(match pb::Delimiter::try_from(number) {
        Ok(pb::Delimiter::Unspecified) => None,
        Ok(pb::Delimiter::Egp) => Some(Delimiter::Egp),
        Ok(pb::Delimiter::Ebp) => Some(Delimiter::Ebp),
        Ok(pb::Delimiter::Other) => Some(Delimiter::Other),
        Err(_) => return Err(EntryError::Unusable("Delimiter")),
    })
}

fn delimiter_out(delimiter: Option<Delimiter>) -> i32 {
    let delimiter = match delimiter {
        None => pb::Delimiter::Unspecified,
        Some(Delimiter::Egp) => pb::Delimiter::Egp,
        Some(Delimiter::Ebp) => pb::Delimiter::Ebp,
        Some(Delimiter::Other) => pb::Delimiter::Other,
    };
    delimiter.into()
}

impl Entry {
    /// Appends the entry's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        pb::Entry {
            kind: Some(self.to_message()),
        }
        .encode(out)
        .expect("a vector takes any number of bytes");
    }

    /// The entry that these bytes are.
    ///
    /// # Errors
    /// When they are none.
    pub fn decode(bytes: &[u8]) -> Result<Self, EntryError> {
        let entry = pb::Entry::decode(bytes).map_err(|error| EntryError::Malformed(error.to_string()))?;
        Self::from_message(entry.kind.ok_or(EntryError::Unusable("kind"))?)
    }

    fn to_message(&self) -> pb::entry::Kind {
        use pb::entry::Kind;
        match self.clone() {
            Self::Begin(begin) => Kind::Begin(pb::Begin {
                test: begin.test,
                revision: begin.revision,
                seed: begin.seed,
                parameters: begin
                    .parameters
                    .into_iter()
                    .map(|(name, value)| pb::Parameter { name, value })
                    .collect(),
                rig_kind: begin.rig_kind,
                rig_key: begin.rig_key.0,
                host_bound_ns: nanos(begin.host_bound),
                simulated: begin.simulated,
                shared_subnet: begin.shared_subnet,
                catalogue: begin.catalogue,
                subnet_timeout: begin.subnet_timeout.map(|code| code.0.into()),
            }),
            Self::Label { number, name, role } => Kind::Label(pb::LabelDefinition {
                number,
                name,
                role: pb::Role::from(role).into(),
            }),
            Self::Sent(sent) => Kind::Sent(pb::Sent {
                exchange: sent.exchange,
                label: sent.label,
                attempt: sent.attempt,
                port: sent.port,
                at: span_out(sent.at),
                mad: pack(&sent.mad),
                dlid: sent.dlid.map(|lid| lid.0.into()),
            }),
            Self::Arrived(arrived) => Kind::Arrived(pb::Arrived {
                exchange: arrived.exchange,
                r#match: pb::Match::from(arrived.how).into(),
                port: arrived.port,
                at: span_out(arrived.at),
                mad: pack(&arrived.mad),
            }),
            Self::Silence {
                exchange,
                at,
                resp_time,
                subnet_timeout,
            } => Kind::Silence(pb::Silence {
                exchange,
                at: span_out(at),
                resp_time_value: resp_time.0.into(),
                subnet_timeout: subnet_timeout.0.into(),
            }),
            Self::Returned { exchange, at, errno } => Kind::Returned(pb::Returned {
                exchange,
                at: span_out(at),
                errno,
            }),
            Self::Note(note) => Kind::Note(pb::Note {
                at: span_out(note.at),
                text: note.text,
            }),
            Self::Journal { area, change } => Kind::Journal(pb::JournalChange { area, change }),
            Self::Stopped(stopped) => Kind::Stopped(pb::Stopped {
                reason: pb::StopReason::from(stopped.reason).into(),
                text: stopped.text,
            }),
            Self::Restored(restored) => Kind::Restored(restored),
            Self::Frame(frame) => Kind::Frame(pb::Frame {
                number: frame.number,
                label: frame.label,
                port: frame.port,
                received: frame.received,
                at: span_out(frame.at),
                bytes: frame.bytes,
                delimiter: delimiter_out(frame.delimiter),
            }),
            Self::VerbsAsked(asked) => Kind::VerbsAsked(pb::VerbsAsked {
                number: asked.number,
                label: asked.label,
                side: pb::Side::from(asked.side).into(),
                at: span_out(asked.at),
                command: Some(verbs::Command {
                    kind: Some(asked.command),
                }),
            }),
            Self::VerbsAnswered(answered) => Kind::VerbsAnswered(pb::VerbsAnswered {
                number: answered.number,
                at: span_out(answered.at),
                host_at: span_out(answered.host_at),
                reply: Some(verbs::Reply {
                    kind: Some(answered.reply),
                }),
            }),
            Self::VerbsTold(told) => Kind::VerbsTold(pb::VerbsTold {
                side: pb::Side::from(told.side).into(),
                at: span_out(told.at),
                host_at: span_out(told.host_at),
                event: Some(verbs::Event { kind: Some(told.event) }),
            }),
            Self::Waited(waited) => Kind::Waited(pb::Waited {
                label: waited.label,
                since_ns: waited.since.0,
                until_ns: waited.until.0,
            }),
            Self::RoundTrips(trips) => Kind::RoundTrips(pb::RoundTrips {
                answered: trips.answered,
                lost: trips.lost,
                shortest_ns: nanos(trips.shortest),
                longest_ns: nanos(trips.longest),
                of: trips.of,
            }),
            Self::End { entries, at } => Kind::End(pb::End {
                entries,
                at: span_out(at),
            }),
        }
    }

    fn from_message(kind: pb::entry::Kind) -> Result<Self, EntryError> {
        use pb::entry::Kind;
        Ok(match kind {
            Kind::Begin(begin) => Self::Begin(Box::new(Begin {
                test: begin.test,
                revision: begin.revision,
                seed: begin.seed,
                parameters: begin.parameters.into_iter().map(|p| (p.name, p.value)).collect(),
                rig_kind: begin.rig_kind,
                rig_key: MKey(begin.rig_key),
                host_bound: Duration::from_nanos(begin.host_bound_ns),
                simulated: begin.simulated,
                shared_subnet: begin.shared_subnet,
                catalogue: begin.catalogue,
                subnet_timeout: begin.subnet_timeout.map(code_in).transpose()?.map(SubnetTimeout),
            })),
            Kind::Label(label) => Self::Label {
                number: label.number,
                name: label.name,
                role: label.role.try_into()?,
            },
            Kind::Sent(sent) => Self::Sent(Box::new(Sent {
                exchange: sent.exchange,
                label: sent.label,
                attempt: sent.attempt,
                port: sent.port,
                at: span_in(sent.at)?,
                mad: mad_in(&sent.mad)?,
                dlid: sent.dlid.map(lid_in).transpose()?,
            })),
            Kind::Arrived(arrived) => Self::Arrived(Box::new(Arrived {
                exchange: arrived.exchange,
                how: arrived.r#match.try_into()?,
                port: arrived.port,
                at: span_in(arrived.at)?,
                mad: mad_in(&arrived.mad)?,
            })),
            Kind::Silence(silence) => Self::Silence {
                exchange: silence.exchange,
                at: span_in(silence.at)?,
                resp_time: RespTime(code_in(silence.resp_time_value)?),
                subnet_timeout: SubnetTimeout(code_in(silence.subnet_timeout)?),
            },
            Kind::Returned(returned) => Self::Returned {
                exchange: returned.exchange,
                at: span_in(returned.at)?,
                errno: returned.errno,
            },
            Kind::Note(note) => Self::Note(Note {
                at: span_in(note.at)?,
                text: note.text,
            }),
            Kind::Journal(change) => Self::Journal {
                area: change.area,
                change: change.change,
            },
            Kind::Stopped(stopped) => Self::Stopped(Stopped {
                reason: stopped.reason.try_into()?,
                text: stopped.text,
            }),
            Kind::Restored(restored) => Self::Restored(restored),
            Kind::Frame(frame) => Self::Frame(Frame {
                number: frame.number,
                label: frame.label,
                port: frame.port,
                received: frame.received,
                at: span_in(frame.at)?,
                bytes: frame.bytes,
                delimiter: delimiter_in(frame.delimiter)?,
            }),
            Kind::VerbsAsked(asked) => Self::VerbsAsked(Box::new(VerbsAsked {
                number: asked.number,
                label: asked.label,
                side: asked.side.try_into()?,
                at: span_in(asked.at)?,
                command: asked
                    .command
                    .and_then(|command| command.kind)
                    .ok_or(EntryError::Unusable("verbs command"))?,
            })),
            Kind::VerbsAnswered(answered) => Self::VerbsAnswered(Box::new(VerbsAnswered {
                number: answered.number,
                at: span_in(answered.at)?,
                host_at: span_in(answered.host_at)?,
                reply: answered
                    .reply
                    .and_then(|reply| reply.kind)
                    .ok_or(EntryError::Unusable("verbs reply"))?,
            })),
            Kind::VerbsTold(told) => Self::VerbsTold(VerbsTold {
                side: told.side.try_into()?,
                at: span_in(told.at)?,
                host_at: span_in(told.host_at)?,
                event: told
                    .event
                    .and_then(|event| event.kind)
                    .ok_or(EntryError::Unusable("verbs event"))?,
            }),
            Kind::Waited(waited) => Self::Waited(Waited {
                label: waited.label,
                since: Time(waited.since_ns),
                until: Time(waited.until_ns),
            }),
            Kind::RoundTrips(trips) => Self::RoundTrips(RoundTrips {
                answered: trips.answered,
                lost: trips.lost,
                shortest: Duration::from_nanos(trips.shortest_ns),
                longest: Duration::from_nanos(trips.longest_ns),
                of: trips.of,
            }),
            Kind::End(end) => Self::End {
                entries: end.entries,
                at: span_in(end.at)?,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_packed_mad_is_the_same_mad(sparse in proptest::collection::vec((0usize..256, any::<u8>()), 0..300)) {
            let mut mad = Mad::default();
            for (place, byte) in sparse {
                mad.bytes_mut()[place] = byte;
            }
            prop_assert_eq!(mad_in(&pack(&mad)), Ok(mad));
        }

        #[test]
        fn any_bytes_are_a_packed_mad_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = mad_in(&bytes);
        }
    }

    #[test]
    fn an_empty_and_a_full_mad_pack_too() {
        for mad in [Mad::default(), Mad::from([7; 256])] {
            assert_eq!(mad_in(&pack(&mad)), Ok(mad));
        }
        assert_eq!(mad_in(&[250, 9, 1, 2, 3]), Err(EntryError::Unusable("MAD")));
    }

    #[test]
    fn what_ended_a_packet_and_the_lid_of_a_mad_are_kept_and_a_frame_has_no_delimiter() {
        let at = Span::exactly(Time(7));
        for delimiter in [None, Some(Delimiter::Egp), Some(Delimiter::Ebp), Some(Delimiter::Other)] {
            let frame = Entry::Frame(Frame {
                number: 1,
                label: 0,
                port: 0,
                received: true,
                at,
                bytes: vec![1, 2].into(),
                delimiter,
            });
            let mut bytes = Vec::new();
            frame.encode(&mut bytes);
            assert_eq!(Entry::decode(&bytes), Ok(frame));
        }
        for dlid in [None, Some(Lid(0)), Some(Lid(0xBFFF))] {
            let sent = Entry::Sent(Box::new(Sent {
                exchange: 1,
                label: 1,
                attempt: 0,
                port: 0,
                at,
                mad: Mad::default(),
                dlid,
            }));
            let mut bytes = Vec::new();
            sent.encode(&mut bytes);
            assert_eq!(Entry::decode(&bytes), Ok(sent));
        }
        assert_eq!(delimiter_in(4), Err(EntryError::Unusable("Delimiter")));
        assert_eq!(lid_in(0x1_0000), Err(EntryError::Unusable("LID")));
    }
}
