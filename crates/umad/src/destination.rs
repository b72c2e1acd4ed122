//! Where a MAD goes.

use super::ffi::Address;

/// Where a MAD goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Destination {
    /// By the directed route inside the MAD: permissive LID, QP 0.
    DirectedRoute,
    /// A LID-routed subnet management packet: QP 0 at this LID.
    Lid {
        /// LID of the addressee.
        dlid: u16,
        /// Service level.
        sl: u8,
    },
    /// A general management packet.
    Gsi {
        /// LID of the addressee.
        dlid: u16,
        /// Service level.
        sl: u8,
        /// Queue pair of the addressee, 1 unless it was redirected.
        qpn: u32,
        /// Queue key, 0x8001_0000 for QP 1.
        qkey: u32,
        /// Index into our port's partition table.
        pkey_index: u16,
    },
    /// A general management packet with a global route header. On RoCE it is the only way: there are no LIDs.
    GsiGlobal {
        /// LID of the addressee, or of the router on the way; says nothing on RoCE.
        dlid: u16,
        /// Service level.
        sl: u8,
        /// Queue pair of the addressee, 1 unless it was redirected.
        qpn: u32,
        /// Queue key, 0x8001_0000 for QP 1.
        qkey: u32,
        /// Index into our port's partition table.
        pkey_index: u16,
        /// The global route.
        route: GlobalRoute,
    },
}

/// What a global route header says, and which of our GIDs it comes from (architecture 8.3).
///
/// On RoCE the kernel looks the addressee's Ethernet address up when the MAD is sent: an address that nobody has makes
/// [`Port::send`](super::Port::send) fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalRoute {
    /// GID of the addressee.
    pub dgid: [u8; 16],
    /// Index of ours in our port's GID table. On RoCEv2 it must be of the family of `dgid`.
    pub sgid_index: u8,
    /// Hop limit; 0 goes no further than the link on native InfiniBand, so 64 is usual.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
}

impl GlobalRoute {
    /// Into the header. By hand and not with the library's own function, which leaves the index of our GID out; the
    /// place of these fields is the same in both sizes of the header.
    pub(super) fn write(&self, address: &mut Address) {
        address.grh_present = 1;
        address.gid_index = self.sgid_index;
        address.hop_limit = self.hop_limit;
        address.traffic_class = self.traffic_class;
        address.gid = self.dgid;
        address.flow_label = (self.flow_label & 0x000f_ffff).to_be();
    }
}
