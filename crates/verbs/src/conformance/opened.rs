//! Checks of the reported properties of the device.

use verbatim_proto::agent::{Capabilities, Gid, Opened, Operation, QpState, Service};

use super::agent_session::AgentSession;
use super::{Check, Checked, Not, wrong};

pub(super) const CHECKS: &[Check] = &[("Opened", opened), ("GIDs", gids), ("capabilities", capabilities)];

fn opened(agent_session: &mut AgentSession) -> Checked {
    let of = agent_session.opened()?;
    if of.device.is_empty() {
        return wrong("device is empty; give the device a name: rig files and records use it");
    }
    let named = agent_session.agent().devices.contains(&of.device);
    let facts = [
        (
            !named,
            format!(
                "GetAgent does not name {:?} among its devices; name it there too",
                of.device
            ),
        ),
        (
            !(1..=254).contains(&of.port),
            format!(
                "port is {}; expected 1..=254, and 1 if the device has one port",
                of.port
            ),
        ),
        (
            !(1..=5).contains(&of.active_mtu),
            format!(
                "active_mtu is {}; expected its code, 1 = 256 to 5 = 4096 bytes",
                of.active_mtu
            ),
        ),
        (
            of.port_state > 5,
            format!(
                "port_state is {}; expected a code of enum ibv_port_state, 4 = active",
                of.port_state
            ),
        ),
        (
            of.ethernet && of.lid != 0,
            format!("lid is {} on Ethernet; expected 0", of.lid),
        ),
        (
            of.max_qp == 0,
            "max_qp is 0; expected the number of queue pairs that the device has".into(),
        ),
        (
            of.local_ca_ack_delay > 31,
            format!(
                "local_ca_ack_delay is {}; expected a code of 4.096 us * 2^code, 0 to 31",
                of.local_ca_ack_delay
            ),
        ),
    ];
    if let Some((_, words)) = facts.into_iter().find(|(is_wrong, _)| *is_wrong) {
        return wrong(words);
    }
    let words = format!(
        "{}, port {}, firmware {:?}, MTU {}, {} READs and atomics answered and {} in flight at a time, {}",
        of.device,
        of.port,
        of.firmware,
        128_u32 << of.active_mtu,
        of.max_qp_rd_atom,
        of.max_qp_init_rd_atom,
        if of.atomics { "atomics" } else { "no atomics" },
    );
    if of.port_state != 4 {
        return Err(Not::Worth(format!(
            "{words}; the port is in state {}, and tests of packets need 4 = active",
            of.port_state
        )));
    }
    Ok(words)
}

fn gids(agent_session: &mut AgentSession) -> Checked {
    let of = agent_session.opened()?;
    for (at, gid) in of.gids.iter().enumerate() {
        if gid.gid.len() != 16 {
            return wrong(format!("GID {} has {} bytes; expected 16", gid.index, gid.gid.len()));
        }
        if gid.gid.iter().all(|byte| *byte == 0) {
            return wrong(format!(
                "GID {} is all zeros; omit empty entries of the table",
                gid.index
            ));
        }
        if gid.index > 255 {
            return wrong(format!("a GID has index {}; expected 0..=255", gid.index));
        }
        if of.gids.iter().take(at).any(|other| other.index == gid.index) {
            return wrong(format!(
                "two GIDs have index {}; expected the index in the device's table",
                gid.index
            ));
        }
        if !["IB", "RoCE v1", "RoCE v2"].contains(&gid.kind.as_str()) {
            return wrong(format!(
                "GID {} is of kind {:?}; expected \"IB\", \"RoCE v1\" or \"RoCE v2\"",
                gid.index, gid.kind
            ));
        }
    }
    match of.gids.as_slice() {
        [] if of.ethernet => wrong("none; expected at least one on Ethernet, of the IP address (::ffff:10.0.0.1)"),
        [] => Ok("none; the link is InfiniBand".into()),
        gids if of.ethernet && !gids.iter().any(|gid| gid.kind == "RoCE v2") => Err(Not::Worth(format!(
            "{}, none of RoCE v2: tests with packets built by the tester need one",
            gids.len()
        ))),
        gids => Ok(gids
            .iter()
            .map(|gid| format!("{} {}", gid.index, gid.kind))
            .collect::<Vec<_>>()
            .join(", ")),
    }
}

fn capabilities(agent_session: &mut AgentSession) -> Checked {
    let of = agent_session.opened()?;
    let Some(has) = &of.capabilities else {
        return Ok("not reported: the device has all features of the protocol".into());
    };
    if let Some(words) = not_capabilities(has) {
        return wrong(words);
    }
    let atomics = [Operation::CompareSwap, Operation::FetchAdd].map(i32::from);
    for (name, listed) in [("operations", &has.operations), ("answers", &has.answers)] {
        if of.atomics && !listed.is_empty() && !atomics.iter().all(|atomic| listed.contains(atomic)) {
            return wrong(format!(
                "atomics is true, but {name} lacks COMPARE_SWAP or FETCH_ADD; make the fields agree"
            ));
        }
    }
    Ok(said(has))
}

/// Describes the first invalid capability: a code that the protocol does not define, or a repeated code.
fn not_capabilities(has: &Capabilities) -> Option<String> {
    let codes = |values: &[i32]| values.iter().map(|value| i64::from(*value)).collect::<Vec<_>>();
    let numbers = |values: &[u32]| values.iter().map(|value| i64::from(*value)).collect::<Vec<_>>();
    let last = |value: i32| i64::from(value);
    [
        (
            "operations",
            codes(&has.operations),
            1,
            last(Operation::FetchAdd.into()),
        ),
        ("answers", codes(&has.answers), 1, last(Operation::FetchAdd.into())),
        ("services", codes(&has.services), 1, last(Service::Ud.into())),
        ("path_mtus", numbers(&has.path_mtus), 1, 5),
        ("qp_states", codes(&has.qp_states), 1, last(QpState::Err.into())),
        ("timeouts", numbers(&has.timeouts), 0, 31),
        ("min_rnr_timers", numbers(&has.min_rnr_timers), 0, 31),
        ("rnr_retries", numbers(&has.rnr_retries), 0, 7),
    ]
    .into_iter()
    .find_map(|(name, values, least, most)| {
        values.iter().enumerate().find_map(|(at, value)| {
            if !(least..=most).contains(value) {
                return Some(format!("{name} has {value}; expected {least}..={most}"));
            }
            values[..at]
                .contains(value)
                .then(|| format!("{name} has {value} twice; expected it once"))
        })
    })
}

/// Lists the reported capabilities with their counts and limits.
fn said(has: &Capabilities) -> String {
    let counts = [
        ("operations", has.operations.len()),
        ("answers", has.answers.len()),
        ("services", has.services.len()),
        ("path MTUs", has.path_mtus.len()),
        ("states of queue pairs", has.qp_states.len()),
        ("time-outs", has.timeouts.len()),
        ("RNR timers", has.min_rnr_timers.len()),
        ("RNR retries", has.rnr_retries.len()),
    ];
    let bounds = [
        ("bytes a message", has.max_message),
        ("bytes of memory", has.max_memory),
        ("send requests", has.max_send_depth),
        ("receive requests", has.max_receive_depth),
    ];
    let words: Vec<String> = counts
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{count} {name}"))
        .chain(
            bounds
                .into_iter()
                .filter(|(_, most)| *most > 0)
                .map(|(name, most)| format!("at most {most} {name}")),
        )
        .collect();
    if words.is_empty() {
        "the device has no limits".into()
    } else {
        words.join(", ")
    }
}

/// Returns a GID of the device itself. A queue pair that is connected to this GID sends nothing on the link.
pub(super) fn own_gid(of: &Opened) -> Option<&Gid> {
    let is_ipv4 = |gid: &&Gid| gid.gid.starts_with(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF]);
    let mut v2 = of.gids.iter().filter(|gid| gid.kind == "RoCE v2");
    v2.clone().find(is_ipv4).or_else(|| v2.next()).or(of.gids.first())
}
