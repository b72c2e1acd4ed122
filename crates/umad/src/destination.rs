//! The destination of a MAD.

use super::ffi::Address;

/// The destination of a MAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Destination {
    /// The end of the directed route inside the MAD. The packet has the permissive LID and goes to QP 0.
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
        /// Queue pair of the destination: 1, unless the service was redirected.
        qpn: u32,
        /// Q_Key: 0x8001_0000 for QP 1.
        qkey: u32,
        /// Index into the local port's P_Key table.
        pkey_index: u16,
    },
    /// A general management packet with a GRH. RoCE allows no other destination, because it has no LIDs.
    GsiGlobal {
        /// LID of the destination, or of the router on the way; unused on RoCE.
        dlid: u16,
        /// Service level.
        sl: u8,
        /// Queue pair of the destination: 1, unless the service was redirected.
        qpn: u32,
        /// Q_Key: 0x8001_0000 for QP 1.
        qkey: u32,
        /// Index into the local port's P_Key table.
        pkey_index: u16,
        /// The global route.
        route: GlobalRoute,
    },
}

/// The fields of a global route header, and the index of the source GID (architecture 8.3).
///
/// On RoCE the kernel resolves the destination's Ethernet address when the MAD is sent. If this fails,
/// [`Port::send`](super::Port::send) also fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalRoute {
    /// GID of the destination.
    pub dgid: [u8; 16],
    /// Index of the source GID in the local port's GID table. On RoCEv2 the source GID must be of the same family as
    /// `dgid`.
    pub sgid_index: u8,
    /// Hop limit. On native InfiniBand, 0 keeps the packet in the local subnet, so 64 is usual.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
}

impl GlobalRoute {
    /// Writes the route into the address. Does not use the library's function, because that function does not set the
    /// index of the source GID. The fields have the same offsets with both header sizes.
    pub(super) fn write(&self, address: &mut Address) {
        address.grh_present = 1;
        address.gid_index = self.sgid_index;
        address.hop_limit = self.hop_limit;
        address.traffic_class = self.traffic_class;
        address.gid = self.dgid;
        address.flow_label = (self.flow_label & 0x000f_ffff).to_be();
    }
}
