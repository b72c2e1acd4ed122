//! The headers after the LRH that a port checks: GRH, TVer, P_Key (architecture 8.3, 9.6.1, 10.9).

use verbatim_wire::{Grh, Layout, Lnh, Lrh, PKey, Qpn};

use super::checks::Checks;
use super::defect::LinkDefect;
use super::profile::PortKind;

const GRH_VERSION: u8 = 6;
/// The bit of a P_Key that marks a full member of the partition.
const FULL_MEMBER: u16 = 0x8000;

impl Checks<'_> {
    /// Returns whether LNH announces a GRH and a BTH, but they are truncated or the GRH is malformed.
    pub(super) fn grh_fails(&self) -> bool {
        if self.lnh() != Lnh::IBA_GLOBAL || !self.profile.reads_grh() {
            return false;
        }
        let (Some(grh), Some(_)) = (self.grh, self.bth) else {
            return true;
        };
        let mut behind = self.body.len().saturating_sub(Lrh::SIZE + Grh::SIZE);
        if self.has(LinkDefect::PayLenWithoutIcrc) {
            behind = behind.saturating_sub(4);
        }
        (grh.ip_ver() != GRH_VERSION && !self.has(LinkDefect::IpVerIgnored))
            || (grh.nxt_hdr() != Grh::NEXT_IS_BTH && !self.has(LinkDefect::NxtHdrIgnored))
            || (usize::from(grh.pay_len()) != behind && !self.has(LinkDefect::PayLenIgnored))
    }

    pub(super) fn tver_fails(&self) -> bool {
        let is_other = self.bth.is_some_and(|bth| bth.tver() != 0);
        self.profile.is_final() && is_other && !self.has(LinkDefect::TVerIgnored)
    }

    /// Returns whether this port is the destination and has no matching P_Key. Packets for QP0 have no partition.
    pub(super) fn p_key_fails(&self) -> bool {
        let has_none = self.bth.is_some_and(|bth| bth.dest_qp() == Qpn::SMI);
        let is_exempt = has_none && !self.has(LinkDefect::PKeyCheckedOnQp0);
        self.profile.is_final() && !is_exempt && self.is_foreign() && !self.has(LinkDefect::PKeyIgnored)
    }

    /// Returns whether a switch or router in transit enforces partitions and has no matching P_Key. Packets on VL15
    /// have no partition.
    pub(super) fn partition_is_foreign(&self) -> bool {
        let looks = self.profile.enforces_partitions
            && self.profile.kind != PortKind::ChannelAdapter
            && !self.profile.is_final()
            && !self.is_management();
        looks && self.is_foreign() && !self.has(LinkDefect::PartitionEnforcementIgnored)
    }

    fn is_foreign(&self) -> bool {
        let Some(bth) = self.bth else { return false };
        if bth.p_key().0 & !FULL_MEMBER == 0x7FFF && self.has(LinkDefect::DefaultPKeyTaken) {
            return false;
        }
        let table = &self.profile.p_keys;
        let table = if self.has(LinkDefect::PKeyFirstEntryOnly) {
            table.get(..1).unwrap_or_default()
        } else {
            &table[..]
        };
        let used = match self.has(LinkDefect::PKeyHoleEndsTable) {
            true => table.iter().take_while(|ours| ours.0 & !FULL_MEMBER != 0).count(),
            false => table.len(),
        };
        !table[..used].iter().any(|&ours| self.is_match(ours, bth.p_key()))
    }

    fn is_match(&self, ours: PKey, theirs: PKey) -> bool {
        if self.has(LinkDefect::PKeyComparesAllBits) {
            return ours == theirs;
        }
        let partition = |key: PKey| key.0 & !FULL_MEMBER;
        let is_same = partition(ours) == partition(theirs);
        let is_valid = partition(ours) != 0 || self.has(LinkDefect::InvalidPKeyAccepted);
        let one_is_full = (ours.0 | theirs.0) & FULL_MEMBER != 0 || self.has(LinkDefect::LimitedPairAccepted);
        is_same && is_valid && one_is_full
    }
}
