//! Input of the check: a configured port, and a received packet.

use verbatim_wire::{Delimiter, Lid, Medium, Mtu, PKey, PortState};

/// Kind of node that a port belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Channel adapter: every packet that it accepts is for itself.
    Ca,
    /// Router.
    Router,
    /// Switch; packets for the switch itself end at its port 0.
    Switch,
}

/// Port and its configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Port {
    /// Kind of node that the port belongs to.
    pub kind: Kind,
    /// Whether this node is the destination of the packets, not a hop on their way. A channel adapter is always the
    /// destination, regardless of this value.
    pub is_destination: bool,
    /// PortInfo:LID, the first LID of the range; for a switch, the LID of port 0. `None`: unknown; unicast DLIDs are
    /// not checked.
    pub lid: Option<Lid>,
    /// PortInfo:LMC: the port has 2^LMC LIDs; 0..=7, higher values count as 7.
    pub lmc: u8,
    /// PortInfo:MTUCap. An undefined code counts as unknown: lengths are not compared with it.
    pub mtu_cap: Mtu,
    /// Number of data VLs in operation, from VL 0 on: 1..=15. VL 15 is always in operation, too.
    pub vls: u8,
    /// PortInfo:PortState. Codes other than Down and Initialize admit every packet.
    pub state: PortState,
    /// P_Keys of the port. `None`: unknown. For a switch or router on the way, P_Keys mean that the port enforces
    /// partitions inbound.
    pub p_keys: Option<Vec<PKey>>,
}

impl Port {
    /// Returns a channel adapter's port without restrictions or known addresses: MTU 4096, 15 data VLs, Active.
    #[must_use]
    pub const fn channel_adapter() -> Self {
        Self {
            kind: Kind::Ca,
            is_destination: true,
            lid: None,
            lmc: 0,
            mtu_cap: Mtu::B4096,
            vls: 15,
            state: PortState::ACTIVE,
            p_keys: None,
        }
    }

    /// Returns whether packets end at this port.
    pub(super) fn is_end(&self) -> bool {
        self.kind == Kind::Ca || self.is_destination
    }

    /// Returns the first and last LID of the port.
    pub(super) fn lids(&self) -> Option<(Lid, Lid)> {
        let low = (1_u16 << self.lmc.min(7)) - 1;
        self.lid.map(|lid| (Lid(lid.0 & !low), Lid(lid.0 | low)))
    }

    /// Returns whether a P_Key of the port matches the packet's P_Key: both name the same partition, and at least one
    /// of them has full membership.
    pub(super) fn takes(&self, p_key: PKey) -> bool {
        let takes =
            |own: &PKey| own.0 & 0x7FFF == p_key.0 & 0x7FFF && own.0 & 0x7FFF != 0 && (own.0 | p_key.0) & 0x8000 != 0;
        self.p_keys.iter().flatten().any(takes)
    }
}

/// Received packet.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// Framing: how the bytes begin and end.
    pub medium: Medium,
    /// Bytes between the delimiters on native InfiniBand, or of the frame on Ethernet.
    pub bytes: &'a [u8],
    /// Delimiter at the packet's end; `None` if unknown, as in most captures.
    pub delimiter: Option<Delimiter>,
    /// Whether these are all the bytes that arrived. A packet that the capture truncated is not judged.
    pub is_whole: bool,
}
