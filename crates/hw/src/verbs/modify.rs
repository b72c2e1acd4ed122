//! Converts queue pair attributes to C structures.

use verbatim_wire::verbs::{AddressVector, QpAttributes, QpState};

use super::{
    c::{self, ibv_qp_attr_mask as mask},
    ffi::Zeroed,
    types::access_flags,
};

/// Returns the C attributes, the mask of the set attributes, and the names of the given attributes. An address uses the
/// local port `port`.
///
/// Passes values on unchanged, even invalid values, because the driver must refuse them.
pub(super) fn to_c(to: QpState, named: &QpAttributes, port: u8) -> (c::ibv_qp_attr, u32, Vec<&'static str>) {
    let mut attributes = c::ibv_qp_attr::zeroed();
    attributes.qp_state = state_to_c(to);
    let mut set = mask::IBV_QP_STATE.0;
    let mut names = Vec::new();
    macro_rules! put {
        ($($option:ident as $value:ident, $bit:ident: $field:ident = $expression:expr;)*) => {
            $(if let Some($value) = named.$option {
                attributes.$field = $expression;
                set |= mask::$bit.0;
                names.push(stringify!($option));
            })*
        };
    }
    put! {
        pkey_index as index, IBV_QP_PKEY_INDEX: pkey_index = index;
        port as port, IBV_QP_PORT: port_num = port;
        access as access, IBV_QP_ACCESS_FLAGS: qp_access_flags = access_flags(access);
        qkey as qkey, IBV_QP_QKEY: qkey = qkey.0;
        path_mtu as mtu, IBV_QP_PATH_MTU: path_mtu = mtu.0.into();
        dest_qpn as qpn, IBV_QP_DEST_QPN: dest_qp_num = qpn.0;
        rq_psn as psn, IBV_QP_RQ_PSN: rq_psn = psn.0;
        sq_psn as psn, IBV_QP_SQ_PSN: sq_psn = psn.0;
        max_dest_rd_atomic as most, IBV_QP_MAX_DEST_RD_ATOMIC: max_dest_rd_atomic = most;
        max_rd_atomic as most, IBV_QP_MAX_QP_RD_ATOMIC: max_rd_atomic = most;
        min_rnr_timer as code, IBV_QP_MIN_RNR_TIMER: min_rnr_timer = code.0;
        address as address, IBV_QP_AV: ah_attr = address_to_c(&address, port);
        timeout as code, IBV_QP_TIMEOUT: timeout = code.0;
        retry_cnt as count, IBV_QP_RETRY_CNT: retry_cnt = count;
        rnr_retry as count, IBV_QP_RNR_RETRY: rnr_retry = count;
    }
    (attributes, set, names)
}

fn state_to_c(state: QpState) -> c::ibv_qp_state::Type {
    match state {
        QpState::Reset => c::ibv_qp_state::IBV_QPS_RESET,
        QpState::Init => c::ibv_qp_state::IBV_QPS_INIT,
        QpState::Rtr => c::ibv_qp_state::IBV_QPS_RTR,
        QpState::Rts => c::ibv_qp_state::IBV_QPS_RTS,
        QpState::Sqd => c::ibv_qp_state::IBV_QPS_SQD,
        QpState::Sqe => c::ibv_qp_state::IBV_QPS_SQE,
        QpState::Err => c::ibv_qp_state::IBV_QPS_ERR,
    }
}

/// Converts a C state; returns `None` for an unknown number.
pub(super) fn state_from_c(seen: c::ibv_qp_state::Type) -> Option<QpState> {
    QpState::ALL.into_iter().find(|state| state_to_c(*state) == seen)
}

/// Converts an address that is reached through the local port `port`. Sets the local path bits and the static rate to
/// 0.
pub(super) fn address_to_c(to: &AddressVector, port: u8) -> c::ibv_ah_attr {
    let mut attributes = c::ibv_ah_attr::zeroed();
    attributes.dlid = to.dlid;
    attributes.sl = to.sl;
    attributes.port_num = port;
    if let Some(dgid) = to.dgid {
        attributes.is_global = 1;
        attributes.grh = c::ibv_global_route {
            dgid: c::ibv_gid { raw: dgid.0 },
            flow_label: to.flow_label,
            sgid_index: to.sgid_index,
            hop_limit: to.hop_limit,
            traffic_class: to.traffic_class,
        };
    }
    attributes
}
