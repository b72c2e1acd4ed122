//! What a port is to the packets that reach it, and what the architecture leaves to its implementer.

use verbatim_wire::{Lid, Mtu, PKey, PortState};

/// The kind of node that a port belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortKind {
    /// A channel adapter: the destination of every packet that reaches it.
    ChannelAdapter,
    /// A switch.
    Switch,
    /// A router.
    Router,
}

/// A port as its subnet manager has set it up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkProfile {
    /// What it belongs to.
    pub kind: PortKind,
    /// The packets end here, such as MADs for a switch itself; else they pass through. A channel adapter's always end
    /// here, whatever this says.
    pub is_destination: bool,
    /// PortInfo:LID, the base of its range; 0 while none is assigned.
    pub lid: Lid,
    /// PortInfo:LMC, 0 to 7; more is taken as 7.
    pub lmc: u8,
    /// PortInfo:MTUCap. A code without a meaning is taken as 256 bytes.
    pub mtu_cap: Mtu,
    /// How many data VLs are operational, from VL0 on: 1 to 15; more is taken as 15. VL15 is always there.
    pub data_vls: u8,
    /// PortInfo:PortState. Any code but Initialize, Armed and Active is taken as Down.
    pub state: PortState,
    /// The P_Key table. Entries whose low 15 bits are 0 are invalid and match nothing.
    pub p_keys: Vec<PKey>,
    /// PortInfo:FilterRawInbound. Means nothing on a channel adapter.
    pub filters_raw: bool,
    /// PortInfo:PartitionEnforcementInbound: packets in transit are held against the P_Key table. Means nothing on a
    /// channel adapter.
    pub enforces_partitions: bool,
    /// What the architecture leaves to the implementer.
    pub choices: LinkChoices,
}

/// Choices of an implementer: every combination conforms. All but the last matter for packets in transit only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkChoices {
    /// A damaged packet is sent on marked as bad where that is allowed; else it is discarded.
    pub corrupts_and_forwards: bool,
    /// The ICRC is checked here too; else only its destination does that.
    pub checks_icrc_in_transit: bool,
    /// Of the damaged packets, those that are too short are sent on too; else they are discarded.
    pub forwards_short_packets: bool,
    /// A packet with a GRH on VL15 is taken like any other; else it is malformed.
    pub takes_grh_on_vl15: bool,
}

impl LinkProfile {
    /// A port of a channel adapter in state Active: LID `lid`, LMC 0, MTU 4096, VL0 to VL7, the default P_Key, full
    /// member.
    #[must_use]
    pub fn channel_adapter(lid: Lid) -> Self {
        Self {
            kind: PortKind::ChannelAdapter,
            is_destination: true,
            lid,
            lmc: 0,
            mtu_cap: Mtu::B4096,
            data_vls: 8,
            state: PortState::ACTIVE,
            p_keys: vec![PKey(0xFFFF)],
            filters_raw: false,
            enforces_partitions: false,
            choices: LinkChoices::default(),
        }
    }

    /// The same port on a switch, for packets that pass through.
    #[must_use]
    pub fn switch_in_transit(lid: Lid) -> Self {
        Self {
            kind: PortKind::Switch,
            is_destination: false,
            ..Self::channel_adapter(lid)
        }
    }

    /// Whether packets end here.
    pub(super) fn is_final(&self) -> bool {
        self.kind == PortKind::ChannelAdapter || self.is_destination
    }

    /// Whether the GRH is read here: where the packet ends, and in a router.
    pub(super) fn reads_grh(&self) -> bool {
        self.is_final() || self.kind == PortKind::Router
    }
}
