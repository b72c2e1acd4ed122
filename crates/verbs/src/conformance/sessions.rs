//! Checks of the limit of sessions, the end of a session, and pings.

use core::time::Duration;
use std::time::Instant as Here;

use verbatim_proto::agent::{self as proto, command, reply};

use super::agent_session::{AgentSession, in_words};
use super::{Checked, Not, PATIENCE, wrong};
use crate::drive::AgentMessage;
use crate::link::{AgentAddress, AgentClient};

type Check = (&'static str, fn(&AgentAddress) -> Checked);

/// Checks that open sessions of their own.
pub(super) const CHECKS: &[Check] = &[("a second session", second), ("end of a session", ends)];
pub(super) const PINGS: &str = "pings";

/// Time for which the check of pings sends no command. A tester pings every 5 s. The agent's gRPC library may
/// refuse pings: it then closes the connection after the fourth one.
const IDLE: Duration = Duration::from_secs(23);

fn begin(address: &AgentAddress, what: &str) -> Result<AgentSession, Not> {
    match AgentClient::connect(address, PATIENCE) {
        Ok(client) => Ok(AgentSession::new(client)),
        Err(why) => wrong(format!("{what} does not begin: {why}")),
    }
}

const OPEN: command::Kind = command::Kind::Open(proto::Open {});

fn second(address: &AgentAddress) -> Checked {
    let mut first = begin(address, "a session after the first one")?;
    let held = first.memory(64)?.memory;
    let mut other = begin(address, "a second session")?;
    let (sessions, most) = (other.agent().sessions, other.agent().max_sessions);
    if most == 0 || sessions == 0 {
        return wrong(format!(
            "GetAgent says {sessions} sessions of {most} while one is open; count it, and give the maximum"
        ));
    }
    let answer = other.ask(OPEN)?.kind;
    let read = command::Kind::ReadMemory(proto::ReadMemory {
        from: Some(proto::Slice {
            memory: held,
            offset: 0,
            length: 1,
        }),
    });
    let told = match answer {
        reply::Kind::Opened(_) if sessions < most => {
            other.refused("memory of another session", true, read.clone())?;
            format!("it is accepted: {sessions} of {most} were in use, and it has no access to objects of the first")
        }
        reply::Kind::Opened(_) => {
            return wrong(format!(
                "it is accepted, although GetAgent reported {sessions} sessions of {most}; correct the numbers in \
                 GetAgent"
            ));
        }
        reply::Kind::Refused(refused) if sessions < most => {
            return wrong(format!(
                "it is refused ({}), although GetAgent reported {sessions} sessions of {most}",
                refused.text
            ));
        }
        reply::Kind::Refused(refused) if refused.text.trim().is_empty() => {
            return wrong("it is refused without a text; give the maximum number of sessions");
        }
        reply::Kind::Refused(refused) => {
            // The stream must then end.
            match other.idle(PATIENCE) {
                Err(_) => format!("it is refused, and ended: {}", refused.text),
                Ok(()) => {
                    return wrong("it is refused, but its stream stays open; end the stream with RESOURCE_EXHAUSTED");
                }
            }
        }
        other => {
            return wrong(format!(
                "Open: expected `opened` or `refused`, seen {}",
                in_words(&other)
            ));
        }
    };
    drop(other);
    match first.ask(read)?.kind {
        reply::Kind::Bytes(_) => Ok(told),
        other => wrong(format!(
            "after the second session, the memory of the first is gone: expected `bytes`, seen {}",
            in_words(&other)
        )),
    }
}

/// Checks that a client gets all replies after it closes its side, and that the agent then destroys the session's
/// objects.
fn ends(address: &AgentAddress) -> Checked {
    const WAITING: usize = 3;
    let mut first = begin(address, "a session after the second one")?;
    let memory = first.memory(64)?.memory;
    let qp = first.queue_pair(proto::Service::Rc, 4)?.qp;
    for _ in 0..WAITING {
        first.send(Some(OPEN))?;
    }
    let said = match first.close() {
        Ok(said) => said,
        Err(why) => {
            return wrong(format!(
                "the client closed its side: expected the answers to its commands, then the end of the stream with status OK; \
                 seen: {why}"
            ));
        }
    };
    let answers = said
        .iter()
        .filter(|said| matches!(said, AgentMessage::Answer(..)))
        .count();
    if answers != WAITING {
        return wrong(format!(
            "{WAITING} commands were sent before the client closed its side, but {answers} were answered; answer all \
             first"
        ));
    }
    let begun = Here::now();
    let mut again = begin(address, "a session after one that ended")?;
    let sessions = again.agent().sessions;
    let query = command::Kind::QueryQp(proto::QueryQp { qp });
    again.refused("a queue pair of a session that ended", true, query)?;
    let deregister = command::Kind::DeregisterMemory(proto::DeregisterMemory { memory });
    again.refused("memory of a session that ended", true, deregister)?;
    let first = again.memory(64)?.memory;
    if first != 1 {
        return wrong(format!(
            "the first handle of a session is {first}; expected 1: each session has its own handles, from 1"
        ));
    }
    if sessions > 1 {
        return Err(Not::Worth(format!(
            "{WAITING} answers, then the end; GetAgent then reported {sessions} sessions: does another tester have one?"
        )));
    }
    Ok(format!(
        "{WAITING} answers, then the end; the next session began {} ms later without its objects, with handles from 1",
        begun.elapsed().as_millis()
    ))
}

pub(super) fn pings(address: &AgentAddress, slow: bool) -> Checked {
    if !slow {
        return Err(Not::Has(format!(
            "left out; without --quick, this check keeps a session idle for {} s, with a ping every 5 s",
            IDLE.as_secs()
        )));
    }
    let mut agent_session = begin(address, "a session")?;
    agent_session.opened()?;
    if let Err(Not::Wrong(why)) = agent_session.idle(IDLE) {
        return wrong(format!(
            "an idle session ended within {} s: {why}. A tester pings every 5 s (HTTP/2 PING). By default, gRPC in C, \
             Python and Go treats this as an attack; allow it with grpc.http2.max_ping_strikes 0 and \
             grpc.http2.min_ping_interval_without_data_ms 1000; in Go with keepalive.EnforcementPolicy",
            IDLE.as_secs()
        ));
    }
    agent_session.refused(
        "QueryQp after pings",
        true,
        command::Kind::QueryQp(proto::QueryQp { qp: 0 }),
    )?;
    Ok(format!("a session that was idle for {} s still works", IDLE.as_secs()))
}
