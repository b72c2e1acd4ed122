//! Whether an agent keeps to `verbatim.agent.v1`, for whoever writes one: what `verbatim doctor --agent` runs.
//!
//! | module | what is looked at |
//! |---|---|
//! | `talk` | one session: a command, its answer, what came before it |
//! | `answers` | sign of life, order and numbers of answers, unknown commands, the clock |
//! | `opened` | what the device is said to be |
//! | `memory` | handles, bytes, bounds |
//! | `queue_pairs` | making, modifying and querying queue pairs |
//! | `posts` | requests: who flushes, what RESET and destroying forget |
//! | `sessions` | seats, the end of a session, pings |
//!
//! It judges the agent and not its device: no queue pair ever sends, so no packet leaves the host. Queue pairs name the
//! device's own GID as their other side, and send requests are posted in ERR alone.

mod answers;
mod memory;
mod opened;
mod posts;
mod queue_pairs;
mod sessions;
mod talk;

use core::fmt;
use core::time::Duration;

use crate::link::{AgentAddress, AgentClient, Reached};
use talk::Talk;

/// How long an agent may take to let us in, and for one answer: a tester gives it no more.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long events are waited for that may come at any time: those of a device are done in less.
const EVENT_WAIT: Duration = Duration::from_secs(5);
/// How long it is waited for events that must not come.
const QUIET: Duration = Duration::from_millis(50);

/// What came of one check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// As the protocol says.
    Pass,
    /// Not as the protocol says.
    Fail,
    /// Nothing that the protocol forbids, and worth knowing.
    Note,
    /// Not looked at, or the device has it not.
    Skip,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pass => "PASS",
            Self::Fail => "FAIL",
            Self::Note => "NOTE",
            Self::Skip => "SKIP",
        })
    }
}

/// One check, and what it found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What was looked at.
    pub what: &'static str,
    /// What came of it.
    pub outcome: Outcome,
    /// What was seen; unless it passed, also what was expected and what to do.
    pub words: String,
}

/// Why a check did not pass.
#[derive(Debug)]
enum Not {
    Wrong(String),
    Worth(String),
    Has(String),
}

fn wrong<T>(words: impl Into<String>) -> Result<T, Not> {
    Err(Not::Wrong(words.into()))
}

/// What a check found; words for what passed.
type Checked = Result<String, Not>;
type Check = (&'static str, fn(&mut Talk) -> Checked);

/// Checks in a session, in order. A session that breaks is followed by another one.
const CHECKS: &[&[Check]] = &[
    opened::CHECKS,
    answers::CHECKS,
    memory::CHECKS,
    queue_pairs::CHECKS,
    posts::CHECKS,
];

/// Looks at an agent, and tells what it finds check by check; `slow`: also at what takes half a minute.
pub fn check(address: &AgentAddress, slow: bool, mut tell: impl FnMut(Finding)) {
    let mut talk = match AgentClient::connect_step_by_step(address, PATIENCE) {
        Ok(client) => {
            tell(found("session", Ok(told(&client))));
            tell(found("headers", Ok("they came before the first command".into())));
            Some(Talk::new(client))
        }
        Err(error) => {
            let (what, why) = (
                match error.reached {
                    Reached::Nobody => "session",
                    Reached::Agent => "headers",
                },
                error.why,
            );
            tell(found(what, wrong(why)));
            return;
        }
    };
    for (what, check) in CHECKS.iter().copied().flatten() {
        let mut of = match talk.take() {
            Some(talk) => talk,
            None => match AgentClient::connect(address, PATIENCE) {
                Ok(client) => Talk::new(client),
                Err(why) => {
                    let again = "no session begins after one that broke";
                    tell(found(what, wrong(format!("{again}: {why}"))));
                    return;
                }
            },
        };
        tell(found(what, check(&mut of)));
        if of.clean() {
            talk = Some(of);
        }
    }
    if let Some(talk) = talk {
        tell(found("instants", talk.instants()));
        tell(found("order of events", talk.order_of_events()));
        // Its seat is free only once the agent has ended it.
        let _ = talk.close();
    }
    for (what, check) in sessions::CHECKS {
        tell(found(what, check(address)));
    }
    tell(found(sessions::PINGS, sessions::pings(address, slow)));
}

fn told(client: &AgentClient) -> String {
    let agent = client.agent();
    let of = if agent.host.is_empty() {
        "an unnamed host"
    } else {
        &agent.host
    };
    format!(
        "begins; agent {} of {of}, {} of {} sessions, devices: {}",
        if agent.version.is_empty() {
            "without a version"
        } else {
            &agent.version
        },
        agent.sessions,
        agent.max_sessions,
        if agent.devices.is_empty() {
            "none named".into()
        } else {
            agent.devices.join(", ")
        }
    )
}

fn found(what: &'static str, checked: Checked) -> Finding {
    let (outcome, words) = match checked {
        Ok(words) => (Outcome::Pass, words),
        Err(Not::Wrong(words)) => (Outcome::Fail, words),
        Err(Not::Worth(words)) => (Outcome::Note, words),
        Err(Not::Has(words)) => (Outcome::Skip, words),
    };
    Finding { what, outcome, words }
}
