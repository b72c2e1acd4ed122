//! A lease as it is kept, and the seam to where.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use verbatim_proto::v1::{LeaseState, Priority};
use verbatim_run::RunId;

use super::{Lab, StoreError};
use crate::access::Identity;

/// Names a lease; made as the id of a run is, and sorts as it does.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeaseId(RunId);

impl LeaseId {
    /// The id of a lease that is made for that run, or that takes a number from the same row.
    #[must_use]
    pub fn like(run: &RunId) -> Self {
        Self(run.clone())
    }

    /// Its time in milliseconds since 1970, and its serial number.
    #[must_use]
    pub fn number(&self) -> (u64, u16) {
        self.0.number()
    }

    /// Such as `019a3c5e77d1-0000`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for LeaseId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|_: String| {
            format!(
                "{text:?} is no lease's id: expected 12 hexadecimal digits, \"-\" and 4 more, such as 019a3c5e77d1-0000"
            )
        })
    }
}

/// A lease as it is kept. Instants are nanoseconds since 1970.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StoredLease {
    /// Its id.
    pub id: LeaseId,
    /// Who asked for it.
    pub owner: Identity,
    /// The client's id of the request that created it; empty when it gave none.
    pub request_id: String,
    /// Where it stands.
    #[serde(with = "number")]
    pub state: LeaseState,
    /// Its class.
    #[serde(with = "number")]
    pub priority: Priority,
    /// Any of these rigs will do.
    pub rigs: Vec<String>,
    /// The rig that it holds or held; empty when it never got one.
    pub rig: String,
    /// What fences it: each grant has a greater one than all before. 0 when it never got a rig.
    pub token: u64,
    /// The run that it was made for, and ends with.
    pub run: Option<RunId>,
    /// Seconds that it lasts from its grant on, unless it is renewed.
    pub lasts_s: u64,
    /// When it was asked for.
    pub created_ns: u64,
    /// When it got its rig.
    pub granted_ns: Option<u64>,
    /// When it expires.
    pub until_ns: Option<u64>,
    /// When it ended.
    pub ended_ns: Option<u64>,
    /// Why it ended, in a sentence.
    pub reason: String,
    /// The host whose daemon has it, where several share a database; empty while it waits for any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// Whether it was asked for at another host than that of its rig, or may be.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub posted: bool,
    /// Whether a client waits for it: it leaves the queue when that is gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub attended: bool,
    /// When it got its rig and when it expires by a clock that nobody sets, for who is started anew on the same host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<BootTimes>,
}

/// Instants in nanoseconds since a host was started.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BootTimes {
    /// Which start that was, as the kernel calls it.
    pub of: String,
    /// When the lease got its rig.
    pub granted_ns: u64,
    /// When it expires.
    pub until_ns: u64,
}

/// An enum of the API as its number.
mod number {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<E: Into<i32> + Copy, S: Serializer>(of: &E, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i32((*of).into())
    }

    pub(super) fn deserialize<'de, E: TryFrom<i32>, D: Deserializer<'de>>(deserializer: D) -> Result<E, D::Error> {
        let number = i32::deserialize(deserializer)?;
        E::try_from(number).map_err(|_| serde::de::Error::custom(format!("{number} is none of its values")))
    }
}

/// Keeps leases. Calls may block on a disk: call from threads that may.
pub trait LeaseStore: Send + Sync + fmt::Debug {
    /// Keeps a lease as it stands now; with which token, which is greater than all before where it just got its rig. That two
    /// leases hold one rig is refused.
    ///
    /// # Errors
    /// [`StoreError::Held`], [`StoreError::Taken`], or when it cannot be written.
    fn put(&self, lease: &StoredLease) -> Result<u64, StoreError>;

    /// The lease of that id.
    ///
    /// # Errors
    /// [`StoreError::NoLease`], or when it cannot be read.
    fn lease(&self, id: &LeaseId) -> Result<StoredLease, StoreError>;

    /// The lease that a user's request created before.
    ///
    /// # Errors
    /// When it cannot be read.
    fn lease_of_request(&self, owner: &Identity, request_id: &str) -> Result<Option<StoredLease>, StoreError>;

    /// Leases, the newest first, at most that many; with `ended` also those that ended.
    ///
    /// # Errors
    /// When they cannot be read.
    fn leases(&self, ended: bool, at_most: usize) -> Result<Vec<StoredLease>, StoreError>;

    /// The leases of this daemon's host that have not ended.
    ///
    /// # Errors
    /// When they cannot be read.
    fn unended(&self) -> Result<Vec<StoredLease>, StoreError> {
        self.leases(false, usize::MAX)
    }

    /// Has a lease of this daemon's host wait again, should it be kept as holding a rig: that it got one may have been written
    /// when the database went away, and nobody heard of it.
    ///
    /// # Errors
    /// When that cannot be written.
    fn take_back(&self, id: &LeaseId) -> Result<(), StoreError>;

    /// Forgets leases of this daemon's host that ended and were asked for before that instant; how many.
    ///
    /// # Errors
    /// When that cannot be written.
    fn forget_ended(&self, before_ns: u64) -> Result<u64, StoreError>;

    /// Nanoseconds since 1970 on the clock by which leases expire.
    fn now_ns(&self) -> u64 {
        verbatim_run::now_ns()
    }

    /// The numbers within a millisecond that are this daemon's to give.
    fn serials(&self) -> RangeInclusive<u16> {
        0..=u16::MAX
    }

    /// Where the daemons of other hosts are met, if any are.
    fn lab(&self) -> Option<&dyn Lab> {
        None
    }

    /// The greatest token that was ever given.
    ///
    /// # Errors
    /// When it cannot be read.
    fn last_token(&self) -> Result<u64, StoreError>;
}
