//! The input of the check: a port as it is configured, and a packet as it was received.

use verbatim_wire::{Delimiter, Lid, Medium, Mtu, PKey, PortState};

/// The kind of node that a port belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A channel adapter: every packet that it accepts is for itself.
    Ca,
    /// A router.
    Router,
    /// A switch; its port 0 is where packets for the switch itself end.
    Switch,
}

/// A port and how it is configured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Port {
    /// The kind of node that it belongs to.
    pub kind: Kind,
    /// Whether packets are for this node itself, not on their way through it. A channel adapter is always the
    /// destination, whatever stands here.
    pub is_destination: bool,
    /// PortInfo:LID, the first of the range; of a switch, that of port 0. `None`: not known, so DLIDs of unicast
    /// packets are not checked.
    pub lid: Option<Lid>,
    /// PortInfo:LMC: the port has 2^LMC LIDs; 0..=7, higher ones count as 7.
    pub lmc: u8,
    /// PortInfo:MTUCap. A code without a meaning counts as not known: lengths are not held against it.
    pub mtu_cap: Mtu,
    /// Data VLs in operation, from VL 0 on: 1..=15. VL 15 is always there besides.
    pub vls: u8,
    /// PortInfo:PortState. Codes other than Down and Initialize let every packet in.
    pub state: PortState,
    /// The P_Keys of the port. `None`: not known. At a switch or router on the way they are given when the port
    /// enforces partitions inbound.
    pub p_keys: Option<Vec<PKey>>,
}

impl Port {
    /// A channel adapter's port with everything allowed and nothing known: MTU 4096, 15 data VLs, Active.
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

    /// Whether packets end here.
    pub(super) fn is_end(&self) -> bool {
        self.kind == Kind::Ca || self.is_destination
    }

    /// The LIDs of the port, first and last.
    pub(super) fn lids(&self) -> Option<(Lid, Lid)> {
        let low = (1_u16 << self.lmc.min(7)) - 1;
        self.lid.map(|lid| (Lid(lid.0 & !low), Lid(lid.0 | low)))
    }

    /// Whether one of the port's P_Keys goes with the packet's: the same partition, and not both limited members.
    pub(super) fn takes(&self, p_key: PKey) -> bool {
        let takes =
            |own: &PKey| own.0 & 0x7FFF == p_key.0 & 0x7FFF && own.0 & 0x7FFF != 0 && (own.0 | p_key.0) & 0x8000 != 0;
        self.p_keys.iter().flatten().any(takes)
    }
}

/// A packet as it was received.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// The framing: how the bytes begin and end.
    pub medium: Medium,
    /// The bytes: between the delimiters on native InfiniBand, of the frame on Ethernet.
    pub bytes: &'a [u8],
    /// The delimiter that ended it; `None` when that is not known, as in most captures.
    pub delimiter: Option<Delimiter>,
    /// Whether these are all the bytes that arrived. A packet that the capture has cut off is not judged.
    pub is_whole: bool,
}
