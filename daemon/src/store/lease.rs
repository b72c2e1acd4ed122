//! Stored leases, and the interface of their store.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use verbatim_proto::v1::{LeaseState, Priority};
use verbatim_run::RunId;

use super::{Lab, StoreError};
use crate::access::Identity;

/// The id of a lease. Lease ids have the format and the order of run ids.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeaseId(RunId);

impl LeaseId {
    /// Returns the lease id with the same number as `run`. `run` is the id of the lease's own run, or a new id that
    /// no run uses.
    #[must_use]
    pub fn like(run: &RunId) -> Self {
        Self(run.clone())
    }

    /// Returns the id's time in milliseconds since 1970, and its serial number within the millisecond.
    #[must_use]
    pub fn number(&self) -> (u64, u16) {
        self.0.number()
    }

    /// Returns the id as text, such as `019a3c5e77d1-0000`.
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
                "{text:?} is not the id of a lease: expected 12 hexadecimal digits, \"-\" and 4 more, such as \
                 019a3c5e77d1-0000"
            )
        })
    }
}

/// A lease as the store holds it. Times are nanoseconds since 1970.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StoredLease {
    /// The lease's id.
    pub id: LeaseId,
    /// The identity that requested the lease.
    pub owner: Identity,
    /// The client's id of the request that created the lease; empty when the client gave none.
    pub request_id: String,
    /// The state of the lease.
    #[serde(with = "number")]
    pub state: LeaseState,
    /// The priority class of the lease.
    #[serde(with = "number")]
    pub priority: Priority,
    /// The rigs that the lease accepts; the lease gets one of them.
    pub rigs: Vec<String>,
    /// The rig that the lease holds or held; empty if the lease never got a rig.
    pub rig: String,
    /// The fencing token. Each grant gets a greater token than all earlier grants. 0 when the lease never got a rig.
    pub token: u64,
    /// The run that the lease was created for. The lease ends with this run.
    pub run: Option<RunId>,
    /// The duration in seconds from the grant on, unless the lease is renewed.
    pub lasts_s: u64,
    /// When the lease was requested.
    pub created_ns: u64,
    /// When the lease got its rig.
    pub granted_ns: Option<u64>,
    /// When the lease expires.
    pub until_ns: Option<u64>,
    /// When the lease ended.
    pub ended_ns: Option<u64>,
    /// Why the lease ended, in a sentence.
    pub reason: String,
    /// The host whose daemon manages the lease, where several daemons share a database. Empty while any host may take
    /// the lease.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// Whether the lease was stored with [`Lab::post`], so that another host may take it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub posted: bool,
    /// Whether a client waits for the lease. If true, the lease leaves the queue after the client has
    /// disconnected.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub attended: bool,
    /// The times of the grant and of the expiry on the boot clock. They remain valid when the daemon restarts
    /// without a reboot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<BootTimes>,
    /// The client's choice of rigs; empty for the lease of a run.
    #[serde(default)]
    pub asked: AskedLease,
}

/// A client's choice of rigs for a lease.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AskedLease {
    /// The rig; empty for any rig with the labels.
    pub rig: String,
    /// The labels that the rig must have, sorted.
    pub labels: Vec<String>,
}

/// Times in nanoseconds since the boot of a host.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BootTimes {
    /// The kernel's id of the boot.
    pub of: String,
    /// When the lease got its rig.
    pub granted_ns: u64,
    /// When the lease expires.
    pub until_ns: u64,
}

/// Serializes an enum of the API as its number.
pub(super) mod number {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<E: Into<i32> + Copy, S: Serializer>(of: &E, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i32((*of).into())
    }

    pub(crate) fn deserialize<'de, E: TryFrom<i32>, D: Deserializer<'de>>(deserializer: D) -> Result<E, D::Error> {
        let number = i32::deserialize(deserializer)?;
        E::try_from(number).map_err(|_| serde::de::Error::custom(format!("{number} is not a known value")))
    }
}

/// The interface of a store of leases. Calls may block on a disk, so call from threads that may block.
pub trait LeaseStore: Send + Sync + fmt::Debug {
    /// Stores the current state of a lease, and returns its token. A lease that just got its rig gets a greater
    /// token than all earlier grants. Refuses to store a second lease that holds the same rig.
    ///
    /// # Errors
    /// [`StoreError::Held`], [`StoreError::Taken`], or when the lease cannot be written.
    fn put(&self, lease: &StoredLease) -> Result<u64, StoreError>;

    /// Returns the lease with this id.
    ///
    /// # Errors
    /// [`StoreError::NoLease`], or when the lease cannot be read.
    fn lease(&self, id: &LeaseId) -> Result<StoredLease, StoreError>;

    /// Returns the lease that this request of a user created.
    ///
    /// # Errors
    /// When the lease cannot be read.
    fn lease_of_request(&self, owner: &Identity, request_id: &str) -> Result<Option<StoredLease>, StoreError>;

    /// Returns at most `at_most` leases, newest first. `ended` includes ended leases.
    ///
    /// # Errors
    /// When the leases cannot be read.
    fn leases(&self, ended: bool, at_most: usize) -> Result<Vec<StoredLease>, StoreError>;

    /// Returns the leases of this daemon's host that have not ended.
    ///
    /// # Errors
    /// When the leases cannot be read.
    fn unended(&self) -> Result<Vec<StoredLease>, StoreError> {
        self.leases(false, usize::MAX)
    }

    /// Makes a lease of this host wait again if the stored lease holds a rig. The database may have committed the grant
    /// just before its connection broke, so that the daemon never learned of the grant.
    ///
    /// # Errors
    /// When the lease cannot be written.
    fn take_back(&self, id: &LeaseId) -> Result<(), StoreError>;

    /// Deletes ended leases of this daemon's host that were requested before this time. Returns their number.
    ///
    /// # Errors
    /// When the deletion cannot be written.
    fn forget_ended(&self, before_ns: u64) -> Result<u64, StoreError>;

    /// Returns the nanoseconds since 1970 on the clock by which leases expire.
    fn now_ns(&self) -> u64 {
        verbatim_run::now_ns()
    }

    /// Returns the serial numbers within a millisecond that this daemon may assign.
    fn serials(&self) -> RangeInclusive<u16> {
        0..=u16::MAX
    }

    /// Returns the connection to the daemons of other hosts, if the database is shared.
    fn lab(&self) -> Option<&dyn Lab> {
        None
    }

    /// Returns the greatest token of all grants so far.
    ///
    /// # Errors
    /// When the token cannot be read.
    fn last_token(&self) -> Result<u64, StoreError>;
}
