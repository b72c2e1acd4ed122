//! Attributes of a queue pair: each one named, none set behind the caller's back.

use super::{
    ffi::Zeroed,
    generated::{self as c, ibv_qp_attr_mask as mask},
    types::{AccessFlags, MigrationState, Mtu, QpState, QpType},
};

pub use super::transitions::Diagnosis;

/// What to change on a queue pair. What is `None` is not handed to the driver at all.
///
/// Values go out as they are, impossible ones too: refusing them is the driver's.
///
/// ```
/// use verbatim_hw::verbs::{AccessFlags, Modify, QpState};
///
/// let to_init = Modify {
///     pkey_index: Some(0),
///     port: Some(1),
///     access: Some(AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE),
///     ..Modify::to(QpState::INIT)
/// };
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Modify {
    /// The state to go to.
    pub state: QpState,
    /// The state that it is in, as the caller believes.
    pub current_state: Option<QpState>,
    /// Index into the port's partition table.
    pub pkey_index: Option<u16>,
    /// Port, from 1.
    pub port: Option<u8>,
    /// What the other side may do.
    pub access: Option<AccessFlags>,
    /// Q_Key (UD).
    pub qkey: Option<u32>,
    /// Path MTU.
    pub path_mtu: Option<Mtu>,
    /// Queue pair of the other side.
    pub dest_qpn: Option<u32>,
    /// PSN that is expected first, 24 bits.
    pub rq_psn: Option<u32>,
    /// PSN that is sent first, 24 bits.
    pub sq_psn: Option<u32>,
    /// Reads and atomics that we serve at a time as responder.
    pub max_dest_rd_atomic: Option<u8>,
    /// Reads and atomics that we have on their way at a time as requester.
    pub max_rd_atomic: Option<u8>,
    /// The wait that we ask for in an RNR NAK, as its 5-bit code: 0 means 655.36 ms, 1 means 0.01 ms, 31 means 491.52 ms.
    pub min_rnr_timer: Option<u8>,
    /// The way to the other side.
    pub address: Option<AddressVector>,
    /// Local ACK timeout, as its 5-bit code: 4.096 µs · 2^code, 0 for no timeout.
    pub timeout: Option<u8>,
    /// Retries after a timeout or a sequence error, 0 to 7.
    pub retry_cnt: Option<u8>,
    /// Retries after an RNR NAK, 0 to 6; 7 for no end.
    pub rnr_retry: Option<u8>,
    /// The other way, for automatic path migration.
    pub alternate: Option<AlternatePath>,
    /// State of automatic path migration.
    pub path_mig_state: Option<MigrationState>,
    /// Raise an event when the send queue has drained (to SQD only).
    pub sqd_async_notify: Option<bool>,
}

/// Where packets go: a LID, a GID, or both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressVector {
    /// LID of the other side; 0 on Ethernet.
    pub dlid: u16,
    /// Service level.
    pub sl: u8,
    /// Low bits of our own LID.
    pub src_path_bits: u8,
    /// Rate limit as its code, 0 for none.
    pub static_rate: u8,
    /// Our port, from 1.
    pub port: u8,
    /// The global route: needed on Ethernet, and between subnets.
    pub gid: Option<GlobalRoute>,
}

/// The part of an address that goes into the global route header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GlobalRoute {
    /// GID of the other side.
    pub dgid: [u8; 16],
    /// Index of ours in the port's table.
    pub sgid_index: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
}

/// The other way, for automatic path migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlternatePath {
    /// Where packets go.
    pub address: AddressVector,
    /// Index into that port's partition table.
    pub pkey_index: u16,
    /// Our port there, from 1.
    pub port: u8,
    /// Local ACK timeout there, as its code.
    pub timeout: u8,
}

impl Modify {
    /// To `state`, with no attribute.
    #[must_use]
    pub fn to(state: QpState) -> Self {
        Self {
            state,
            current_state: None,
            pkey_index: None,
            port: None,
            access: None,
            qkey: None,
            path_mtu: None,
            dest_qpn: None,
            rq_psn: None,
            sq_psn: None,
            max_dest_rd_atomic: None,
            max_rd_atomic: None,
            min_rnr_timer: None,
            address: None,
            timeout: None,
            retry_cnt: None,
            rnr_retry: None,
            alternate: None,
            path_mig_state: None,
            sqd_async_notify: None,
        }
    }

    /// As C has it: the attributes, and the mask of those that count.
    pub(super) fn to_c(&self) -> (c::ibv_qp_attr, u32) {
        let mut attributes = c::ibv_qp_attr::zeroed();
        attributes.qp_state = c::ibv_qp_state(self.state.0);
        let mut set = mask::IBV_QP_STATE.0;
        macro_rules! put {
            ($($option:ident as $value:ident, $bit:ident: $($field:ident = $expression:expr),+;)*) => {
                $(if let Some($value) = self.$option {
                    $(attributes.$field = $expression;)+
                    set |= mask::$bit.0;
                })*
            };
        }
        put! {
            current_state as state, IBV_QP_CUR_STATE: cur_qp_state = c::ibv_qp_state(state.0);
            pkey_index as index, IBV_QP_PKEY_INDEX: pkey_index = index;
            port as port, IBV_QP_PORT: port_num = port;
            access as access, IBV_QP_ACCESS_FLAGS: qp_access_flags = access.0;
            qkey as qkey, IBV_QP_QKEY: qkey = qkey;
            path_mtu as mtu, IBV_QP_PATH_MTU: path_mtu = c::ibv_mtu(mtu.0);
            dest_qpn as qpn, IBV_QP_DEST_QPN: dest_qp_num = qpn;
            rq_psn as psn, IBV_QP_RQ_PSN: rq_psn = psn;
            sq_psn as psn, IBV_QP_SQ_PSN: sq_psn = psn;
            max_dest_rd_atomic as most, IBV_QP_MAX_DEST_RD_ATOMIC: max_dest_rd_atomic = most;
            max_rd_atomic as most, IBV_QP_MAX_QP_RD_ATOMIC: max_rd_atomic = most;
            min_rnr_timer as code, IBV_QP_MIN_RNR_TIMER: min_rnr_timer = code;
            address as address, IBV_QP_AV: ah_attr = address.to_c();
            timeout as code, IBV_QP_TIMEOUT: timeout = code;
            retry_cnt as count, IBV_QP_RETRY_CNT: retry_cnt = count;
            rnr_retry as count, IBV_QP_RNR_RETRY: rnr_retry = count;
            alternate as other, IBV_QP_ALT_PATH: alt_ah_attr = other.address.to_c(), alt_pkey_index = other.pkey_index,
                alt_port_num = other.port, alt_timeout = other.timeout;
            path_mig_state as state, IBV_QP_PATH_MIG_STATE: path_mig_state = c::ibv_mig_state(state.0);
            sqd_async_notify as notify, IBV_QP_EN_SQD_ASYNC_NOTIFY: en_sqd_async_notify = notify.into();
        }
        (attributes, set)
    }
}

impl AddressVector {
    pub(super) fn to_c(self) -> c::ibv_ah_attr {
        let mut attributes = c::ibv_ah_attr::zeroed();
        attributes.dlid = self.dlid;
        attributes.sl = self.sl;
        attributes.src_path_bits = self.src_path_bits;
        attributes.static_rate = self.static_rate;
        attributes.port_num = self.port;
        if let Some(route) = self.gid {
            attributes.is_global = 1;
            attributes.grh = c::ibv_global_route {
                dgid: c::ibv_gid { raw: route.dgid },
                flow_label: route.flow_label,
                sgid_index: route.sgid_index,
                hop_limit: route.hop_limit,
                traffic_class: route.traffic_class,
            };
        }
        attributes
    }

    pub(super) fn from_c(seen: &c::ibv_ah_attr) -> Self {
        Self {
            dlid: seen.dlid,
            sl: seen.sl,
            src_path_bits: seen.src_path_bits,
            static_rate: seen.static_rate,
            port: seen.port_num,
            gid: (seen.is_global != 0).then_some(GlobalRoute {
                // SAFETY: both members of the union are sixteen plain bytes.
                dgid: unsafe { seen.grh.dgid.raw },
                sgid_index: seen.grh.sgid_index,
                flow_label: seen.grh.flow_label,
                hop_limit: seen.grh.hop_limit,
                traffic_class: seen.grh.traffic_class,
            }),
        }
    }
}

/// What a driver says that a queue pair is set to. Attributes that the state does not use yet mean nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QpAttributes {
    /// Service.
    pub kind: QpType,
    /// State.
    pub state: QpState,
    /// Index into the port's partition table.
    pub pkey_index: u16,
    /// Port.
    pub port: u8,
    /// What the other side may do.
    pub access: AccessFlags,
    /// Q_Key.
    pub qkey: u32,
    /// Path MTU.
    pub path_mtu: Mtu,
    /// Queue pair of the other side.
    pub dest_qpn: u32,
    /// PSN expected (drivers differ in whether it moves on).
    pub rq_psn: u32,
    /// PSN to be sent (drivers differ in whether it moves on).
    pub sq_psn: u32,
    /// Reads and atomics served at a time.
    pub max_dest_rd_atomic: u8,
    /// Reads and atomics on their way at a time.
    pub max_rd_atomic: u8,
    /// Code of the wait asked for in RNR NAKs.
    pub min_rnr_timer: u8,
    /// The way to the other side.
    pub address: AddressVector,
    /// Code of the local ACK timeout.
    pub timeout: u8,
    /// Retries after a timeout or a sequence error.
    pub retry_cnt: u8,
    /// Retries after an RNR NAK.
    pub rnr_retry: u8,
    /// State of automatic path migration.
    pub path_mig_state: MigrationState,
    /// Whether the send queue is still draining (state SQD).
    pub sq_draining: bool,
    /// Sizes of the queues.
    pub capacity: Capacity,
}

impl QpAttributes {
    pub(super) fn from_c(seen: &c::ibv_qp_attr, kind: QpType) -> Self {
        Self {
            kind,
            state: QpState(seen.qp_state.0),
            pkey_index: seen.pkey_index,
            port: seen.port_num,
            access: AccessFlags(seen.qp_access_flags),
            qkey: seen.qkey,
            path_mtu: Mtu(seen.path_mtu.0),
            dest_qpn: seen.dest_qp_num,
            rq_psn: seen.rq_psn,
            sq_psn: seen.sq_psn,
            max_dest_rd_atomic: seen.max_dest_rd_atomic,
            max_rd_atomic: seen.max_rd_atomic,
            min_rnr_timer: seen.min_rnr_timer,
            address: AddressVector::from_c(&seen.ah_attr),
            timeout: seen.timeout,
            retry_cnt: seen.retry_cnt,
            rnr_retry: seen.rnr_retry,
            path_mig_state: MigrationState(seen.path_mig_state.0),
            sq_draining: seen.sq_draining != 0,
            capacity: Capacity::from_c(&seen.cap),
        }
    }
}

/// Sizes of a queue pair's queues (`struct ibv_qp_cap`; names are those of the header).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Work requests of the send queue.
    pub max_send_wr: u32,
    /// Work requests of the receive queue.
    pub max_recv_wr: u32,
    /// Segments of one send.
    pub max_send_sge: u32,
    /// Segments of one receive.
    pub max_recv_sge: u32,
    /// Bytes that a send may carry inline.
    pub max_inline_data: u32,
}

impl Default for Capacity {
    /// 64 requests of one segment each way, nothing inline.
    fn default() -> Self {
        Self {
            max_send_wr: 64,
            max_recv_wr: 64,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: 0,
        }
    }
}

impl Capacity {
    pub(super) fn to_c(self) -> c::ibv_qp_cap {
        c::ibv_qp_cap {
            max_send_wr: self.max_send_wr,
            max_recv_wr: self.max_recv_wr,
            max_send_sge: self.max_send_sge,
            max_recv_sge: self.max_recv_sge,
            max_inline_data: self.max_inline_data,
        }
    }

    pub(super) fn from_c(seen: &c::ibv_qp_cap) -> Self {
        Self {
            max_send_wr: seen.max_send_wr,
            max_recv_wr: seen.max_recv_wr,
            max_send_sge: seen.max_send_sge,
            max_recv_sge: seen.max_recv_sge,
            max_inline_data: seen.max_inline_data,
        }
    }
}
