//! The link layer's data packet check, as a judge makes it: whether a port that conforms accepts a packet or discards
//! it, why, which reason ranks first, and which counter tells.
//!
//! A pure function of the port and of the bytes that arrived. It reads headers where they stand and asks nothing of the
//! packet: broken ones are its business. Nothing is allocated.
//!
//! A RoCE packet has no local route header and no virtual lanes; of it the same function judges what is left: lengths,
//! the IPv4 checksum or the GRH, the ICRC, TVer and the P_Key.
//!
//! Source: architecture 7.4 (data packet check), 7.8 (CRCs), 9.6.1 (packet header validation), 13.5.3 (what an SMI
//! takes), 16.1.3.5 (counters); annexes A16 and A17 (RoCE). How the checks rank: [`Certainty`].

mod check;
mod explain;
mod judgement;
mod native;
mod roce;

pub use check::{Certainty, Check, Checks, Counter};
pub use explain::{Explanation, explain};
pub use judgement::{Absent, Action, Failed, Judgement, UNSETTLED_SHORT, UNSETTLED_VL15_GRH};

use verbatim_wire::{Lid, Medium, Mtu, PKey, PortState};

/// What a port belongs to.
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
    /// What it belongs to.
    pub kind: Kind,
    /// Whether packets are for this node itself, not on their way through it. A channel adapter is always the
    /// destination, whatever stands here.
    pub is_destination: bool,
    /// PortInfo:LID, the first of the range; of a switch, that of port 0. `None`: not known, so DLIDs of unicast packets
    /// are not checked.
    pub lid: Option<Lid>,
    /// PortInfo:LMC: the port has 2^LMC LIDs; 0..=7, higher ones count as 7.
    pub lmc: u8,
    /// PortInfo:MTUCap. A code without a meaning counts as not known: lengths are not held against it.
    pub mtu_cap: Mtu,
    /// Data VLs in operation, from VL 0 on: 1..=15. VL 15 is always there besides.
    pub vls: u8,
    /// PortInfo:PortState. Codes other than Down and Initialize let every packet in.
    pub state: PortState,
    /// The P_Keys of the port. `None`: not known. At a switch or router on the way they are given when the port enforces
    /// partitions inbound.
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
    fn is_end(&self) -> bool {
        self.kind == Kind::Ca || self.is_destination
    }

    /// The LIDs of the port, first and last.
    fn lids(&self) -> Option<(Lid, Lid)> {
        let low = (1_u16 << self.lmc.min(7)) - 1;
        self.lid.map(|lid| (Lid(lid.0 & !low), Lid(lid.0 | low)))
    }

    /// Whether one of the port's P_Keys goes with the packet's: the same partition, and not both limited members.
    fn takes(&self, p_key: PKey) -> bool {
        let takes =
            |own: &PKey| own.0 & 0x7FFF == p_key.0 & 0x7FFF && own.0 & 0x7FFF != 0 && (own.0 | p_key.0) & 0x8000 != 0;
        self.p_keys.iter().flatten().any(takes)
    }
}

/// What ends a packet on the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delimiter {
    /// End of good packet.
    Egp,
    /// End of bad packet: a port further up spoilt it on purpose.
    Ebp,
    /// Anything else: another packet's start, or no code at all.
    Other,
}

/// A packet as it was received.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// What the bytes begin and end with.
    pub medium: Medium,
    /// The bytes: between the delimiters on native InfiniBand, of the frame on Ethernet.
    pub bytes: &'a [u8],
    /// What ended it; `None` when that is not known, as in most captures.
    pub delimiter: Option<Delimiter>,
    /// Whether these are all the bytes that arrived. What a capture has cut off is not judged.
    pub is_whole: bool,
}

/// Judges a packet at a port.
#[must_use]
pub fn check(port: &Port, packet: &Received<'_>) -> Judgement {
    if !packet.is_whole {
        return Judgement::not_judged("the capture holds only part of the packet");
    }
    match packet.medium {
        Medium::InfiniBand | Medium::InfiniBandNoVcrc => native::check(port, packet),
        Medium::Ethernet => roce::check(port, packet.bytes),
    }
}

#[cfg(test)]
mod tests;
