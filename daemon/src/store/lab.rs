//! Where the daemons of several hosts meet.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use verbatim_run::RunId;

use super::{LeaseId, StoreError, StoredLease, StoredRun};

/// A rig of another host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Elsewhere {
    /// Its name.
    pub rig: String,
    /// The host.
    pub host: String,
    /// Where the daemon of that host is reached; empty when it listens on a socket alone.
    pub address: String,
    /// For how long that daemon has been silent, when it is so long that it counts as away.
    pub silent_ns: Option<u64>,
    /// The rig as that daemon shows it, encoded; empty before it did.
    pub body: Vec<u8>,
}

/// What the daemon of another host is asked to do, on behalf of somebody who may.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Wish {
    /// Take a run that was created for one of its leases.
    Submit(RunId),
    /// Stop a run: which, and who asks.
    Cancel(RunId, String),
    /// End a lease: which, and who asks.
    End(LeaseId, String),
    /// Let a lease last for so many seconds from now on: which, and who asks.
    Renew(LeaseId, u64, String),
}

/// What several daemons tell each other. Calls block.
///
/// # Errors
/// All fail with [`StoreError::Away`] while the database is.
pub trait Lab: Send + Sync + fmt::Debug {
    /// This host.
    fn host(&self) -> &str;

    /// Says that this daemon is there, and reads the common clock.
    fn beat(&self) -> Result<(), StoreError>;

    /// These rigs are this host's; with `only`, no others are. All of them, or none on error.
    ///
    /// # Errors
    /// [`StoreError::RigOfAnother`].
    fn claim(&self, rigs: &[String], only: bool) -> Result<(), StoreError>;

    /// How these rigs of this host stand; those that are gone.
    fn show(&self, rigs: &BTreeMap<String, Vec<u8>>, gone: &[String]) -> Result<(), StoreError>;

    /// The rigs of all other hosts.
    fn elsewhere(&self) -> Result<Vec<Elsewhere>, StoreError>;

    /// Keeps a lease, with the run that it is for, which other hosts may or must take.
    fn post(&self, run: Option<&StoredRun>, lease: &StoredLease) -> Result<(), StoreError>;

    /// Leases that wait and that this host may take, in the order in which they came.
    fn posted(&self) -> Result<Vec<StoredLease>, StoreError>;

    /// Asks another host for something.
    fn wish(&self, host: &str, wish: &Wish) -> Result<(), StoreError>;

    /// What others ask this host for; each is told once.
    fn wishes(&self) -> Result<Vec<Wish>, StoreError>;
}
