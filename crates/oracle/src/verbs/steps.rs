//! Steps of a queue pair: the attributes that each step needs, and the attributes that it may have.
//!
//! Source: architecture 10.3.1 and 11.2.5.2 (the table of attributes by transition); Linux `ib_modify_qp_is_ok`, which
//! has the same table. Acceptance and refusal both conform in these cases:
//!
//! * RESET to ERR, which Linux refuses;
//! * a step to RESET or ERR with an attribute;
//! * a change of the port in SQD, which a device need not support;
//! * a value with more bits than the attribute has, such as timeout 32, because the caller's API may be unable to
//!   pass the value;
//! * a path MTU above the port's MTU, which Linux rxe refuses and qib reduces to the port's MTU.

use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Side, Trace};
use verbatim_wire::Mtu;

/// Facts that the host reported about its device.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Facts {
    max_rd_atomic: Option<u32>,
    max_dest_rd_atomic: Option<u32>,
    active_mtu: Option<u32>,
    ethernet: bool,
    atomics: bool,
}

impl Facts {
    /// Returns whether a device with these facts must accept the request on a queue pair of this service, if the
    /// memory is registered and the queue has room.
    pub(super) fn must_accept(&self, service: pb::Service, post: &pb::PostSend) -> bool {
        use pb::Operation::{CompareSwap, FetchAdd, Read, Send, Write};
        let length = post.local.map_or(0, |local| local.length);
        let operation = post.operation();
        if service == pb::Service::Rc {
            return match operation {
                Send | Write | Read => true,
                CompareSwap | FetchAdd => self.atomics && length == 8,
                _ => false,
            };
        }
        let has_destination_gid = post.address.as_ref().is_some_and(|address| !address.dgid.is_empty());
        service == pb::Service::Ud && operation == Send && self.fits_mtu(post) && has_destination_gid
    }

    /// Returns whether a request is not longer than the port's MTU. Returns false if the MTU is unknown.
    pub(super) fn fits_mtu(&self, post: &pb::PostSend) -> bool {
        self.mtu_bytes()
            .is_some_and(|most| post.local.map_or(0, |local| local.length) <= most)
    }

    /// Returns whether a request is longer than the port's MTU. Returns false if the MTU is unknown.
    pub(super) fn exceeds_mtu(&self, post: &pb::PostSend) -> bool {
        self.mtu_bytes().is_some() && !self.fits_mtu(post)
    }

    fn mtu_bytes(&self) -> Option<u32> {
        let code = self.active_mtu.and_then(|code| u8::try_from(code).ok());
        code.map(Mtu).and_then(Mtu::bytes)
    }

    pub(super) fn of(trace: &Trace) -> Self {
        let mut opened = trace.timeline.commands.iter().filter(|done| done.side == Side::Dut);
        let facts = opened.find_map(|done| match (&done.command, &done.answer) {
            (Command::Open(_), Some((_, _, Reply::Opened(facts), _))) => Some(facts),
            _ => None,
        });
        let known = |value: u32| Some(value).filter(|value| *value > 0);
        facts.map_or_else(Self::default, |facts| Self {
            max_rd_atomic: known(facts.max_qp_init_rd_atom),
            max_dest_rd_atomic: known(facts.max_qp_rd_atom),
            active_mtu: known(facts.active_mtu),
            ethernet: facts.ethernet,
            atomics: facts.atomics,
        })
    }
}

/// Required result of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// The step is accepted.
    Taken,
    /// The step is refused, for this reason.
    Refused(String),
    /// Both results conform.
    Either,
}

impl Verdict {
    /// Returns whether both verdicts require the same result, regardless of the reason.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        core::mem::discriminant(self) == core::mem::discriminant(other)
    }
}

pub(super) fn state_in_words(state: pb::QpState) -> String {
    state.as_str_name().replace("QP_STATE_", "")
}

/// Returns the names of the attributes in a step.
pub(super) fn given(modify: &pb::ModifyQp) -> Vec<&'static str> {
    let Some(attributes) = &modify.attributes else {
        return Vec::new();
    };
    let all = [
        ("pkey_index", attributes.pkey_index.is_some()),
        ("port", attributes.port.is_some()),
        ("access", attributes.access.is_some()),
        ("path_mtu", attributes.path_mtu.is_some()),
        ("dest_qpn", attributes.dest_qpn.is_some()),
        ("rq_psn", attributes.rq_psn.is_some()),
        ("sq_psn", attributes.sq_psn.is_some()),
        ("max_dest_rd_atomic", attributes.max_dest_rd_atomic.is_some()),
        ("max_rd_atomic", attributes.max_rd_atomic.is_some()),
        ("min_rnr_timer", attributes.min_rnr_timer.is_some()),
        ("timeout", attributes.timeout.is_some()),
        ("retry_cnt", attributes.retry_cnt.is_some()),
        ("rnr_retry", attributes.rnr_retry.is_some()),
        ("qkey", attributes.qkey.is_some()),
        ("address", attributes.address.is_some()),
    ];
    all.into_iter()
        .filter(|(_, is_given)| *is_given)
        .map(|(name, _)| name)
        .collect()
}

/// Returns the attributes that a step of an RC queue pair needs, and the further attributes that it may have;
/// `None` if there is no such step.
fn of_connection(from: pb::QpState, to: pb::QpState) -> Option<(&'static [&'static str], &'static [&'static str])> {
    use pb::QpState::{Init, Reset, Rtr, Rts, Sqd};
    Some(match (from, to) {
        (Reset, Init) => (&["pkey_index", "port", "access"], &[]),
        (Init, Init) => (&[], &["pkey_index", "port", "access"]),
        (Init, Rtr) => (
            &[
                "address",
                "path_mtu",
                "dest_qpn",
                "rq_psn",
                "max_dest_rd_atomic",
                "min_rnr_timer",
            ],
            &["access", "pkey_index"],
        ),
        (Rtr, Rts) => (
            &["sq_psn", "timeout", "retry_cnt", "rnr_retry", "max_rd_atomic"],
            &["access", "min_rnr_timer"],
        ),
        (Rts | Sqd, Rts) => (&[], &["access", "min_rnr_timer"]),
        (Rts, Sqd) => (&[], &[]),
        (Sqd, Sqd) => (
            &[],
            &[
                "pkey_index",
                "access",
                "address",
                "timeout",
                "retry_cnt",
                "rnr_retry",
                "max_rd_atomic",
                "max_dest_rd_atomic",
                "min_rnr_timer",
            ],
        ),
        _ => return None,
    })
}

/// Returns the attributes that a step of a datagram queue pair needs, and the further attributes that it may have;
/// `None` if there is no such step.
fn of_datagrams(from: pb::QpState, to: pb::QpState) -> Option<(&'static [&'static str], &'static [&'static str])> {
    use pb::QpState::{Init, Reset, Rtr, Rts, Sqd, Sqe};
    Some(match (from, to) {
        (Reset, Init) => (&["pkey_index", "port", "qkey"], &[]),
        (Init, Init) => (&[], &["pkey_index", "port", "qkey"]),
        (Init, Rtr) => (&[], &["pkey_index", "qkey"]),
        (Rtr, Rts) => (&["sq_psn"], &["qkey"]),
        (Rts | Sqd | Sqe, Rts) => (&[], &["qkey"]),
        (Rts, Sqd) => (&[], &[]),
        (Sqd, Sqd) => (&[], &["pkey_index", "qkey"]),
        _ => return None,
    })
}

/// Returns the required result of a step from a state.
pub(super) fn verdict(service: pb::Service, from: pb::QpState, modify: &pb::ModifyQp, facts: &Facts) -> Verdict {
    use pb::QpState::{Err, Reset, Sqd};
    let (to, given) = (modify.state(), given(modify));
    let of_service = match service {
        pb::Service::Rc => of_connection,
        pb::Service::Ud => of_datagrams,
        pb::Service::Unspecified => return Verdict::Either,
    };
    match (from, to) {
        (_, pb::QpState::Unspecified) | (Reset, Err) => return Verdict::Either,
        (_, Reset | Err) if given.is_empty() => return Verdict::Taken,
        (_, Reset | Err) => return Verdict::Either,
        (Sqd, Sqd) if given.contains(&"port") => return Verdict::Either,
        _ => {}
    }
    let Some((needed, optional)) = of_service(from, to) else {
        return Verdict::Refused(format!(
            "this service has no transition from {} to {}",
            state_in_words(from),
            state_in_words(to)
        ));
    };
    let missing = needed.iter().find(|name| !given.contains(name));
    let not_allowed = given
        .iter()
        .find(|name| !needed.contains(name) && !optional.contains(name));
    match (missing, not_allowed) {
        (Some(missing), _) => return Verdict::Refused(format!("the transition needs {missing}")),
        (_, Some(name)) => return Verdict::Refused(format!("the transition does not take {name}")),
        (None, None) => {}
    }
    let attributes = modify.attributes.clone().unwrap_or_default();
    let beyond = |value: Option<u32>, most: Option<u32>| value.zip(most).is_some_and(|(value, most)| value > most);
    // A host that reports 0 may have none, or may not report the number.
    let is_unknown = |value: Option<u32>, most: Option<u32>| most.is_none() && value.is_some_and(|value| value > 0);
    // A device has at most 254 ports. The agent does not report their number.
    let no_such_port = attributes.port.is_some_and(|port| !(1..=254).contains(&port));
    let without_gid = facts.ethernet
        && attributes
            .address
            .as_ref()
            .is_some_and(|address| address.dgid.is_empty());
    if no_such_port {
        Verdict::Refused("the device has no such port".into())
    } else if attributes.pkey_index == Some(0xFFFF) {
        // A P_Key table has at most 65,535 entries.
        Verdict::Refused("the P_Key table has no such entry".into())
    } else if beyond(attributes.max_rd_atomic, facts.max_rd_atomic)
        || beyond(attributes.max_dest_rd_atomic, facts.max_dest_rd_atomic)
    {
        Verdict::Refused("more READs and atomics than the device supports".into())
    } else if is_unknown(attributes.max_rd_atomic, facts.max_rd_atomic)
        || is_unknown(attributes.max_dest_rd_atomic, facts.max_dest_rd_atomic)
    {
        Verdict::Either
    } else if without_gid {
        Verdict::Refused("the address vector has no destination GID".into())
    } else if attributes.path_mtu.is_some_and(|code| !(1..=5).contains(&code)) {
        Verdict::Refused("path_mtu is not the code of an MTU".into())
    } else {
        let fits = |value: Option<u32>, bits: u32| value.is_none_or(|value| value >> bits == 0);
        let is_fit = fits(attributes.timeout, 5)
            && fits(attributes.min_rnr_timer, 5)
            && fits(attributes.retry_cnt, 3)
            && fits(attributes.rnr_retry, 3)
            && fits(attributes.rq_psn, 24)
            && fits(attributes.sq_psn, 24)
            && fits(attributes.dest_qpn, 24)
            && !beyond(attributes.path_mtu, facts.active_mtu);
        if is_fit { Verdict::Taken } else { Verdict::Either }
    }
}
