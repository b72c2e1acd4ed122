//! Which attributes a change of state needs and which it allows, to explain a refusal.
//!
//! A driver answers a wrong set of attributes with EINVAL and nothing else. The table is our reading of the
//! architecture's verbs chapter ("Modify Queue Pair") and of the kernel's check of the same name; it judges nobody and
//! stops nothing: a call is made as asked, and the table is looked at when it failed.

use std::fmt;

use super::{
    generated::ibv_qp_attr_mask as mask,
    modify::Modify,
    types::{Mtu, QpState, QpType},
};

macro_rules! bits {
    ($($bit:ident)*) => { 0 $(| mask::$bit.0)* };
}

/// Attributes that are known by a name here, in the order of the header.
const NAMES: &[(u32, &str)] = &[
    (mask::IBV_QP_CUR_STATE.0, "current_state"),
    (mask::IBV_QP_EN_SQD_ASYNC_NOTIFY.0, "sqd_async_notify"),
    (mask::IBV_QP_ACCESS_FLAGS.0, "access"),
    (mask::IBV_QP_PKEY_INDEX.0, "pkey_index"),
    (mask::IBV_QP_PORT.0, "port"),
    (mask::IBV_QP_QKEY.0, "qkey"),
    (mask::IBV_QP_AV.0, "address"),
    (mask::IBV_QP_PATH_MTU.0, "path_mtu"),
    (mask::IBV_QP_TIMEOUT.0, "timeout"),
    (mask::IBV_QP_RETRY_CNT.0, "retry_cnt"),
    (mask::IBV_QP_RNR_RETRY.0, "rnr_retry"),
    (mask::IBV_QP_RQ_PSN.0, "rq_psn"),
    (mask::IBV_QP_MAX_QP_RD_ATOMIC.0, "max_rd_atomic"),
    (mask::IBV_QP_ALT_PATH.0, "alternate"),
    (mask::IBV_QP_MIN_RNR_TIMER.0, "min_rnr_timer"),
    (mask::IBV_QP_SQ_PSN.0, "sq_psn"),
    (mask::IBV_QP_MAX_DEST_RD_ATOMIC.0, "max_dest_rd_atomic"),
    (mask::IBV_QP_PATH_MIG_STATE.0, "path_mig_state"),
    (mask::IBV_QP_DEST_QPN.0, "dest_qpn"),
];

/// Attributes of a transition: what it needs, and what it allows besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attributes {
    pub(super) required: u32,
    pub(super) optional: u32,
}

/// The attributes of the transition, or nothing when there is no such transition for this service.
pub(super) fn attributes(kind: QpType, from: QpState, to: QpState) -> Option<Attributes> {
    const PATH: u32 = bits!(IBV_QP_ALT_PATH IBV_QP_PATH_MIG_STATE IBV_QP_ACCESS_FLAGS);
    let state = (from, to);
    let (connected, rc) = (kind == QpType::RC || kind == QpType::UC, kind == QpType::RC);
    if !connected && kind != QpType::UD {
        return None;
    }
    let by_kind = |ud: u32, both: u32, rc_too: u32| match (connected, rc) {
        (false, _) => ud,
        (true, false) => both,
        (true, true) => both | rc_too,
    };
    let (required, optional) = match state {
        // The architecture has this way too. The kernel does not let anybody go it, and it is refusals that we explain.
        (QpState::RESET, QpState::ERR) => return None,
        (_, QpState::RESET | QpState::ERR) => (0, 0),
        (QpState::RESET, QpState::INIT) => {
            let own = by_kind(bits!(IBV_QP_QKEY), bits!(IBV_QP_ACCESS_FLAGS), 0);
            (bits!(IBV_QP_PKEY_INDEX IBV_QP_PORT) | own, 0)
        }
        (QpState::INIT, QpState::INIT) => {
            let own = by_kind(bits!(IBV_QP_QKEY), bits!(IBV_QP_ACCESS_FLAGS), 0);
            (0, bits!(IBV_QP_PKEY_INDEX IBV_QP_PORT) | own)
        }
        (QpState::INIT, QpState::RTR) => (
            by_kind(
                0,
                bits!(IBV_QP_AV IBV_QP_PATH_MTU IBV_QP_DEST_QPN IBV_QP_RQ_PSN),
                bits!(IBV_QP_MAX_DEST_RD_ATOMIC IBV_QP_MIN_RNR_TIMER),
            ),
            bits!(IBV_QP_PKEY_INDEX) | by_kind(bits!(IBV_QP_QKEY), bits!(IBV_QP_ALT_PATH IBV_QP_ACCESS_FLAGS), 0),
        ),
        (QpState::RTR, QpState::RTS) => (
            bits!(IBV_QP_SQ_PSN)
                | by_kind(
                    0,
                    0,
                    bits!(IBV_QP_TIMEOUT IBV_QP_RETRY_CNT IBV_QP_RNR_RETRY IBV_QP_MAX_QP_RD_ATOMIC),
                ),
            bits!(IBV_QP_CUR_STATE) | by_kind(bits!(IBV_QP_QKEY), PATH, bits!(IBV_QP_MIN_RNR_TIMER)),
        ),
        (QpState::RTS | QpState::SQD, QpState::RTS) => (
            0,
            bits!(IBV_QP_CUR_STATE) | by_kind(bits!(IBV_QP_QKEY), PATH, bits!(IBV_QP_MIN_RNR_TIMER)),
        ),
        (QpState::RTS, QpState::SQD) => (0, bits!(IBV_QP_EN_SQD_ASYNC_NOTIFY)),
        (QpState::SQD, QpState::SQD) => (
            0,
            bits!(IBV_QP_PKEY_INDEX)
                | by_kind(
                    bits!(IBV_QP_QKEY),
                    PATH | bits!(IBV_QP_AV),
                    bits!(IBV_QP_PORT IBV_QP_TIMEOUT IBV_QP_RETRY_CNT IBV_QP_RNR_RETRY IBV_QP_MAX_QP_RD_ATOMIC
                          IBV_QP_MAX_DEST_RD_ATOMIC IBV_QP_MIN_RNR_TIMER),
                ),
        ),
        // A reliable queue pair does not enter SQE: an error of its send queue ends it.
        (QpState::SQE, QpState::RTS) if !rc => {
            let own = by_kind(bits!(IBV_QP_QKEY), bits!(IBV_QP_ACCESS_FLAGS), 0);
            (0, bits!(IBV_QP_CUR_STATE) | own)
        }
        _ => return None,
    };
    Some(Attributes { required, optional })
}

/// Why a change of a queue pair was refused, as far as its attributes tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnosis {
    /// There is no way from the one state to the other.
    pub no_transition: bool,
    /// Attributes that the transition needs and that were not given, by their names in [`Modify`].
    pub missing: Vec<&'static str>,
    /// Attributes that were given and that the transition does not allow.
    pub superfluous: Vec<&'static str>,
    /// Attributes whose value cannot be: name, value and range.
    pub out_of_range: Vec<String>,
    /// What else may be the reason.
    pub hint: Option<&'static str>,
}

impl Diagnosis {
    /// Looks at `modify`, to be asked of a queue pair of this service in state `from`. Nobody is called.
    #[must_use]
    pub fn of(kind: QpType, from: QpState, modify: &Modify) -> Self {
        let from = modify.current_state.unwrap_or(from);
        let given = modify.to_c().1 & !mask::IBV_QP_STATE.0;
        let mut diagnosis = Self {
            out_of_range: out_of_range(modify),
            ..Self::default()
        };
        match attributes(kind, from, modify.state) {
            Some(Attributes { required, optional }) => {
                diagnosis.missing = names(required & !given);
                diagnosis.superfluous = names(given & !(required | optional));
            }
            // A state that could not be read proves nothing.
            None => diagnosis.no_transition = from.name().is_some(),
        }
        diagnosis
    }

    /// Whether nothing was found: the transition exists, and attributes and ranges suit it.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        !self.no_transition && self.missing.is_empty() && self.superfluous.is_empty() && self.out_of_range.is_empty()
    }

    /// The same after a refusal with this error number, which may have another reason.
    pub(super) fn of_refusal(kind: QpType, from: QpState, modify: &Modify, errno: Option<i32>) -> Self {
        let mut diagnosis = Self::of(kind, from, modify);
        let from = modify.current_state.unwrap_or(from);
        diagnosis.hint = match errno {
            Some(libc::ETIMEDOUT | libc::EHOSTUNREACH | libc::ENETUNREACH) => {
                Some("the destination GID was not resolved to a MAC address: is the other side up and on this network?")
            }
            Some(libc::ENOMEM) => Some("the device or the kernel is out of resources"),
            Some(libc::EIO | libc::ENODEV) => Some("the device went away: see `dmesg`, then open it again"),
            _ if !diagnosis.is_clean() => None,
            _ if from.name().is_none() => Some("the state that it was in could not be read, so no more is known"),
            _ => Some(
                "the attributes are those of this transition and each is in its range, so a value does not suit the \
                 device: compare port, pkey_index, sgid_index and GID (on Ethernet the address needs one), path_mtu, \
                 max_rd_atomic and max_dest_rd_atomic with what query_device, query_port and gid_table say",
            ),
        };
        diagnosis
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.no_transition {
            parts.push(
                "there is no such transition: the way is RESET, INIT, RTR, RTS; to RESET from anywhere; to ERR from \
                 anywhere but RESET"
                    .to_owned(),
            );
        }
        if !self.missing.is_empty() {
            parts.push(format!("this transition needs {} too", self.missing.join(", ")));
        }
        if !self.superfluous.is_empty() {
            parts.push(format!("it does not allow {}", self.superfluous.join(", ")));
        }
        parts.extend(self.out_of_range.iter().cloned());
        parts.extend(self.hint.map(str::to_owned));
        f.write_str(&parts.join("; "))
    }
}

fn names(bits: u32) -> Vec<&'static str> {
    NAMES
        .iter()
        .filter(|(bit, _)| bits & bit != 0)
        .map(|(_, name)| *name)
        .collect()
}

/// Attributes whose value does not fit its field in the architecture.
fn out_of_range(modify: &Modify) -> Vec<String> {
    let field = |name: &str, value: Option<u32>, most: u32| {
        let value = value.filter(|value| *value > most)?;
        Some(format!("{name} is {value:#x}, which is more than {most:#x}"))
    };
    let address = modify.address.unwrap_or_default();
    let route = address.gid.unwrap_or_default();
    let ranges = [
        field("rq_psn", modify.rq_psn, 0xff_ffff),
        field("sq_psn", modify.sq_psn, 0xff_ffff),
        field("dest_qpn", modify.dest_qpn, 0xff_ffff),
        field("min_rnr_timer", modify.min_rnr_timer.map(u32::from), 31),
        field("timeout", modify.timeout.map(u32::from), 31),
        field("retry_cnt", modify.retry_cnt.map(u32::from), 7),
        field("rnr_retry", modify.rnr_retry.map(u32::from), 7),
        field("address.sl", Some(address.sl.into()), 15),
        field("address.gid.flow_label", Some(route.flow_label), 0xf_ffff),
        modify.path_mtu.filter(|mtu| mtu.bytes().is_none()).map(|mtu| {
            format!(
                "path_mtu is code {}, expected {} to {}",
                mtu.0,
                Mtu::MTU_256.0,
                Mtu::MTU_4096.0
            )
        }),
    ];
    ranges.into_iter().flatten().collect()
}
