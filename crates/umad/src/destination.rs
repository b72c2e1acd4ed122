//! The destination of a MAD.

use super::ffi::Address;

/// The destination of a MAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Destination {
    /// Follows the directed route inside the MAD: permissive LID, QP 0.
    DirectedRoute,
    /// A LID-routed subnet management packet: QP 0 at this LID.
    Lid {
        /// LID of the destination.
        dlid: u16,
        /// Service level.
        sl: u8,
    },
    /// A general management packet.
    Gsi {
        /// LID of the destination.
        dlid: u16,
        /// Service level.
        sl: u8,
        /// Queue pair of the destination: 1, unless it was redirected.
        qpn: u32,
        /// Q_Key: 0x8001_0000 for QP 1.
        qkey: u32,
        /// Index into our port's P_Key table.
        pkey_index: u16,
    },
    /// A general management packet with a GRH. RoCE allows no other destination, because it has no LIDs.
    GsiGlobal {
        /// LID of the destination, or of the router on the way; unused on RoCE.
        dlid: u16,
        /// Service level.
        sl: u8,
        /// Queue pair of the destination: 1, unless it was redirected.
        qpn: u32,
        /// Q_Key: 0x8001_0000 for QP 1.
        qkey: u32,
        /// Index into our port's P_Key table.
        pkey_index: u16,
        /// The global route.
        route: GlobalRoute,
    },
}

/// The fields of a global route header, and our source GID (architecture 8.3).
///
/// On RoCE the kernel resolves the destination's Ethernet address when the MAD is sent: if no port has the address,
/// [`Port::send`](super::Port::send) fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalRoute {
    /// GID of the destination.
    pub dgid: [u8; 16],
    /// Index of our source GID in our port's GID table. On RoCEv2 it must be of the same family as `dgid`.
    pub sgid_index: u8,
    /// Hop limit. On native InfiniBand, 0 keeps the packet on the local link, so 64 is usual.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
}

impl GlobalRoute {
    /// Writes the route into the address. The library's own function is not used, because it leaves out the index of
    /// our GID. These fields have the same offsets in both sizes of the header.
    pub(super) fn write(&self, address: &mut Address) {
        address.grh_present = 1;
        address.gid_index = self.sgid_index;
        address.hop_limit = self.hop_limit;
        address.traffic_class = self.traffic_class;
        address.gid = self.dgid;
        address.flow_label = (self.flow_label & 0x000f_ffff).to_be();
    }
}
