//! Options of connections, and header fields of the packets that the peer sends on them.

use verbatim_record::verbs::pb;
use verbatim_wire::Mtu;
use verbatim_wire::packet::{AckTimeout, Psn, RnrTimer};

use super::offered::nearest_path_mtu;

/// Default hop limit.
pub(super) const HOP_LIMIT: u8 = 64;
/// All access rights.
pub(super) const ALL: pb::Access = pb::Access {
    local_write: true,
    remote_write: true,
    remote_read: true,
    remote_atomic: true,
};

/// The transition that sets the other side's access rights on a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RightsBy {
    /// RESET to INIT.
    #[default]
    Init,
    /// INIT to INIT, after a transition from RESET to INIT without rights.
    InitAgain,
    /// INIT to RTR.
    Rtr,
}

/// Options of a connection, from the view of the DUT's queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChannelOptions {
    /// Path MTU, limited to the port's active MTU and replaced by the nearest MTU that the device supports.
    pub mtu: Mtu,
    /// Local ACK timeout; off by default, so that only the tested behaviour makes the DUT retransmit.
    pub timeout: AckTimeout,
    /// Retries after timeouts and sequence errors.
    pub retry_cnt: u8,
    /// Retries after RNR NAKs; 7 means no limit.
    pub rnr_retry: u8,
    /// Maximum number of outstanding READs and atomics of the DUT as requester, at most the device's own limit.
    pub max_rd_atomic: u8,
    /// Maximum number of outstanding READs and atomics that the DUT accepts as responder, at most the device's own
    /// limit.
    pub max_dest_rd_atomic: u8,
    /// Timer code in the DUT's RNR NAKs.
    pub min_rnr_timer: RnrTimer,
    /// The peer's access rights on the DUT's queue pair.
    pub qp_access: pb::Access,
    /// The transition that sets `qp_access`.
    pub rights_by: RightsBy,
    /// Local and remote access rights on the DUT's memory.
    pub memory_access: pb::Access,
    /// Length of the DUT's memory in bytes.
    pub memory: u32,
    /// First PSN of the DUT's requests; random if `None`.
    pub psn: Option<Psn>,
    /// First PSN of the peer's requests; random if `None`. Between two adapters, it is the PSN that this end expects
    /// first; `None` means the first PSN of the other end.
    pub own_psn: Option<Psn>,
    /// Hop limit, traffic class and flow label of the DUT's address vector.
    pub network: (u8, u8, u32),
    /// Whether the setup moves the DUT's queue pair to RTS. Otherwise it stays in RTR until the test modifies it.
    pub to_rts: bool,
}

impl ChannelOptions {
    /// Returns the options of a connection to the packet peer on this device: within the device's limits, with the
    /// nearest path MTU that it supports.
    #[must_use]
    pub fn on(&self, opened: &pb::Opened) -> Self {
        let within = self.within(opened);
        Self {
            mtu: nearest_path_mtu(opened, within.mtu),
            ..within
        }
    }

    /// Default length of the DUT's memory in bytes.
    pub const MEMORY: u32 = 64 * 1024;

    /// Limits the path MTU and the numbers of READs and atomics to those that the device reports. A reported MTU of 0
    /// means no limit.
    pub(super) fn within(&self, facts: &pb::Opened) -> Self {
        let least = |asked: u8, most: u32| u8::try_from(most).map_or(asked, |most| asked.min(most));
        Self {
            mtu: match facts.active_mtu {
                0 => self.mtu,
                most => Mtu(least(self.mtu.0, most)),
            },
            max_rd_atomic: least(self.max_rd_atomic, facts.max_qp_init_rd_atom),
            max_dest_rd_atomic: least(self.max_dest_rd_atomic, facts.max_qp_rd_atom),
            ..*self
        }
    }
}

impl Default for ChannelOptions {
    fn default() -> Self {
        Self {
            mtu: Mtu(3),
            timeout: AckTimeout::OFF,
            retry_cnt: 7,
            rnr_retry: 7,
            max_rd_atomic: 4,
            max_dest_rd_atomic: 4,
            min_rnr_timer: RnrTimer(12),
            qp_access: ALL,
            rights_by: RightsBy::Init,
            memory_access: ALL,
            memory: Self::MEMORY,
            psn: None,
            own_psn: None,
            network: (HOP_LIMIT, 0, 0),
            to_rts: true,
        }
    }
}

/// Header fields of the peer's packets that must not affect the DUT. A network may change these fields, or a later
/// version of the protocol may define them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marks {
    /// DSCP and ECN of the IP header.
    pub traffic_class: u8,
    /// TTL, or hop limit, of the IP header.
    pub hop_limit: u8,
    /// The six reserved bits of the BTH before DestQP.
    pub reserved: u8,
}

impl Default for Marks {
    fn default() -> Self {
        Self {
            traffic_class: 0,
            hop_limit: HOP_LIMIT,
            reserved: 0,
        }
    }
}
