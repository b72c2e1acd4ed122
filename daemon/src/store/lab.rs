//! Communication between the daemons of several hosts, through their shared database.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use verbatim_run::RunId;

use super::{LeaseId, StoreError, StoredLease, StoredRun};

/// A rig of another host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Elsewhere {
    /// The rig's name.
    pub rig: String,
    /// The host's name.
    pub host: String,
    /// The network address of the host's daemon; empty when it listens on a unix socket only.
    pub address: String,
    /// Nanoseconds since the last heartbeat of the host's daemon, if more than 10 s have passed; otherwise `None`.
    pub silent_ns: Option<u64>,
    /// The encoded rig state that the host's daemon published last; empty if it has published none.
    pub body: Vec<u8>,
}

/// A request to the daemon of another host. The sender has checked the user's right to make the request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RemoteRequest {
    /// Take over a run that the sender created under a lease of the receiving daemon.
    Submit(RunId),
    /// Cancel a run on behalf of this user.
    Cancel(RunId, String),
    /// End a lease on behalf of this user.
    End(LeaseId, String),
    /// Renew a lease on behalf of this user, so that it expires this many seconds from now.
    Renew(LeaseId, u64, String),
}

/// The operations that connect the daemons of several hosts. Calls block.
///
/// # Errors
/// All calls fail with [`StoreError::Away`] while the database cannot be reached.
pub trait Lab: Send + Sync + fmt::Debug {
    /// Returns the name of this host.
    fn host(&self) -> &str;

    /// Writes a heartbeat of this daemon, and reads the database's clock.
    fn beat(&self) -> Result<(), StoreError>;

    /// Claims these rigs for this host. If `only` is true, also drops the host's claims of all other rigs. On an error,
    /// nothing changes.
    ///
    /// # Errors
    /// [`StoreError::RigOfAnother`].
    fn claim(&self, rigs: &[String], only: bool) -> Result<(), StoreError>;

    /// Publishes the encoded states of these rigs of this host, by name, and removes the rigs in `gone`.
    fn show(&self, rigs: &BTreeMap<String, Vec<u8>>, gone: &[String]) -> Result<(), StoreError>;

    /// Returns the rigs of all other hosts.
    fn elsewhere(&self) -> Result<Vec<Elsewhere>, StoreError>;

    /// Stores a lease that another host may take or must take, with the run that the lease was created for.
    fn post(&self, run: Option<&StoredRun>, lease: &StoredLease) -> Result<(), StoreError>;

    /// Returns the waiting leases that this host may take, oldest first.
    fn posted(&self) -> Result<Vec<StoredLease>, StoreError>;

    /// Sends a request to another host.
    fn remote_request(&self, host: &str, remote_request: &RemoteRequest) -> Result<(), StoreError>;

    /// Returns the requests of other hosts to this host, each request once.
    fn remote_requests(&self) -> Result<Vec<RemoteRequest>, StoreError>;
}
