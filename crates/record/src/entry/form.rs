//! Encodes entries in the schema `verbatim.record.v1`, with compact MADs.

use core::time::Duration;

use prost::Message;
use prost::bytes::Bytes;
use verbatim_record_proto as pb;
use verbatim_wire::{Delimiter, Lid, MKey, Mad, RespTime, SubnetTimeout};

use super::verbs::{self, Frame, KernelReport, RoundTrips, Side, VerbsAnswered, VerbsAsked, VerbsTold, Waited};
use super::{Arrived, Begin, Entry, Match, Note, Reset, Role, Sent, StopReason, Stopped};
use crate::time::{Span, Time, TimeSource};

/// The reason why bytes are not an entry.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EntryError {
    /// The bytes are not a message of the schema.
    #[error("not an entry of verbatim.record.v1: {0}")]
    Malformed(String),
    /// A mandatory field is absent or has an unknown value.
    #[error("entry without a usable {0}: made by a newer version?")]
    Unusable(&'static str),
}

/// A type with an encoding in message type `M`.
trait Form<M>: Sized {
    fn form(self) -> M;
    fn taken(form: M) -> Result<Self, EntryError>;
}

macro_rules! as_it_is {
    ($($kind:ty),*) => { $(
        impl Form<$kind> for $kind {
            fn form(self) -> $kind {
                self
            }
            fn taken(form: $kind) -> Result<Self, EntryError> {
                Ok(form)
            }
        }
    )* };
}
as_it_is!(bool, i32, u32, u64, String, Vec<String>, Bytes, pb::Restored);

macro_rules! numbers {
    ($($name:ident: $form:ty, $what:literal;)*) => { $(
        impl Form<$form> for $name {
            fn form(self) -> $form {
                self.0.into()
            }
            fn taken(form: $form) -> Result<Self, EntryError> {
                form.try_into().map($name).map_err(|_| EntryError::Unusable($what))
            }
        }
    )* };
}
numbers! {
    Lid: u32, "LID";
    MKey: u64, "M_Key";
    RespTime: u32, "time code";
    SubnetTimeout: u32, "time code";
    Time: u64, "time";
}

macro_rules! enumerations {
    ($($name:ident { $($variant:ident)* })*) => { $(
        impl Form<i32> for $name {
            fn form(self) -> i32 {
                match self { $( Self::$variant => pb::$name::$variant.into(), )* }
            }
            fn taken(form: i32) -> Result<Self, EntryError> {
                match pb::$name::try_from(form) {
                    $( Ok(pb::$name::$variant) => Ok(Self::$variant), )*
                    _ => Err(EntryError::Unusable(stringify!($name))),
                }
            }
        }
    )* };
}
enumerations! {
    Role { Test Runner }
    Match { Answer Wrong Again Late Stray Trap }
    StopReason { Cancelled LeaseEnded RigGone NoAnswer Refused Panicked Tester NotSane NotOffered Skipped NotWanted Disturbed Stalled }
    Side { Dut Tester }
}

macro_rules! verbs_messages {
    ($($name:ident, $what:literal;)*) => { $(
        impl Form<Option<verbs::pb::$name>> for verbs::$name {
            fn form(self) -> Option<verbs::pb::$name> {
                Some(verbs::pb::$name { kind: Some(self) })
            }
            fn taken(form: Option<verbs::pb::$name>) -> Result<Self, EntryError> {
                form.and_then(|form| form.kind).ok_or(EntryError::Unusable($what))
            }
        }
    )* };
}
verbs_messages! {
    Command, "verbs command";
    Reply, "verbs reply";
    Event, "verbs event";
}

impl<T: Form<u32>> Form<Option<u32>> for Option<T> {
    fn form(self) -> Option<u32> {
        self.map(Form::form)
    }
    fn taken(form: Option<u32>) -> Result<Self, EntryError> {
        form.map(Form::taken).transpose()
    }
}

impl<T: Form<M>, M> Form<M> for Box<T> {
    fn form(self) -> M {
        (*self).form()
    }
    fn taken(form: M) -> Result<Self, EntryError> {
        T::taken(form).map(Self::new)
    }
}

/// Implements [`Form`] for optional enumerations; `None` is encoded as `Unspecified`.
macro_rules! enumerations_or_none {
    ($($name:ident { $($variant:ident)* })*) => { $(
        impl Form<i32> for Option<$name> {
            fn form(self) -> i32 {
                match self {
                    None => 0,
                    $( Some($name::$variant) => pb::$name::$variant.into(), )*
                }
            }
            fn taken(form: i32) -> Result<Self, EntryError> {
                match pb::$name::try_from(form) {
                    Ok(pb::$name::Unspecified) => Ok(None),
                    $( Ok(pb::$name::$variant) => Ok(Some($name::$variant)), )*
                    Err(_) => Err(EntryError::Unusable(stringify!($name))),
                }
            }
        }
    )* };
}
enumerations_or_none! {
    Delimiter { Egp Ebp Other }
    TimeSource { Hardware Kernel OwnClock }
}

impl Form<u64> for Duration {
    fn form(self) -> u64 {
        u64::try_from(self.as_nanos()).unwrap_or(u64::MAX)
    }
    fn taken(form: u64) -> Result<Self, EntryError> {
        Ok(Self::from_nanos(form))
    }
}

impl Form<Option<pb::Span>> for Span {
    fn form(self) -> Option<pb::Span> {
        Some(pb::Span {
            earliest_ns: self.earliest.0,
            width_ns: self.latest.0 - self.earliest.0,
            source: self.source.form(),
        })
    }
    fn taken(form: Option<pb::Span>) -> Result<Self, EntryError> {
        let latest = |span: &pb::Span| span.earliest_ns.checked_add(span.width_ns);
        let (span, latest) = form
            .and_then(|span| Some((span, latest(&span)?)))
            .ok_or(EntryError::Unusable("time span"))?;
        Ok(Self {
            earliest: Time(span.earliest_ns),
            latest: Time(latest),
            source: Form::taken(span.source)?,
        })
    }
}

impl Form<Vec<pb::Parameter>> for Vec<(String, u64)> {
    fn form(self) -> Vec<pb::Parameter> {
        let parameter = |(name, value)| pb::Parameter { name, value };
        self.into_iter().map(parameter).collect()
    }
    fn taken(form: Vec<pb::Parameter>) -> Result<Self, EntryError> {
        Ok(form.into_iter().map(|p| (p.name, p.value)).collect())
    }
}

/// The number of zero bytes that end a run of non-zero bytes. Fewer zeros cost less inside the run than the header of
/// another run.
const GAP: usize = 3;

/// Encodes the non-zero runs of a MAD, each with its offset and length. Most of a MAD's 256 bytes are 0.
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

fn unpack(packed: &[u8]) -> Result<Mad, EntryError> {
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

impl Form<Vec<u8>> for Mad {
    fn form(self) -> Vec<u8> {
        pack(&self)
    }
    fn taken(form: Vec<u8>) -> Result<Self, EntryError> {
        unpack(&form)
    }
}

/// Implements [`Form`] for structs whose fields match a message's. Fields with different names follow the `;`.
macro_rules! messages {
    ($($name:ident { $($same:ident)* $(; $($mine:ident = $theirs:ident)*)? })*) => { $(
        impl Form<pb::$name> for $name {
            fn form(self) -> pb::$name {
                pb::$name {
                    $( $same: self.$same.form(), )*
                    $( $( $theirs: self.$mine.form(), )* )?
                }
            }
            fn taken(form: pb::$name) -> Result<Self, EntryError> {
                Ok(Self {
                    $( $same: Form::taken(form.$same)?, )*
                    $( $( $mine: Form::taken(form.$theirs)?, )* )?
                })
            }
        }
    )* };
}
messages! {
    Begin {
        test revision seed parameters rig_kind rig_key simulated shared_subnet catalogue subnet_timeout
        time_scale time_scale_least;
        host_bound = host_bound_ns
    }
    Reset { silent command ended succeeded output after; took = took_ns }
    Sent { exchange label attempt port at mad dlid }
    Arrived { exchange port at mad; how = r#match }
    Note { at text }
    Stopped { reason text }
    Frame { number label port received at bytes delimiter }
    KernelReport { side text }
    VerbsAsked { number label side at command }
    VerbsAnswered { number at host_at reply }
    VerbsTold { side at host_at event }
    Waited { label; since = since_ns until = until_ns }
    RoundTrips { answered lost of; shortest = shortest_ns longest = longest_ns }
}

/// Implements [`Form`] for `Entry`. The variants before the `;` hold a struct; the variants after it have named fields.
macro_rules! kinds {
    (
        $($whole:ident)*;
        $($kind:ident = $message:ident { $($same:ident)* $(; $mine:ident = $theirs:ident)? })*
    ) => {
        impl Form<pb::entry::Kind> for Entry {
            fn form(self) -> pb::entry::Kind {
                match self {
                    $( Self::$whole(of) => pb::entry::Kind::$whole(of.form()), )*
                    $( Self::$kind { $($same,)* $($mine)? } => pb::entry::Kind::$kind(pb::$message {
                        $( $same: $same.form(), )*
                        $( $theirs: $mine.form(), )?
                    }), )*
                }
            }
            fn taken(form: pb::entry::Kind) -> Result<Self, EntryError> {
                Ok(match form {
                    $( pb::entry::Kind::$whole(of) => Self::$whole(Form::taken(of)?), )*
                    $( pb::entry::Kind::$kind(of) => Self::$kind {
                        $( $same: Form::taken(of.$same)?, )*
                        $( $mine: Form::taken(of.$theirs)?, )?
                    }, )*
                })
            }
        }
    };
}
kinds! {
    Begin Sent Arrived Note Stopped Restored Frame VerbsAsked VerbsAnswered VerbsTold Waited RoundTrips Reset KernelReport;
    Label = LabelDefinition { number name role }
    Silence = Silence { exchange at subnet_timeout; resp_time = resp_time_value }
    Returned = Returned { exchange at errno }
    Journal = JournalChange { area change }
    End = End { entries at }
}

impl Entry {
    /// Appends the encoded entry to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let kind = Some(self.clone().form());
        pb::Entry { kind }
            .encode(out)
            .expect("a vector takes any number of bytes");
    }

    /// Decodes an entry.
    ///
    /// # Errors
    /// Returns an error when the bytes are not an entry.
    pub fn decode(bytes: &[u8]) -> Result<Self, EntryError> {
        Self::of(bytes)
    }

    /// Decodes an entry. A frame's bytes share the buffer.
    pub(crate) fn decode_shared(bytes: Bytes) -> Result<Self, EntryError> {
        Self::of(bytes)
    }

    fn of(bytes: impl prost::bytes::Buf) -> Result<Self, EntryError> {
        let entry = pb::Entry::decode(bytes).map_err(|error| EntryError::Malformed(error.to_string()))?;
        Self::taken(entry.kind.ok_or(EntryError::Unusable("kind"))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_mad_unpacks_to_itself(sparse in proptest::collection::vec((0usize..256, any::<u8>()), 0..300)) {
            let mut mad = Mad::default();
            for (place, byte) in sparse {
                mad.bytes_mut()[place] = byte;
            }
            prop_assert_eq!(unpack(&pack(&mad)), Ok(mad));
        }

        #[test]
        fn any_bytes_unpack_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = unpack(&bytes);
        }
    }

    #[test]
    fn zero_and_full_mads_unpack() {
        for mad in [Mad::default(), Mad::from([7; 256])] {
            assert_eq!(unpack(&pack(&mad)), Ok(mad));
        }
        assert_eq!(unpack(&[250, 9, 1, 2, 3]), Err(EntryError::Unusable("MAD")));
    }

    #[test]
    fn optional_fields_decode_to_the_same_value() {
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
        assert_eq!(Option::<Delimiter>::taken(4), Err(EntryError::Unusable("Delimiter")));
        assert_eq!(Option::<TimeSource>::taken(4), Err(EntryError::Unusable("TimeSource")));
        assert_eq!(Lid::taken(0x1_0000), Err(EntryError::Unusable("LID")));
    }
}
