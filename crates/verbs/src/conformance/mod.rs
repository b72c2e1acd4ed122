//! Checks whether an agent follows `verbatim.agent.v1`, for authors of agents. `verbatim doctor --agent` runs these
//! checks.
//!
//! | module | checks |
//! |---|---|
//! | `agent_session` | one session: a command, its reply, and the events before it |
//! | `answers` | sign of life, order and numbers of replies, unknown commands, the clock |
//! | `opened` | the reported properties of the device |
//! | `memory` | handles, bytes, bounds |
//! | `queue_pairs` | creating, modifying and querying queue pairs |
//! | `posts` | requests: flushing in ERR, dropping by RESET and destruction |
//! | `sessions` | limit of sessions, the end of a session, pings |
//!
//! The checks judge the agent, not its device. No packet leaves the host, because no queue pair ever sends. Queue pairs
//! connect to the device's own GID, and send requests are posted only in ERR.

mod agent_session;
mod answers;
mod memory;
mod opened;
mod posts;
mod queue_pairs;
mod sessions;

use core::fmt;
use core::time::Duration;

use crate::link::{AgentAddress, AgentClient, Reached};
use agent_session::AgentSession;

/// Longest time for connecting, and for one reply. A tester does not wait longer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest wait for expected events.
const EVENT_WAIT: Duration = Duration::from_secs(5);
/// How long a check waits for events that must not come.
const QUIET: Duration = Duration::from_millis(50);

/// The result of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The agent follows the protocol.
    Pass,
    /// The agent violates the protocol.
    Fail,
    /// The protocol does not forbid the behaviour, but the author should know about it.
    Note,
    /// The check did not run, or the device lacks the feature.
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

/// A check and its result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Name of the check.
    pub what: &'static str,
    /// The result.
    pub outcome: Outcome,
    /// The seen behaviour. Unless the check passed, also the expected behaviour and what to do.
    pub words: String,
}

/// The reason why a check did not pass.
#[derive(Debug)]
enum Not {
    Wrong(String),
    Worth(String),
    Has(String),
}

fn wrong<T>(words: impl Into<String>) -> Result<T, Not> {
    Err(Not::Wrong(words.into()))
}

/// The result of a check; the text describes a pass.
type Checked = Result<String, Not>;
type Check = (&'static str, fn(&mut AgentSession) -> Checked);

/// The checks that share a session, in order. If the session breaks, the next check opens a new session.
const CHECKS: &[&[Check]] = &[
    opened::CHECKS,
    answers::CHECKS,
    memory::CHECKS,
    queue_pairs::CHECKS,
    posts::CHECKS,
];

/// Checks an agent and calls `tell` with the result of each check. `slow` adds a check that takes half a minute.
pub fn check(address: &AgentAddress, slow: bool, mut tell: impl FnMut(Finding)) {
    let mut agent_session = match AgentClient::connect_step_by_step(address, PATIENCE) {
        Ok(client) => {
            tell(found("session", Ok(told(&client))));
            tell(found("headers", Ok("they came before the first command".into())));
            Some(AgentSession::new(client))
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
        let mut of = match agent_session.take() {
            Some(agent_session) => agent_session,
            None => match AgentClient::connect(address, PATIENCE) {
                Ok(client) => AgentSession::new(client),
                Err(why) => {
                    let again = "no session begins after a broken session";
                    tell(found(what, wrong(format!("{again}: {why}"))));
                    return;
                }
            },
        };
        tell(found(what, check(&mut of)));
        if of.clean() {
            agent_session = Some(of);
        }
    }
    if let Some(agent_session) = agent_session {
        tell(found("instants", agent_session.instants()));
        tell(found("order of events", agent_session.order_of_events()));
        // Waits for the end of the session, because the agent frees the session's slot only then.
        let _ = agent_session.close();
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
