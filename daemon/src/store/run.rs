//! Stored runs.

use serde::{Deserialize, Serialize};
use verbatim_proto::v1::{Cause, Outcome, Priority, RunInfo, RunSpec, RunState};
use verbatim_run::RunId;

use super::LeaseId;
use crate::access::Identity;

/// A run without its events, verdicts and report.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StoredRun {
    /// The run's id.
    pub id: RunId,
    /// The client's id of the request that created the run; empty when the client gave none.
    pub request_id: String,
    /// The identity that created the run.
    pub owner: Identity,
    /// The client's specification of the run.
    #[serde(flatten)]
    pub spec: RunSpec,
    /// The lease under which the run runs.
    pub lease: LeaseId,
    /// The ids of the run's tests, in order.
    pub tests: Vec<String>,
    /// The state of the run.
    pub state: RunState,
    /// The outcome of the run; `None` before its end.
    pub outcome: Option<Outcome>,
    /// The cause of the outcome.
    pub cause: Option<Cause>,
    /// The reason of the outcome, in a sentence.
    pub reason: String,
    /// When the run was created, in nanoseconds since 1970.
    pub created_ns: u64,
    /// When the run's tests began, in nanoseconds since 1970.
    pub started_ns: Option<u64>,
    /// When the run ended, in nanoseconds since 1970.
    pub ended_ns: Option<u64>,
    /// The head of the run's report; `None` unless the run ended with a verdict for each test.
    pub info: Option<RunInfo>,
    /// The host whose daemon manages the run, where several daemons share a database.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// How long the run may wait for its rig.
    #[serde(default, skip_serializing_if = "Patience::is_endless")]
    pub patience: Patience,
    /// The rest of the client's request.
    #[serde(default)]
    pub asked: AskedRun,
}

/// The fields of a request for a run that the run itself does not have.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AskedRun {
    /// The lease that the client named.
    pub lease: Option<LeaseId>,
    /// The priority class of the run's own lease.
    #[serde(with = "super::lease::number")]
    pub priority: Priority,
    /// Whether the run gets its own lease although the client holds the rig.
    pub own_lease: bool,
}

/// How long a run may wait for its rig.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Patience {
    /// The longest wait in seconds; `None` for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most_s: Option<u64>,
    /// Whether a client waits for the run. If true, the run leaves the queue after the client has disconnected.
    #[serde(default)]
    pub attended: bool,
}

impl Patience {
    fn is_endless(&self) -> bool {
        *self == Self::default()
    }
}

/// A stored run with the state of its files.
#[derive(Clone, PartialEq, Debug)]
pub struct RunEntry {
    /// The run.
    pub run: StoredRun,
    /// Whether the run and its files are protected from deletion.
    pub pinned: bool,
    /// When the run's files were removed to free space, in nanoseconds since 1970.
    pub purged_ns: Option<u64>,
}
