//! Outcomes and findings of a rule.

use core::fmt;

pub(crate) use crate::registry::Rule;

/// Event that would explain a broken rule without a fault of either end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Excuse {
    /// The capture lacks requests: they were lost before the capture point, or the capture missed them.
    RequestsLost,
    /// The capture lacks requests that are newer than all captured requests.
    NewestLost,
    /// The capture lacks responses: they were lost before the capture point, or the capture missed them.
    ResponsesLost,
    /// A captured packet was lost after the capture point, or had not yet reached the other end.
    NotArrived,
    /// The packet was damaged on its way.
    Damaged,
    /// The network reordered or repeated packets.
    Reordered,
    /// The response belongs to another connection between the same ports.
    OtherPair,
    /// Another connection with the same queue pair number begins with the packet.
    AnotherConnection,
    /// The host changed the memory of a request before its completion, so that the retransmission carries other
    /// bytes.
    MemoryChanged,
    /// The subnet manager changed the partition or the path.
    PartitionChanged,
    /// The responder had already counted the request in its MSN, because of an earlier transmission that was not
    /// captured.
    CameBefore,
    /// An earlier request was altered before it was captured. It is invalid as captured; its original is unknown.
    RequestAltered,
}

impl Excuse {
    /// Returns whether the record of a test rules this excuse out.
    ///
    /// In a test, no packet is damaged between the device and the peer. Every packet of the peer is recorded before
    /// it leaves. The tester controls the host, and changes neither memory nor partition. A `simulated` link loses
    /// no response and keeps the order. All other excuses stay possible, for example:
    ///
    /// - `NotArrived`: a packet may not have arrived yet.
    /// - `RequestsLost`: the peer may send a packet with a PSN far from the expected PSN. Such a packet looks as if
    ///   many requests before it had been lost.
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
            Self::NotArrived => "a packet was lost after the capture point, or had not arrived yet",
            Self::Damaged => "the packet was damaged on its way",
            Self::Reordered => "the network reordered or repeated packets",
            Self::OtherPair => "the response belongs to another connection between the same ports",
            Self::AnotherConnection => "another connection begins here",
            Self::MemoryChanged => "the host changed the memory of the request",
            Self::PartitionChanged => "the subnet manager changed the partition or the path",
            Self::CameBefore => "the responder received an earlier transmission that was not captured",
            Self::RequestAltered => "an earlier request was altered before it was captured",
        })
    }
}

/// Violation of a rule by a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Broken {
    pub(super) expected: String,
    pub(super) seen: String,
    /// Number of an earlier packet that also shows the violation.
    pub(super) with: Option<u64>,
    /// Excuse under which neither end broke the rule.
    pub(super) unless: Option<Excuse>,
}

/// Outcome of a rule for one packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// The rule does not apply to the packet, or a fact that the rule needs is unknown.
    NotAsked,
    /// The packet obeys the rule.
    Holds,
    /// The packet breaks the rule.
    Broken(Box<Broken>),
}

impl Outcome {
    /// Returns `Holds` if `is_so`, else `Broken`. `words` returns the expected and the seen value, and is called
    /// only for `Broken`.
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

    /// Adds an excuse to a violation.
    pub(super) fn unless(mut self, excuse: Excuse) -> Self {
        if let Self::Broken(broken) = &mut self {
            broken.unless = Some(excuse);
        }
        self
    }

    /// Adds an earlier packet to the evidence of a violation.
    pub(super) fn with(mut self, number: u64) -> Self {
        if let Self::Broken(broken) = &mut self {
            broken.with = Some(number);
        }
        self
    }
}

/// Violation of a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// End of the connection that sent the packet: 0 or 1.
    pub by: usize,
    /// Numbers of the packets that show the violation, in the order of the capture.
    pub packets: Vec<u64>,
    /// Behaviour that the rule allows.
    pub expected: String,
    /// Behaviour that was seen.
    pub seen: String,
    /// Excuse for the violation; `None` if there is no excuse.
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
