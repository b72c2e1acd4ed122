//! Checks of queue pairs: creating, querying, and modifying exactly the given attributes.

use verbatim_proto::agent::{self as proto, QpAttributes, QpState, Service, command, reply};

use super::agent_session::{ALL, AgentSession, in_words};
use super::opened::own_gid;
use super::{Check, Checked, Not, wrong};

pub(super) const CHECKS: &[Check] = &[
    ("RC queue pairs", reliable),
    ("UD queue pairs", datagrams),
    ("depths", depths),
    ("INIT, RTR, RTS", steps),
    ("UD: to RTS", datagram_steps),
    ("unnamed attributes", unnamed),
    ("numbers of a field", fields),
    ("illegal steps", illegal),
];

/// First PSNs, each with bits in all three bytes.
const RQ_PSN: u32 = 0xAB_CDEF;
const SQ_PSN: u32 = 0x12_3456;
/// Depth of the queues in these checks.
pub(super) const DEPTH: u32 = 16;

fn modify(qp: u32, to: QpState, attributes: QpAttributes) -> command::Kind {
    command::Kind::ModifyQp(proto::ModifyQp {
        qp,
        state: to.into(),
        attributes: Some(attributes),
    })
}

/// Returns the attributes of the transition to `to`, for an RC queue pair connected to itself.
fn attributes(of: &proto::Opened, qpn: u32, to: QpState) -> QpAttributes {
    let has = of.capabilities.clone().unwrap_or_default();
    match to {
        QpState::Init => QpAttributes {
            pkey_index: Some(0),
            port: Some(of.port),
            access: Some(ALL),
            ..QpAttributes::default()
        },
        QpState::Rtr => QpAttributes {
            path_mtu: Some(one_of(&has.path_mtus, of.active_mtu.min(3))),
            dest_qpn: Some(qpn),
            rq_psn: Some(RQ_PSN),
            max_dest_rd_atomic: Some(of.max_qp_rd_atom.min(4)),
            min_rnr_timer: Some(one_of(&has.min_rnr_timers, 12)),
            address: Some(address(of)),
            ..QpAttributes::default()
        },
        QpState::Rts => QpAttributes {
            sq_psn: Some(SQ_PSN),
            timeout: Some(one_of(&has.timeouts, 0)),
            retry_cnt: Some(7),
            rnr_retry: Some(one_of(&has.rnr_retries, 7)),
            max_rd_atomic: Some(of.max_qp_init_rd_atom.min(4)),
            ..QpAttributes::default()
        },
        _ => QpAttributes::default(),
    }
}

/// Returns `usual` if the device supports it, or else the first value that the device lists.
fn one_of(listed: &[u32], usual: u32) -> u32 {
    match listed {
        [first, ..] if !listed.contains(&usual) => *first,
        _ => usual,
    }
}

/// Returns the address of the device itself.
fn address(of: &proto::Opened) -> proto::AddressVector {
    match own_gid(of).filter(|_| of.ethernet) {
        Some(gid) => proto::AddressVector {
            dgid: gid.gid.clone(),
            sgid_index: gid.index,
            hop_limit: 64,
            ..proto::AddressVector::default()
        },
        None => proto::AddressVector {
            dlid: of.lid,
            ..proto::AddressVector::default()
        },
    }
}

/// Modifies a new RC queue pair through the states up to `last`.
pub(super) fn take_to(agent_session: &mut AgentSession, qp: &proto::Qp, last: QpState) -> Result<(), Not> {
    step(agent_session, qp, QpState::Init)?;
    go_on(agent_session, qp, last)
}

/// Modifies a queue pair in INIT through the states up to `last`.
pub(super) fn go_on(agent_session: &mut AgentSession, qp: &proto::Qp, last: QpState) -> Result<(), Not> {
    for to in [QpState::Rtr, QpState::Rts]
        .into_iter()
        .filter(|to| *to as i32 <= last as i32)
    {
        step(agent_session, qp, to)?;
    }
    Ok(())
}

fn step(agent_session: &mut AgentSession, qp: &proto::Qp, to: QpState) -> Result<(), Not> {
    let of = agent_session.opened()?;
    agent_session.done(
        &format!("ModifyQp to {} with the attributes that it needs", state(to)),
        modify(qp.qp, to, attributes(&of, qp.qpn, to)),
    )
}

/// Modifies a queue pair to ERR or RESET.
pub(super) fn end(agent_session: &mut AgentSession, qp: u32, to: QpState) -> Result<(), Not> {
    agent_session.done(
        &format!("ModifyQp to {}", state(to)),
        modify(qp, to, QpAttributes::default()),
    )
}

fn state(of: QpState) -> &'static str {
    of.as_str_name().trim_start_matches("QP_STATE_")
}

fn name(code: i32) -> String {
    QpState::try_from(code).map_or_else(|_| format!("{code}, which is no state"), |of| state(of).into())
}

fn is_in(agent_session: &mut AgentSession, qp: u32, expected: QpState) -> Result<proto::QpStatus, Not> {
    let status = agent_session.query(qp)?;
    if status.state != i32::from(expected) {
        return wrong(format!(
            "QueryQp reports state {}; expected {}",
            name(status.state),
            state(expected)
        ));
    }
    Ok(status)
}

fn is_fresh(agent_session: &mut AgentSession, qp: &proto::Qp) -> Result<(), Not> {
    if !(2..0xFF_FFFF).contains(&qp.qpn) {
        return wrong(format!(
            "a queue pair has the number {:#x}; expected 2..=0xfffffe, of 24 bits",
            qp.qpn
        ));
    }
    is_in(agent_session, qp.qp, QpState::Reset).map(drop)
}

fn made(agent_session: &mut AgentSession, service: Service) -> Checked {
    let one = agent_session.queue_pair(service, DEPTH)?;
    is_fresh(agent_session, &one)?;
    let other = match agent_session.has_one_queue_pair()? {
        true => None,
        false => Some(agent_session.queue_pair(service, DEPTH)?),
    };
    if let Some(other) = &other {
        is_fresh(agent_session, other)?;
        if one.qpn == other.qpn {
            return wrong(format!(
                "two queue pairs have the number {:#x}; give each its own",
                one.qpn
            ));
        }
    }
    agent_session.destroy(one.qp)?;
    let query = command::Kind::QueryQp(proto::QueryQp { qp: one.qp });
    agent_session.refused("QueryQp of a queue pair that was destroyed", true, query)?;
    let Some(other) = other else {
        return Ok(format!("number {:#x}, in RESET, then destroyed: max_qp is 1", one.qpn));
    };
    is_in(agent_session, other.qp, QpState::Reset)?;
    Ok(format!(
        "numbers {:#x} and {:#x}, in RESET; after DestroyQp of one, the other exists",
        one.qpn, other.qpn
    ))
}

fn reliable(agent_session: &mut AgentSession) -> Checked {
    made(agent_session, Service::Rc)
}

fn datagrams(agent_session: &mut AgentSession) -> Checked {
    made(agent_session, Service::Ud)
}

/// Checks that a queue pair accepts as many receives as requested. Also checks that the agent refuses invalid depths
/// and services.
fn depths(agent_session: &mut AgentSession) -> Checked {
    agent_session.queue_pair(Service::Rc, 1)?;
    let qp = agent_session.queue_pair(Service::Rc, DEPTH)?;
    let room = agent_session
        .opened()?
        .capabilities
        .map_or(0, |has| has.max_receive_depth);
    let depth = if room == 0 { DEPTH } else { DEPTH.min(room) };
    take_to(agent_session, &qp, QpState::Init)?;
    let memory = agent_session.memory(64)?.memory;
    for at in 0..depth {
        agent_session.done(
            &format!("receive {} of {depth} (the requested receive_depth), in INIT", at + 1),
            command::Kind::PostReceive(proto::PostReceive {
                qp: qp.qp,
                wr_id: at.into(),
                local: Some(proto::Slice {
                    memory,
                    offset: 0,
                    length: 64,
                }),
            }),
        )?;
    }
    for (service, depth) in [(Service::Rc, 0), (Service::Rc, u32::MAX), (Service::Unspecified, 1)] {
        let create = command::Kind::CreateQp(proto::CreateQp {
            service: service.into(),
            send_depth: depth,
            receive_depth: depth,
        });
        let what = format!("CreateQp of {} and depth {depth}", service.as_str_name());
        agent_session.refused(&what, false, create)?;
    }
    Ok(format!(
        "{depth} receives fit; depths 0 and 2^32 - 1, and a missing service, are refused"
    ))
}

fn steps(agent_session: &mut AgentSession) -> Checked {
    let qp = agent_session.queue_pair(Service::Rc, DEPTH)?;
    take_to(agent_session, &qp, QpState::Init)?;
    is_in(agent_session, qp.qp, QpState::Init)?;
    step(agent_session, &qp, QpState::Rtr)?;
    let rtr = is_in(agent_session, qp.qp, QpState::Rtr)?;
    if rtr.rq_psn != RQ_PSN {
        return wrong(format!(
            "in RTR, QueryQp reports rq_psn {:#x}; expected {RQ_PSN:#x}, as set: the PSN of the next expected request",
            rtr.rq_psn
        ));
    }
    step(agent_session, &qp, QpState::Rts)?;
    let rts = is_in(agent_session, qp.qp, QpState::Rts)?;
    if (rts.sq_psn, rts.rq_psn) != (SQ_PSN, RQ_PSN) {
        return wrong(format!(
            "in RTS, QueryQp reports sq_psn {:#x} and rq_psn {:#x}; expected {SQ_PSN:#x} and {RQ_PSN:#x}, as set: the \
             PSNs of the next request to send and of the next expected request",
            rts.sq_psn, rts.rq_psn
        ));
    }
    end(agent_session, qp.qp, QpState::Reset)?;
    is_in(agent_session, qp.qp, QpState::Reset)?;
    take_to(agent_session, &qp, QpState::Rts)?;
    is_in(agent_session, qp.qp, QpState::Rts)?;
    end(agent_session, qp.qp, QpState::Err)?;
    is_in(agent_session, qp.qp, QpState::Err)?;
    Ok("QueryQp reports each state, with sq_psn and rq_psn as set; RESET, again to RTS, ERR".into())
}

fn datagram_steps(agent_session: &mut AgentSession) -> Checked {
    let of = agent_session.opened()?;
    let qp = agent_session.queue_pair(Service::Ud, DEPTH)?;
    let init = QpAttributes {
        pkey_index: Some(0),
        port: Some(of.port),
        qkey: Some(0x1234_5678),
        ..QpAttributes::default()
    };
    let rts = QpAttributes {
        sq_psn: Some(SQ_PSN),
        ..QpAttributes::default()
    };
    let steps = [
        (QpState::Init, init),
        (QpState::Rtr, QpAttributes::default()),
        (QpState::Rts, rts),
    ];
    for (to, attributes) in steps {
        agent_session.done(
            &format!("ModifyQp of a UD queue pair to {}", state(to)),
            modify(qp.qp, to, attributes),
        )?;
        is_in(agent_session, qp.qp, to)?;
    }
    Ok("QueryQp reports each state".into())
}

/// Checks that ModifyQp does not set absent attributes to 0.
fn unnamed(agent_session: &mut AgentSession) -> Checked {
    let qp = agent_session.queue_pair(Service::Rc, DEPTH)?;
    take_to(agent_session, &qp, QpState::Rts)?;
    let timer = QpAttributes {
        min_rnr_timer: Some(1),
        ..QpAttributes::default()
    };
    match agent_session.ask(modify(qp.qp, QpState::Rts, timer))?.kind {
        reply::Kind::Done(_) => {}
        reply::Kind::Refused(refused) => {
            is_in(agent_session, qp.qp, QpState::Rts)?;
            return Err(Not::Has(format!(
                "the device does not change min_rnr_timer in RTS: {}",
                refused.text
            )));
        }
        other => return wrong(format!("ModifyQp: expected `done`, seen {}", in_words(&other))),
    }
    let status = is_in(agent_session, qp.qp, QpState::Rts)?;
    if (status.sq_psn, status.rq_psn) != (SQ_PSN, RQ_PSN) {
        return wrong(format!(
            "ModifyQp named only min_rnr_timer, but sq_psn and rq_psn became {:#x} and {:#x}; expected {SQ_PSN:#x} and \
             {RQ_PSN:#x}: do not set an absent attribute to 0",
            status.sq_psn, status.rq_psn
        ));
    }
    Ok("ModifyQp of min_rnr_timer alone does not change sq_psn and rq_psn".into())
}

/// Checks that the agent refuses numbers that do not fit a field of the device. With a truncated number, a test
/// would test another value.
fn fields(agent_session: &mut AgentSession) -> Checked {
    let of = agent_session.opened()?;
    let qp = agent_session.queue_pair(Service::Rc, DEPTH)?;
    take_to(agent_session, &qp, QpState::Init)?;
    let rtr = attributes(&of, qp.qpn, QpState::Rtr);
    let with = |change: fn(&mut QpAttributes)| {
        let mut attributes = rtr.clone();
        change(&mut attributes);
        attributes
    };
    let cases: [(&str, QpAttributes); 6] = [
        ("rq_psn of 2^24", with(|of| of.rq_psn = Some(1 << 24))),
        ("dest_qpn of 2^24", with(|of| of.dest_qpn = Some(1 << 24))),
        ("path_mtu 0", with(|of| of.path_mtu = Some(0))),
        ("path_mtu 6", with(|of| of.path_mtu = Some(6))),
        ("min_rnr_timer 32", with(|of| of.min_rnr_timer = Some(32))),
        (
            "dgid of 3 bytes",
            with(|of| {
                of.address.get_or_insert_default().dgid = vec![1, 2, 3];
            }),
        ),
    ];
    for (what, attributes) in &cases {
        agent_session.refused(what, false, modify(qp.qp, QpState::Rtr, attributes.clone()))?;
        is_in(agent_session, qp.qp, QpState::Init)?;
    }
    agent_session.done("ModifyQp to RTR after refusals", modify(qp.qp, QpState::Rtr, rtr))?;
    let rts = attributes(&of, qp.qpn, QpState::Rts);
    for (what, attributes) in [
        (
            "rnr_retry 8",
            QpAttributes {
                rnr_retry: Some(8),
                ..rts.clone()
            },
        ),
        (
            "timeout 32",
            QpAttributes {
                timeout: Some(32),
                ..rts.clone()
            },
        ),
        (
            "sq_psn of 2^24",
            QpAttributes {
                sq_psn: Some(1 << 24),
                ..rts
            },
        ),
    ] {
        agent_session.refused(what, false, modify(qp.qp, QpState::Rts, attributes))?;
    }
    agent_session.refused("state 8", false, {
        command::Kind::ModifyQp(proto::ModifyQp {
            qp: qp.qp,
            state: 8,
            attributes: None,
        })
    })?;
    is_in(agent_session, qp.qp, QpState::Rtr)?;
    Ok("numbers that do not fit are refused, and change nothing".into())
}

/// Checks illegal transitions: the device must refuse them and change nothing.
fn illegal(agent_session: &mut AgentSession) -> Checked {
    let of = agent_session.opened()?;
    let mut taken = Vec::new();
    for to in [QpState::Rts, QpState::Rtr, QpState::Sqd] {
        let qp = agent_session.queue_pair(Service::Rc, DEPTH)?;
        match agent_session.ask(modify(qp.qp, to, attributes(&of, qp.qpn, to)))?.kind {
            reply::Kind::Refused(refused) if refused.text.trim().is_empty() => {
                return wrong(format!(
                    "RESET to {} is refused without a text; give the reason",
                    state(to)
                ));
            }
            reply::Kind::Refused(_) => {
                is_in(agent_session, qp.qp, QpState::Reset)?;
                // The queue pair must still be usable.
                take_to(agent_session, &qp, QpState::Init)?;
            }
            reply::Kind::Done(_) => taken.push(format!("RESET to {}", state(to))),
            other => return wrong(format!("ModifyQp: expected `refused`, seen {}", in_words(&other))),
        }
    }
    let qp = agent_session.queue_pair(Service::Rc, DEPTH)?;
    let post = command::Kind::PostSend(proto::PostSend {
        qp: qp.qp,
        wr_id: 1,
        operation: proto::Operation::Send.into(),
        ..Default::default()
    });
    match agent_session.ask(post)?.kind {
        reply::Kind::Refused(_) => {}
        reply::Kind::Done(_) => taken.push("a send request in RESET".into()),
        other => return wrong(format!("PostSend: expected `refused`, seen {}", in_words(&other))),
    }
    is_in(agent_session, qp.qp, QpState::Reset)?;
    if taken.is_empty() {
        return Ok("RESET to RTR, RTS and SQD, and a send request in RESET, are refused, and change nothing".into());
    }
    Err(Not::Worth(format!(
        "the device accepts {}; refuse it as libibverbs does, so that a tester notices its mistake",
        taken.join(", ")
    )))
}
