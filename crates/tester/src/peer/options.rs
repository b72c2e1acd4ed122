//! What connections are to be like, and what our packets on them carry.

use verbatim_record::verbs::pb;
use verbatim_wire::Mtu;
use verbatim_wire::packet::{AckTimeout, Psn, RnrTimer};

/// Hop limit where nothing else is asked for.
pub(super) const HOP_LIMIT: u8 = 64;
/// All rights.
pub(super) const ALL: pb::Access = pb::Access {
    local_write: true,
    remote_write: true,
    remote_read: true,
    remote_atomic: true,
};

/// The step that gives the other side its rights on a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RightsBy {
    /// RESET to INIT.
    #[default]
    Init,
    /// INIT to INIT, behind one that gives none.
    InitAgain,
    /// INIT to RTR.
    Rtr,
}

/// What a connection is to be like, as the DUT's queue pair is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChannelOptions {
    /// Path MTU; the port's active MTU if that is smaller, and the nearest that the device has if it has not this one.
    pub mtu: Mtu,
    /// Local ACK timeout; off by default, so that nothing but what is under test makes the DUT send again.
    pub timeout: AckTimeout,
    /// Retries after time-outs and sequence errors.
    pub retry_cnt: u8,
    /// Retries after RNR NAKs; 7 = without end.
    pub rnr_retry: u8,
    /// READs and atomics that the DUT has in flight; as many as it can if those are fewer.
    pub max_rd_atomic: u8,
    /// READs and atomics that the DUT answers at a time; as many as it can if those are fewer.
    pub max_dest_rd_atomic: u8,
    /// What the DUT's RNR NAKs ask for.
    pub min_rnr_timer: RnrTimer,
    /// What we may do on the DUT's queue pair.
    pub qp_access: pb::Access,
    /// The step that says so.
    pub rights_by: RightsBy,
    /// What may be done with the DUT's memory.
    pub memory_access: pb::Access,
    /// Bytes of the DUT's memory.
    pub memory: u32,
    /// First PSN of the DUT's requests; drawn by default.
    pub psn: Option<Psn>,
    /// First PSN of our requests; drawn by default.
    pub own_psn: Option<Psn>,
    /// Hop limit, traffic class and flow label of the DUT's address vector.
    pub network: (u8, u8, u32),
    /// Whether the DUT's queue pair goes on to RTS; else it stays in RTR, and the test takes it there.
    pub to_rts: bool,
}

impl ChannelOptions {
    /// Bytes of the DUT's memory where nothing else is asked for.
    pub const MEMORY: u32 = 64 * 1024;

    /// The same as far as a device can: path MTU, READs and atomics at a time. A device that does not say how many can all.
    pub(super) fn within(&self, facts: &pb::Opened) -> Self {
        let least = |asked: u8, most: u32| match u8::try_from(most) {
            Ok(0) | Err(_) => asked,
            Ok(most) => asked.min(most),
        };
        Self {
            mtu: Mtu(least(self.mtu.0, facts.active_mtu)),
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

/// What the peer's packets carry that decides nothing: a network may change it, or a later version of the protocol may give it a meaning.
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
