//! A run as it is kept.

use serde::{Deserialize, Serialize};
use verbatim_proto::v1::{Cause, Outcome, RunInfo, RunSpec, RunState};
use verbatim_run::RunId;

use super::LeaseId;
use crate::access::Identity;

/// A run without its events, verdicts and report.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StoredRun {
    /// Its id.
    pub id: RunId,
    /// The client's id of the request that created it; empty when it gave none.
    pub request_id: String,
    /// Who created it.
    pub owner: Identity,
    /// What was asked for.
    #[serde(flatten)]
    pub spec: RunSpec,
    /// The lease under which it runs.
    pub lease: LeaseId,
    /// The tests that it takes, in order.
    pub tests: Vec<String>,
    /// Where it stands.
    pub state: RunState,
    /// What it came to.
    pub outcome: Option<Outcome>,
    /// What that is due to.
    pub cause: Option<Cause>,
    /// Why, in a sentence.
    pub reason: String,
    /// Nanoseconds since 1970 when it was created.
    pub created_ns: u64,
    /// When its tests began.
    pub started_ns: Option<u64>,
    /// When it ended.
    pub ended_ns: Option<u64>,
    /// The head of its report; none unless all its tests were run.
    pub info: Option<RunInfo>,
    /// The host whose daemon has it, where several share a database.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// How long it waits for its rig.
    #[serde(default, skip_serializing_if = "Patience::is_endless")]
    pub patience: Patience,
}

/// How long a run waits for its rig.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Patience {
    /// Seconds at the most; none for as long as it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most_s: Option<u64>,
    /// Whether it waits for a client, and leaves the queue when that is gone.
    #[serde(default)]
    pub attended: bool,
}

impl Patience {
    fn is_endless(&self) -> bool {
        *self == Self::default()
    }
}

/// A run, and how long it is kept.
#[derive(Clone, PartialEq, Debug)]
pub struct Kept {
    /// The run.
    pub run: StoredRun,
    /// Whether it, and its files, must stay.
    pub pinned: bool,
    /// Nanoseconds since 1970 when its files were removed, to make room.
    pub purged_ns: Option<u64>,
}
