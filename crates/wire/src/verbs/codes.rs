//! Codes and names of `infiniband/verbs.h`, as newtypes, because a device may return any number.

use core::fmt;

macro_rules! codes {
    ($(#[$docs:meta])* $type:ident $prefix:literal $unknown:literal { $($code:literal $name:ident)* }) => {
        $(#[$docs])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $type(pub u32);

        impl $type {
            $(
                #[doc = concat!("`", $prefix, stringify!($name), "`.")]
                pub const $name: Self = Self($code);
            )*

            /// All codes with a name.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.0 {
                    $($code => f.write_str(concat!($prefix, stringify!($name))),)*
                    other => write!(f, concat!($unknown, " {} (unknown)"), other),
                }
            }
        }
    };
}

codes! {
    /// Status of a completed work request (`enum ibv_wc_status`).
    WcStatus "IBV_WC_" "completion status" {
        0 SUCCESS 1 LOC_LEN_ERR 2 LOC_QP_OP_ERR 3 LOC_EEC_OP_ERR 4 LOC_PROT_ERR 5 WR_FLUSH_ERR 6 MW_BIND_ERR
        7 BAD_RESP_ERR 8 LOC_ACCESS_ERR 9 REM_INV_REQ_ERR 10 REM_ACCESS_ERR 11 REM_OP_ERR 12 RETRY_EXC_ERR
        13 RNR_RETRY_EXC_ERR 14 LOC_RDD_VIOL_ERR 15 REM_INV_RD_REQ_ERR 16 REM_ABORT_ERR 17 INV_EECN_ERR
        18 INV_EEC_STATE_ERR 19 FATAL_ERR 20 RESP_TIMEOUT_ERR 21 GENERAL_ERR 22 TM_ERR 23 TM_RNDV_INCOMPLETE
    }
}
codes! {
    /// Operation of a completed work request (`enum ibv_wc_opcode`).
    WcOpcode "IBV_WC_" "completion opcode" {
        0 SEND 1 RDMA_WRITE 2 RDMA_READ 3 COMP_SWAP 4 FETCH_ADD 5 BIND_MW 6 LOCAL_INV 7 TSO 9 ATOMIC_WRITE
        128 RECV 129 RECV_RDMA_WITH_IMM
    }
}
codes! {
    /// Asynchronous event of a device or one of its objects (`enum ibv_event_type`).
    EventKind "IBV_EVENT_" "event" {
        0 CQ_ERR 1 QP_FATAL 2 QP_REQ_ERR 3 QP_ACCESS_ERR 4 COMM_EST 5 SQ_DRAINED 6 PATH_MIG 7 PATH_MIG_ERR
        8 DEVICE_FATAL 9 PORT_ACTIVE 10 PORT_ERR 11 LID_CHANGE 12 PKEY_CHANGE 13 SM_CHANGE 14 SRQ_ERR
        15 SRQ_LIMIT_REACHED 16 QP_LAST_WQE_REACHED 17 CLIENT_REREGISTER 18 GID_CHANGE 19 WQ_FATAL
    }
}

impl WcOpcode {
    /// Returns whether the code belongs to a receive request, by its bit 7.
    #[must_use]
    pub fn is_receive(self) -> bool {
        self.0 & Self::RECV.0 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_print_header_names() {
        assert_eq!(WcStatus::RNR_RETRY_EXC_ERR.to_string(), "IBV_WC_RNR_RETRY_EXC_ERR");
        assert_eq!(WcStatus(77).to_string(), "completion status 77 (unknown)");
        assert_eq!(WcOpcode(8).to_string(), "completion opcode 8 (unknown)");
        assert_eq!(EventKind::QP_ACCESS_ERR.to_string(), "IBV_EVENT_QP_ACCESS_ERR");
    }
}
