//! Checks of replies: the agent must reply to each command once, in order, with plausible times.

use core::time::Duration;
use std::time::Instant as Here;

use verbatim_proto::agent::{self as proto, command, reply};

use super::agent_session::{AgentSession, TimedReply, in_words};
use super::{Check, Checked, wrong};

pub(super) const CHECKS: &[Check] = &[
    ("sign of life", sign_of_life),
    ("answers", answers),
    ("unknown command", unknown_command),
    ("refusals", refusals),
    ("clock", clock),
];

/// Pause between the two readings of the agent's clock: far longer than a reply takes.
const BETWEEN: Duration = Duration::from_millis(300);

const LIFE: command::Kind = command::Kind::QueryQp(proto::QueryQp { qp: 0 });

fn sign_of_life(agent_session: &mut AgentSession) -> Checked {
    let refused = agent_session.refused("QueryQp of queue pair 0, which never exists,", true, LIFE)?;
    Ok(format!("QueryQp of queue pair 0 is refused: {}", refused.text))
}

/// Sends several commands without waiting for replies, as a tester does.
fn answers(agent_session: &mut AgentSession) -> Checked {
    const COUNT: usize = 8;
    let asked = Here::now();
    let mut numbers = Vec::new();
    for at in 0..COUNT {
        numbers.push(agent_session.send(Some(if at % 2 == 0 {
            LIFE
        } else {
            command::Kind::Open(proto::Open {})
        }))?);
    }
    for (at, number) in numbers.into_iter().enumerate() {
        match (at % 2, agent_session.answer(number, asked)?.kind) {
            (0, reply::Kind::Refused(_)) | (1, reply::Kind::Opened(_)) => {}
            (_, other) => {
                return wrong(format!(
                    "{COUNT} commands without waiting: {} is no answer to number {}; answer each with its own reply, \
                     in order",
                    in_words(&other),
                    at + 1
                ));
            }
        }
    }
    Ok(format!(
        "{COUNT} commands without waiting: one answer each, in order, with its number"
    ))
}

/// Sends a command without a kind. A command of a later protocol version looks like this to an agent.
fn unknown_command(agent_session: &mut AgentSession) -> Checked {
    let asked = Here::now();
    let number = agent_session.send(None)?;
    match agent_session.answer(number, asked)?.kind {
        reply::Kind::Refused(refused) if refused.text.trim().is_empty() => {
            wrong("it is refused without a text; say that agent and tester must be of one version")
        }
        reply::Kind::Refused(refused) if refused.errno != 0 => wrong(format!(
            "it is refused with errno {}; a refusal by the agent itself has errno 0",
            refused.errno
        )),
        reply::Kind::Refused(refused) => Ok(format!("it is refused: {}", refused.text)),
        other => wrong(format!(
            "a command without a kind: expected `refused`, seen {}; a later tester must not take it for executed",
            in_words(&other)
        )),
    }
}

/// Sends each kind of command with a handle that does not exist; the session must survive.
fn refusals(agent_session: &mut AgentSession) -> Checked {
    const NONE: u32 = 0x7FFF_FFF0;
    let slice = proto::Slice {
        memory: NONE,
        offset: 0,
        length: 1,
    };
    let commands = [
        command::Kind::DestroyQp(proto::DestroyQp { qp: NONE }),
        command::Kind::ModifyQp(proto::ModifyQp {
            qp: NONE,
            state: proto::QpState::Init.into(),
            attributes: None,
        }),
        command::Kind::PostReceive(proto::PostReceive {
            qp: NONE,
            ..Default::default()
        }),
        command::Kind::PostSend(proto::PostSend {
            qp: NONE,
            operation: proto::Operation::Send.into(),
            ..Default::default()
        }),
        command::Kind::DeregisterMemory(proto::DeregisterMemory { memory: NONE }),
        command::Kind::ReadMemory(proto::ReadMemory { from: Some(slice) }),
        command::Kind::WriteMemory(proto::WriteMemory {
            memory: NONE,
            offset: 0,
            bytes: vec![1],
        }),
    ];
    let count = commands.len();
    for command in commands {
        agent_session.refused("a command for a handle that was never given out", true, command)?;
    }
    agent_session.refused("QueryQp after refusals", true, LIFE)?;
    Ok(format!(
        "{count} commands with unknown handles: errno 0, a text, and the session continues"
    ))
}

/// Compares the agent's clock with the local clock: the agent's clock must run, and count nanoseconds.
fn clock(agent_session: &mut AgentSession) -> Checked {
    let first = agent_session.ask(LIFE)?;
    agent_session.idle(BETWEEN)?;
    let last = agent_session.ask(LIFE)?;
    for answer in [&first, &last] {
        let (span, ours) = (
            answer.at.latest_ns.saturating_sub(answer.at.earliest_ns),
            answer.came - answer.asked,
        );
        if u128::from(span) > 2 * ours.as_nanos() + 1_000_000 {
            return wrong(format!(
                "a refusal reports a duration of {span} ns, but arrived after {} ns; are earliest_ns and latest_ns \
                 nanoseconds, read before and after the command?",
                ours.as_nanos()
            ));
        }
    }
    let (least, most) = bounds(&first, &last);
    let seen = last.at.latest_ns.saturating_sub(first.at.earliest_ns);
    if u128::from(seen) < least.as_nanos() / 2 || u128::from(seen) > 2 * most.as_nanos() {
        return wrong(format!(
            "between two answers the agent's clock advanced by {seen} ns, and ours by {} to {} ns; expected \
             CLOCK_MONOTONIC in nanoseconds",
            least.as_nanos(),
            most.as_nanos()
        ));
    }
    Ok(format!(
        "between two answers the agent's clock advanced by {} ms, ours by {} ms",
        seen / 1_000_000,
        most.as_millis()
    ))
}

/// Returns the shortest and longest possible time between two replies, by the local clock.
fn bounds(first: &TimedReply, last: &TimedReply) -> (Duration, Duration) {
    (last.asked - first.came, last.came - first.asked)
}
