//! The properties of a port that determine its handling of packets, and the choices of its implementer.

use verbatim_wire::{Lid, Mtu, PKey, PortState};

/// The kind of node of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortKind {
    /// A channel adapter, which is the destination of every packet that it receives.
    ChannelAdapter,
    /// A switch.
    Switch,
    /// A router.
    Router,
}

/// A port as configured by its subnet manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkProfile {
    /// The kind of node.
    pub kind: PortKind,
    /// Whether packets end at this port, for example MADs to the switch itself. Otherwise they are in transit. A
    /// channel adapter is always the destination and ignores this field.
    pub is_destination: bool,
    /// PortInfo:LID, the base of the port's range; 0 if no LID is assigned.
    pub lid: Lid,
    /// PortInfo:LMC, 0 to 7; a larger value counts as 7.
    pub lmc: u8,
    /// PortInfo:MTUCap. An undefined code counts as 256 bytes.
    pub mtu_cap: Mtu,
    /// Number of operational data VLs, 1 to 15, from VL0 on; a larger value counts as 15. VL15 always exists.
    pub data_vls: u8,
    /// PortInfo:PortState. Codes other than Initialize, Armed and Active count as Down.
    pub state: PortState,
    /// The P_Key table. Entries with 0 in the low 15 bits are invalid and match no packet.
    pub p_keys: Vec<PKey>,
    /// PortInfo:FilterRawInbound. A channel adapter ignores this field.
    pub filters_raw: bool,
    /// PortInfo:PartitionEnforcementInbound: the port checks packets in transit against the P_Key table. A channel
    /// adapter ignores this field.
    pub enforces_partitions: bool,
    /// Choices that the architecture leaves to the implementer.
    pub choices: LinkChoices,
}

/// Choices of an implementer. Every combination conforms. All choices except `takes_grh_on_vl15` apply only to packets
/// in transit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkChoices {
    /// Whether the port forwards a damaged packet, marked as bad, where the architecture allows this. Otherwise the
    /// port discards it.
    pub corrupts_and_forwards: bool,
    /// Whether the port checks the ICRC in transit. Otherwise only the destination checks it.
    pub checks_icrc_in_transit: bool,
    /// Whether the port also forwards damaged packets that are too short. Otherwise the port discards them.
    pub forwards_short_packets: bool,
    /// Whether the port accepts a packet with a GRH on VL15. Otherwise such a packet is malformed.
    pub takes_grh_on_vl15: bool,
}

impl LinkProfile {
    /// Returns a port of a channel adapter in state Active: LID `lid`, LMC 0, MTU 4096, VL0 to VL7, full member of the
    /// default partition.
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

    /// Returns the same port on a switch, for packets in transit.
    #[must_use]
    pub fn switch_in_transit(lid: Lid) -> Self {
        Self {
            kind: PortKind::Switch,
            is_destination: false,
            ..Self::channel_adapter(lid)
        }
    }

    /// Returns whether packets end at this port.
    pub(super) fn is_final(&self) -> bool {
        self.kind == PortKind::ChannelAdapter || self.is_destination
    }

    /// Returns whether the port checks the GRH: a destination or a router.
    pub(super) fn reads_grh(&self) -> bool {
        self.is_final() || self.kind == PortKind::Router
    }
}
