//! The DLID check: whether the packet is for this port (architecture 4.1.3, 7.10, 7.11).

use verbatim_wire::Lnh;

use super::checks::Checks;
use super::defect::LinkDefect;
use super::profile::PortKind;

/// LID 0, which addresses no port.
const RESERVED: u16 = 0;
/// The first multicast LID.
const FIRST_MULTICAST: u16 = 0xC000;
/// The permissive LID, which addresses the receiving port. Only subnet management packets use it.
const PERMISSIVE: u16 = 0xFFFF;

impl Checks<'_> {
    /// Returns whether the port discards the packet for its DLID.
    pub(super) fn dlid_fails(&self) -> bool {
        match self.lrh.dlid().0 {
            RESERVED => !self.has(LinkDefect::Dlid0Accepted),
            PERMISSIVE if self.is_management() => self.has(LinkDefect::PermissiveRefused),
            PERMISSIVE => !self.has(LinkDefect::PermissiveOnDataVlAccepted),
            FIRST_MULTICAST.. => self.multicast_fails(),
            dlid => self.unicast_fails(dlid),
        }
    }

    /// Returns whether the port discards a packet with a multicast DLID. An IBA packet to a multicast LID needs a GRH;
    /// a raw packet needs none. A switch in transit does not check the GRH. A subnet management packet must not have a
    /// multicast DLID.
    fn multicast_fails(&self) -> bool {
        if self.is_management() {
            return !self.has(LinkDefect::MulticastOnVl15Accepted);
        }
        if self.is_raw() && self.has(LinkDefect::RawMulticastRefused) {
            return true;
        }
        match self.lnh() {
            Lnh::IBA_LOCAL => self.profile.reads_grh() && !self.has(LinkDefect::MulticastWithoutGrhAccepted),
            Lnh::IBA_GLOBAL => self.has(LinkDefect::MulticastRefused),
            _ => false,
        }
    }

    /// Returns whether a unicast DLID is outside the port's range of LIDs. A switch in transit accepts every
    /// unicast DLID, because the switch forwards the packet by its forwarding table. Every other port ignores the
    /// low LMC bits of the DLID.
    fn unicast_fails(&self, dlid: u16) -> bool {
        if self.profile.kind == PortKind::Switch && !self.profile.is_final() {
            return false;
        }
        let lmc = self.profile.lmc.min(7);
        let mut masked = lmc;
        if self.has(LinkDefect::LmcIgnored) {
            masked = 0;
        }
        if self.has(LinkDefect::LmcMasksOneLess) {
            masked = masked.saturating_sub(1);
        }
        if self.has(LinkDefect::LmcMasksOneMore) {
            masked += 1;
        }
        let range = |lid: u16, bits: u8| lid >> bits;
        let base = self.profile.lid.0;
        let first = range(base, lmc) << lmc;
        let tolerated = self.has(LinkDefect::DlidIgnored)
            || (self.has(LinkDefect::DlidBelowRangeAccepted) && dlid.checked_add(1) == Some(first))
            || (self.has(LinkDefect::DlidAboveRangeAccepted) && first.checked_add(1 << lmc) == Some(dlid))
            || (self.has(LinkDefect::DlidLowByteOnly) && range(dlid & 0xFF, lmc) == range(base & 0xFF, lmc));
        range(dlid, masked) != range(base, masked) && !tolerated
    }
}
