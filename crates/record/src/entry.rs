//! Entries of a record, and their form on disk.

use core::time::Duration;

use prost::Message;
use verbatim_record_proto as pb;
use verbatim_wire::{MKey, Mad, RespTime, SubnetTimeout};

use crate::time::{Span, Time};

/// Where a procedure's entries go.
pub trait Sink {
    /// Takes an entry.
    fn put(&mut self, entry: &Entry);
    /// Makes sure that what was put survives the end of this process. An error is kept and shows when the record is closed.
    fn flush(&mut self);
    /// The first error that the sink met: a full disk, say. The runner stops the test on it.
    fn error(&self) -> Option<String> {
        None
    }
}

/// Keeps entries in memory.
impl Sink for Vec<Entry> {
    fn put(&mut self, entry: &Entry) {
        self.push(entry.clone());
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
    /// The run ended before this test; nothing was sent.
    Skipped,
}

/// The procedure ended before its end.
#[derive(Clone, PartialEq, Debug)]
pub struct Stopped {
    /// Why.
    pub reason: StopReason,
    /// The label, message or error.
    pub text: String,
}

/// What restoring an area came to.
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Restored {
    /// The area.
    pub area: String,
    /// Fields that could not be restored, each with the value found and the value left.
    pub left: Vec<String>,
    /// Fields that cannot be restored and did change.
    pub not_restorable: Vec<String>,
    /// Why the area could not be read or written at all; empty when it could.
    pub failure: String,
}

impl Restored {
    /// Whether all that can be restored is as it was found.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.left.is_empty() && self.failure.is_empty()
    }
}

/// One thing that happened.
#[derive(Clone, PartialEq, Debug)]
pub enum Entry {
    /// What was asked for.
    Begin(Begin),
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
    Sent(Sent),
    /// A MAD came in.
    Arrived(Arrived),
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
    /// The record is whole.
    End {
        /// Number of entries before this one.
        entries: u64,
        /// When.
        at: Span,
    },
}

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
                host_bound_ns: u64::try_from(begin.host_bound.as_nanos()).unwrap_or(u64::MAX),
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
            Self::Restored(restored) => Kind::Restored(pb::Restored {
                area: restored.area,
                left: restored.left,
                not_restorable: restored.not_restorable,
                failure: restored.failure,
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
            Kind::Begin(begin) => Self::Begin(Begin {
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
            }),
            Kind::Label(label) => Self::Label {
                number: label.number,
                name: label.name,
                role: label.role.try_into()?,
            },
            Kind::Sent(sent) => Self::Sent(Sent {
                exchange: sent.exchange,
                label: sent.label,
                attempt: sent.attempt,
                port: sent.port,
                at: span_in(sent.at)?,
                mad: mad_in(&sent.mad)?,
            }),
            Kind::Arrived(arrived) => Self::Arrived(Arrived {
                exchange: arrived.exchange,
                how: arrived.r#match.try_into()?,
                port: arrived.port,
                at: span_in(arrived.at)?,
                mad: mad_in(&arrived.mad)?,
            }),
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
            Kind::Restored(restored) => Self::Restored(Restored {
                area: restored.area,
                left: restored.left,
                not_restorable: restored.not_restorable,
                failure: restored.failure,
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
}
