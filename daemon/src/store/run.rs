//! A run as it is kept.

use core::fmt;
use std::collections::BTreeMap;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use verbatim_record::{Cause, Outcome};

/// Names a run: time of its creation and a serial number, so that ids in order of text are in order of creation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(String);

impl RunId {
    /// The id of a run created at that time, in nanoseconds since 1970.
    #[must_use]
    pub fn new(created_ns: u64, serial: u16) -> Self {
        Self(format!("{:012x}-{serial:04x}", created_ns / 1_000_000))
    }

    /// Such as `019a3c5e77d1-0000`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for RunId {
    type Err = String;

    /// Takes what [`RunId::new`] makes and nothing else: files are called after it.
    fn from_str(text: &str) -> Result<Self, String> {
        let hex = |part: &str, digits: usize| {
            part.len() == digits && part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        };
        match text.split_once('-') {
            Some((time, serial)) if hex(time, 12) && hex(serial, 4) => Ok(Self(text.into())),
            _ => Err(format!(
                "{text:?} is no run's id: expected 12 hexadecimal digits, \"-\" and 4 more, such as 019a3c5e77d1-0000"
            )),
        }
    }
}

impl TryFrom<String> for RunId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> Self {
        id.0
    }
}

/// Where a run stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RunState {
    /// It waits for its rig.
    Queued,
    /// Its tests run.
    Running,
    /// It is over.
    Ended,
}

/// A run without its events, verdicts and report.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StoredRun {
    /// [`StoredRun::SCHEMA`].
    pub schema: String,
    /// Its id.
    pub id: RunId,
    /// The client's id of the request that created it; empty when it gave none.
    pub request_id: String,
    /// The user who created it.
    pub uid: u32,
    /// The rig's name.
    pub rig: String,
    /// What was asked for.
    pub patterns: Vec<String>,
    /// Parameters of tests.
    pub parameters: BTreeMap<String, u64>,
    /// Seed of all random choices.
    pub seed: u64,
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
}

impl StoredRun {
    /// Version of this form.
    pub const SCHEMA: &'static str = "verbatim.run.v1";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_time_and_nothing_else_is_an_id() {
        let early = RunId::new(1_763_654_400_000_000_000, 3);
        let late = RunId::new(1_763_654_400_001_000_000, 0);
        assert!(early < late);
        assert_eq!(early.as_str().parse(), Ok(early.clone()));
        for wrong in [
            "",
            "..",
            "a",
            "019a3c5e77d1-000",
            "019a3c5e77d1/0000",
            "019A3c5e77d1-0000",
            "019a3c5e77d1-00000",
        ] {
            assert!(wrong.parse::<RunId>().is_err(), "{wrong}");
        }
    }
}
