//! Checks of memory: handles, zeroed bytes, contents, bounds, and large messages.

use verbatim_proto::agent::{self as proto, Slice, command, reply};

use super::agent_session::{ALL, AgentSession, in_words};
use super::{Check, Checked, Not, wrong};

pub(super) const CHECKS: &[Check] = &[
    ("handles", handles),
    ("memory", bytes),
    ("bounds of memory", bounds),
    ("large messages", large),
];

/// Length of a large message in bytes: above gRPC's default limit, below the limit of one command.
const LARGE: u32 = 5 << 20;

fn slice(memory: u32, offset: u32, length: u32) -> Slice {
    Slice { memory, offset, length }
}

fn read_command(from: Slice) -> command::Kind {
    command::Kind::ReadMemory(proto::ReadMemory { from: Some(from) })
}

fn write_command(memory: u32, offset: u32, bytes: Vec<u8>) -> command::Kind {
    command::Kind::WriteMemory(proto::WriteMemory { memory, offset, bytes })
}

fn deregister(memory: u32) -> command::Kind {
    command::Kind::DeregisterMemory(proto::DeregisterMemory { memory })
}

fn read(agent_session: &mut AgentSession, from: Slice) -> Result<Vec<u8>, Not> {
    match agent_session.ask(read_command(from))?.kind {
        reply::Kind::Bytes(bytes) if bytes.bytes.len() as u64 == u64::from(from.length) => Ok(bytes.bytes),
        other => wrong(format!(
            "ReadMemory of {} bytes: expected as many in `bytes`, seen {}",
            from.length,
            in_words(&other)
        )),
    }
}

fn handles(agent_session: &mut AgentSession) -> Checked {
    let first = agent_session.memory(64)?.memory;
    if first == 0 {
        return wrong("memory has the handle 0, which means no memory; assign handles from 1");
    }
    agent_session.done("DeregisterMemory", deregister(first))?;
    let second = agent_session.memory(64)?.memory;
    let qp = agent_session.queue_pair(proto::Service::Rc, 4)?.qp;
    if qp == 0 {
        return wrong("a queue pair has the handle 0, which the sign of life queries; assign handles from 1");
    }
    agent_session.destroy(qp)?;
    let again = agent_session.queue_pair(proto::Service::Rc, 4)?.qp;
    agent_session.done("DestroyAll", command::Kind::DestroyAll(proto::DestroyAll {}))?;
    let last = agent_session.memory(64)?.memory;
    for (what, old, new) in [
        ("memory", first, second),
        ("memory after DestroyAll", first.max(second), last),
        ("a queue pair", qp, again),
    ] {
        if new <= old {
            return wrong(format!(
                "the handle of {what} is {new}, after {old}; assign rising handles, so that an old handle never names \
                 another object"
            ));
        }
    }
    agent_session.refused(
        "a handle from before DestroyAll",
        true,
        read_command(slice(second, 0, 1)),
    )?;
    Ok(format!(
        "memory {first}, {second}, {last}, queue pairs {qp}, {again}: no handle twice"
    ))
}

fn bytes(agent_session: &mut AgentSession) -> Checked {
    const LENGTH: u32 = 5000;
    let memory = agent_session.memory(LENGTH)?;
    let other = agent_session.memory(LENGTH)?;
    let end = memory.address.checked_add(LENGTH.into());
    if end.is_none() {
        return wrong(format!(
            "{LENGTH} bytes at address {:#x} go beyond 2^64",
            memory.address
        ));
    }
    let apart = other.address >= end.unwrap_or(u64::MAX) || other.address + u64::from(LENGTH) <= memory.address;
    // Two memories that both begin at address 0 differ only in their keys.
    let from_0 = memory.address == 0 && other.address == 0;
    if !apart && !from_0 {
        return wrong(format!(
            "two memories of {LENGTH} bytes are at {:#x} and {:#x}: they overlap; give each its own addresses",
            memory.address, other.address
        ));
    }
    if memory.r_key == other.r_key {
        return wrong(format!(
            "two memories have the r_key {:#x}; give each its own key; otherwise no test of R_Keys is valid",
            memory.r_key
        ));
    }
    if read(agent_session, slice(memory.memory, 0, LENGTH))?
        .iter()
        .any(|byte| *byte != 0)
    {
        return wrong(
            "new memory is not all zeros; clear it when it is registered, so that no test takes old bytes for new ones",
        );
    }
    let written: Vec<u8> = (0..100).map(|byte| byte ^ 0xA5).collect();
    agent_session.done("WriteMemory", write_command(memory.memory, 4050, written.clone()))?;
    let seen = read(agent_session, slice(memory.memory, 4000, 200))?;
    let mut expected = [0; 200];
    expected[50..150].copy_from_slice(&written);
    if let Some(at) = (0..200).find(|at| seen[*at] != expected[*at]) {
        return wrong(format!(
            "100 bytes were written at 4050, and byte {} is {:#04x}; expected {:#04x}",
            4000 + at,
            seen[at],
            expected[at]
        ));
    }
    if read(agent_session, slice(other.memory, 0, LENGTH))?
        .iter()
        .any(|byte| *byte != 0)
    {
        return wrong("bytes written to one memory appear in another memory, too");
    }
    agent_session.done("WriteMemory of no bytes", write_command(memory.memory, 0, Vec::new()))?;
    agent_session.done("DeregisterMemory", deregister(memory.memory))?;
    agent_session.refused(
        "ReadMemory of memory that was deregistered",
        true,
        read_command(slice(memory.memory, 0, 1)),
    )?;
    Ok("zeros at first; reads return the written bytes; other bytes do not change".into())
}

fn bounds(agent_session: &mut AgentSession) -> Checked {
    let memory = agent_session.memory(100)?.memory;
    let beyond = [
        read_command(slice(memory, 90, 11)),
        read_command(slice(memory, 101, 1)),
        read_command(slice(memory, u32::MAX, 2)),
        write_command(memory, 90, vec![0xEE; 11]),
        write_command(memory, u32::MAX, vec![0xEE; 2]),
        command::Kind::ReadMemory(proto::ReadMemory { from: None }),
        command::Kind::RegisterMemory(proto::RegisterMemory {
            length: 0,
            access: Some(ALL),
        }),
    ];
    let count = beyond.len();
    for command in beyond {
        agent_session.refused(&format!("{} beyond 100 bytes", name(&command)), true, command)?;
    }
    if read(agent_session, slice(memory, 0, 100))?
        .iter()
        .any(|byte| *byte != 0)
    {
        return wrong("a refused WriteMemory wrote bytes; check the bounds before the first byte");
    }
    Ok(format!(
        "{count} commands beyond the memory are refused, and write nothing"
    ))
}

fn name(kind: &command::Kind) -> &'static str {
    match kind {
        command::Kind::ReadMemory(_) => "ReadMemory",
        command::Kind::WriteMemory(_) => "WriteMemory",
        _ => "RegisterMemory of 0 bytes, nothing",
    }
}

fn large(agent_session: &mut AgentSession) -> Checked {
    const REMEDY: &str = "take and send messages of up to 32 MiB: gRPC's own limit is 4 MiB";
    let register = command::Kind::RegisterMemory(proto::RegisterMemory {
        length: LARGE,
        access: Some(ALL),
    });
    let memory = match agent_session.ask(register)?.kind {
        reply::Kind::Memory(memory) => memory.memory,
        reply::Kind::Refused(refused) => {
            return Err(Not::Has(format!(
                "the device has no {LARGE} bytes of memory: {}",
                refused.text
            )));
        }
        other => {
            return wrong(format!("RegisterMemory: expected `memory`, seen {}", in_words(&other)));
        }
    };
    let bytes: Vec<u8> = (0..LARGE).map(|at| (at % 251) as u8).collect();
    let lost = |not| match not {
        Not::Wrong(words) => Not::Wrong(format!("{LARGE} bytes in one command: {words}; {REMEDY}")),
        other => other,
    };
    agent_session
        .done("WriteMemory", write_command(memory, 0, bytes.clone()))
        .map_err(lost)?;
    let seen = read(agent_session, slice(memory, 0, LARGE)).map_err(lost)?;
    if let Some(at) = seen.iter().zip(&bytes).position(|(seen, written)| seen != written) {
        return wrong(format!(
            "{LARGE} bytes were written with one command, and byte {at} is {:#04x}; expected {:#04x}",
            seen[at], bytes[at]
        ));
    }
    Ok(format!(
        "{} MiB are written and read with one command each",
        LARGE >> 20
    ))
}
