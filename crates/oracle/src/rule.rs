//! What a rule is, and what came of asking it.

use core::fmt;

pub(crate) use crate::registry::Rule;

/// What explains a packet that breaks a rule, without anybody having broken it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Excuse {
    /// The capture, or the way before it, has lost requests.
    RequestsLost,
    /// The same, of requests that are newer than all that were seen.
    NewestLost,
    /// The capture, or the way before it, has lost responses.
    ResponsesLost,
    /// What was seen was lost behind the place of the capture, or had not arrived yet.
    NotArrived,
    /// The packet was damaged on its way.
    Damaged,
    /// Packets came in another order, or twice.
    Reordered,
    /// The response belongs to another connection between the same ports.
    OtherPair,
    /// Another connection of the same queue pair number begins here.
    AnotherConnection,
    /// The host changed the memory of a request before it was done, so that its packets came again with other bytes.
    MemoryChanged,
    /// The subnet manager changed the partition, or the path.
    PartitionChanged,
    /// The request had come before, and been counted, when nobody saw it.
    CameBefore,
    /// A request before it, which breaks rules itself, was another one when the responder counted it.
    RequestAltered,
}

impl Excuse {
    /// Whether the record of a test excludes it: nothing is damaged between the device and the peer, all that the peer sends is
    /// recorded before it leaves, and the tester, which has the host do what it does, changes neither memory nor partition.
    /// A link that is `simulated` loses no response, and nothing overtakes anything on it. What was sent may not have arrived yet; and
    /// a stray packet of the peer's, far from what is due, looks like one of a row of requests that were lost.
    pub(super) fn is_excluded_in_record(self, simulated: bool) -> bool {
        match self {
            Self::CameBefore
            | Self::Damaged
            | Self::NewestLost
            | Self::MemoryChanged
            | Self::PartitionChanged
            | Self::RequestAltered => true,
            Self::ResponsesLost | Self::Reordered => simulated,
            Self::RequestsLost | Self::OtherPair | Self::AnotherConnection | Self::NotArrived => false,
        }
    }
}

impl fmt::Display for Excuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RequestsLost => "requests were lost in the capture or before it",
            Self::NewestLost => "newer requests were lost in the capture or before it",
            Self::ResponsesLost => "responses were lost in the capture or before it",
            Self::NotArrived => "a packet was lost behind the place of the capture, or had not arrived yet",
            Self::Damaged => "the packet was damaged on its way",
            Self::Reordered => "the network reordered or repeated packets",
            Self::OtherPair => "the response belongs to another connection between the same ports",
            Self::AnotherConnection => "another connection begins here",
            Self::MemoryChanged => "the host changed the memory of the request",
            Self::PartitionChanged => "the partition was changed, or the path",
            Self::CameBefore => "the request had come before, which was not captured",
            Self::RequestAltered => "a request that breaks a rule was altered before it was captured",
        })
    }
}

/// How a rule is broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Broken {
    pub(super) expected: String,
    pub(super) seen: String,
    /// An earlier packet that shows it too.
    pub(super) with: Option<u64>,
    /// The price at which nobody has broken it.
    pub(super) unless: Option<Excuse>,
}

/// What a rule says of a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// It does not speak of this packet, or what it rests on is not known.
    NotAsked,
    /// It holds.
    Holds,
    /// It does not.
    Broken(Box<Broken>),
}

impl Outcome {
    /// It holds if `is_so`, else `expected` was not `seen`. The words are made only when they are needed.
    pub(super) fn must<E: fmt::Display, S: fmt::Display>(is_so: bool, words: impl FnOnce() -> (E, S)) -> Self {
        if is_so {
            return Self::Holds;
        }
        let (expected, seen) = words();
        Self::Broken(Box::new(Broken {
            expected: expected.to_string(),
            seen: seen.to_string(),
            with: None,
            unless: None,
        }))
    }

    /// The same, excused if that happened.
    pub(super) fn unless(mut self, excuse: Excuse) -> Self {
        if let Self::Broken(broken) = &mut self {
            broken.unless = Some(excuse);
        }
        self
    }

    /// The same, shown by that packet, too.
    pub(super) fn with(mut self, number: u64) -> Self {
        if let Self::Broken(broken) = &mut self {
            broken.with = Some(number);
        }
        self
    }
}

/// A rule that a packet breaks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// Which end of the connection has sent it: 0 or 1.
    pub by: usize,
    /// The packets that show it, in the order of the capture.
    pub packets: Vec<u64>,
    /// What the rule allows.
    pub expected: String,
    /// What was there.
    pub seen: String,
    /// What would excuse it; `None`: nothing does.
    pub unless: Option<Excuse>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: expected {}, seen {}",
            self.rule.name(),
            self.expected,
            self.seen
        )?;
        match self.unless {
            Some(excuse) => write!(f, "; unless {excuse}"),
            None => Ok(()),
        }
    }
}
