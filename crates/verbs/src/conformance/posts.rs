//! Checks of requests: the device flushes requests of a queue pair in ERR; RESET and destruction drop them.

use verbatim_proto::agent::{self as proto, Completion, Operation, QpState, Service, command, reply};

use super::agent_session::{AgentSession, in_words};
use super::queue_pairs::{DEPTH, end, go_on, take_to};
use super::{Check, Checked, EVENT_WAIT, Not, wrong};

pub(super) const CHECKS: &[Check] = &[
    ("flush", flush),
    ("posts in ERR", posts_in_error),
    ("RESET forgets", reset_forgets),
    ("destroy forgets", destroy_forgets),
    ("memory in use", memory_in_use),
    ("wrong requests", wrong_requests),
];

/// `IBV_WC_WR_FLUSH_ERR`.
const FLUSHED: u32 = 5;
/// The first wr_id, which needs all 64 bits.
const FIRST: u64 = 0xFEDC_BA98_7654_3210;
const RECEIVES: u64 = 5;
const SENDS: u64 = 3;

fn receive(qp: u32, wr_id: u64, memory: u32) -> command::Kind {
    command::Kind::PostReceive(proto::PostReceive {
        qp,
        wr_id,
        local: Some(proto::Slice {
            memory,
            offset: 0,
            length: 32,
        }),
    })
}

fn send(qp: u32, wr_id: u64, memory: u32, signaled: bool) -> command::Kind {
    command::Kind::PostSend(proto::PostSend {
        qp,
        wr_id,
        operation: Operation::Send.into(),
        local: Some(proto::Slice {
            memory,
            offset: 32,
            length: 32,
        }),
        signaled,
        ..Default::default()
    })
}

/// Creates a queue pair, posts receives in INIT, and modifies the queue pair to `state`. Returns the queue pair and the
/// handle of its memory.
fn with_receives(agent_session: &mut AgentSession, state: QpState) -> Result<(proto::Qp, u32), Not> {
    let memory = agent_session.memory(64)?.memory;
    let qp = agent_session.queue_pair(Service::Rc, DEPTH)?;
    take_to(agent_session, &qp, QpState::Init)?;
    for wr_id in FIRST..FIRST + RECEIVES {
        agent_session.done("PostReceive in INIT", receive(qp.qp, wr_id, memory))?;
    }
    go_on(agent_session, &qp, state)?;
    Ok((qp, memory))
}

/// Checks that all requests were flushed once, in posting order.
fn are_flushed(qp: u32, seen: &[Completion], expected: core::ops::Range<u64>) -> Result<(), Not> {
    let count = expected.end - expected.start;
    if let Some(other) = seen.iter().find(|one| one.qp != qp) {
        return wrong(format!(
            "a completion names queue pair {}; expected the handle {qp}, from CreateQp",
            other.qp
        ));
    }
    if let Some(other) = seen.iter().find(|one| !expected.contains(&one.wr_id)) {
        return wrong(format!(
            "a completion has the wr_id {:#x}, which was not posted (first {:#x}); return all 64 bits",
            other.wr_id, expected.start
        ));
    }
    if seen.len() as u64 != count {
        return wrong(format!(
            "{count} requests were posted, and {} completed within {} s; each request must complete once, with \
             WR_FLUSH_ERR: the device or its agent flushes without a command",
            seen.len(),
            EVENT_WAIT.as_secs()
        ));
    }
    if let Some(other) = seen.iter().find(|one| one.status != FLUSHED) {
        return wrong(format!(
            "request {:#x} completed with status {}; expected {FLUSHED}, WR_FLUSH_ERR",
            other.wr_id, other.status
        ));
    }
    if !seen.iter().map(|one| one.wr_id).eq(expected) {
        let order: Vec<String> = seen
            .iter()
            .map(|one| (one.wr_id.wrapping_sub(FIRST) + 1).to_string())
            .collect();
        return wrong(format!(
            "requests were flushed in the order {}; expected the posting order",
            order.join(", ")
        ));
    }
    Ok(())
}

fn flush(agent_session: &mut AgentSession) -> Checked {
    for state in [QpState::Init, QpState::Rts] {
        let (qp, _) = with_receives(agent_session, state)?;
        end(agent_session, qp.qp, QpState::Err)?;
        let seen = agent_session.completions(RECEIVES as usize, EVENT_WAIT)?;
        are_flushed(qp.qp, &seen, FIRST..FIRST + RECEIVES)?;
        end(agent_session, qp.qp, QpState::Reset)?;
    }
    Ok(format!(
        "{RECEIVES} receives of a queue pair that goes to ERR: WR_FLUSH_ERR, in order, once"
    ))
}

/// Posts to a queue pair in ERR, so nothing is sent. Unsignaled requests must be flushed, too.
fn posts_in_error(agent_session: &mut AgentSession) -> Checked {
    let (qp, memory) = with_receives(agent_session, QpState::Rts)?;
    end(agent_session, qp.qp, QpState::Err)?;
    agent_session.completions(RECEIVES as usize, EVENT_WAIT)?;
    for wr_id in FIRST..FIRST + SENDS {
        agent_session.done("PostSend in ERR", send(qp.qp, wr_id, memory, wr_id % 2 == 0))?;
    }
    let seen = agent_session.completions(SENDS as usize, EVENT_WAIT)?;
    are_flushed(qp.qp, &seen, FIRST..FIRST + SENDS)?;
    for wr_id in FIRST..FIRST + RECEIVES {
        agent_session.done("PostReceive in ERR", receive(qp.qp, wr_id, memory))?;
    }
    let seen = agent_session.completions(RECEIVES as usize, EVENT_WAIT)?;
    are_flushed(qp.qp, &seen, FIRST..FIRST + RECEIVES)?;
    Ok(format!(
        "{SENDS} sends, signalled or not, and {RECEIVES} receives: WR_FLUSH_ERR, in order, once"
    ))
}

fn none(seen: &[Completion], what: &str) -> Result<(), Not> {
    match seen.first() {
        None => Ok(()),
        Some(one) => wrong(format!(
            "{what} completed request {:#x} with status {}; it must drop all posted requests without a completion",
            one.wr_id, one.status
        )),
    }
}

fn reset_forgets(agent_session: &mut AgentSession) -> Checked {
    let (qp, _) = with_receives(agent_session, QpState::Rts)?;
    end(agent_session, qp.qp, QpState::Reset)?;
    none(&agent_session.completions(0, EVENT_WAIT)?, "RESET")?;
    // Requests that RESET dropped must not complete in ERR either.
    take_to(agent_session, &qp, QpState::Init)?;
    end(agent_session, qp.qp, QpState::Err)?;
    none(&agent_session.completions(0, EVENT_WAIT)?, "ERR after RESET")?;
    Ok("posted requests complete neither then nor later".into())
}

fn destroy_forgets(agent_session: &mut AgentSession) -> Checked {
    let (qp, memory) = with_receives(agent_session, QpState::Rts)?;
    let other = match agent_session.has_one_queue_pair()? {
        true => None,
        false => Some(agent_session.queue_pair(Service::Rc, DEPTH)?),
    };
    agent_session.destroy(qp.qp)?;
    none(&agent_session.completions(0, EVENT_WAIT)?, "DestroyQp")?;
    agent_session.refused(
        "PostReceive to a queue pair that was destroyed",
        true,
        receive(qp.qp, 1, memory),
    )?;
    if let Some(other) = other {
        agent_session.query(other.qp)?;
    }
    let deregister = command::Kind::DeregisterMemory(proto::DeregisterMemory { memory });
    agent_session.done(
        "DeregisterMemory after DestroyQp of the queue pair that used it",
        deregister,
    )?;
    Ok("nothing is flushed, and the memory is free".into())
}

/// Checks whether the agent refuses to deregister the memory of a posted receive. A device that writes into freed
/// memory corrupts the host.
fn memory_in_use(agent_session: &mut AgentSession) -> Checked {
    let (_, memory) = with_receives(agent_session, QpState::Init)?;
    let deregister = command::Kind::DeregisterMemory(proto::DeregisterMemory { memory });
    match agent_session.ask(deregister)?.kind {
        reply::Kind::Refused(refused) => Ok(format!("DeregisterMemory is refused: {}", refused.text)),
        reply::Kind::Done(_) => Err(Not::Worth(
            "memory of a posted receive was deregistered; refuse this, unless your device can no longer write there"
                .into(),
        )),
        other => wrong(format!(
            "DeregisterMemory: expected `refused`, seen {}",
            in_words(&other)
        )),
    }
}

fn wrong_requests(agent_session: &mut AgentSession) -> Checked {
    let (qp, memory) = with_receives(agent_session, QpState::Init)?;
    let slice = |memory, offset, length| Some(proto::Slice { memory, offset, length });
    let receive = |local| {
        command::Kind::PostReceive(proto::PostReceive {
            qp: qp.qp,
            wr_id: 1,
            local,
        })
    };
    let operation = command::Kind::PostSend(proto::PostSend {
        qp: qp.qp,
        ..Default::default()
    });
    for (what, command) in [
        ("a receive beyond its memory", receive(slice(memory, 60, 5))),
        (
            "a receive into memory that does not exist",
            receive(slice(0x7FFF_FFF0, 0, 1)),
        ),
        ("a send request without an operation", operation),
    ] {
        agent_session.refused(what, true, command)?;
    }
    end(agent_session, qp.qp, QpState::Err)?;
    let seen = agent_session.completions(RECEIVES as usize, EVENT_WAIT)?;
    are_flushed(qp.qp, &seen, FIRST..FIRST + RECEIVES)?;
    Ok("they are refused, and complete nothing".into())
}
