//! All checks of one packet, and the set of failed checks.

use verbatim_wire::crc::{ICRC_LENGTH, VCRC_LENGTH, vcrc};
use verbatim_wire::{Bth, Delimiter, Grh, Layout, Lnh, Lrh};

use super::arrival::Arrival;
use super::defect::{LinkDefect, LinkFaults};
use super::icrc::icrc;
use super::profile::{LinkChoices, LinkProfile, PortKind};

/// A check. The variants stand in order of precedence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Check {
    /// The packet ends with EBP.
    MarkedBad,
    /// The packet ends with neither EGP nor EBP.
    Delimiter,
    Vcrc,
    Icrc,
    LVer,
    PktLen,
    TooShort,
    OverMtu,
    Vl,
    State,
    RawFilter,
    Dlid,
    /// The packet breaks a rule of VL15: see [`Checks::management_fails`].
    Management,
    Grh,
    TVer,
    /// P_Key, at the destination.
    PKey,
    /// P_Key, in transit.
    Enforcement,
}

impl Check {
    const ALL: [Self; 17] = [
        Self::MarkedBad,
        Self::Delimiter,
        Self::Vcrc,
        Self::Icrc,
        Self::LVer,
        Self::PktLen,
        Self::TooShort,
        Self::OverMtu,
        Self::Vl,
        Self::State,
        Self::RawFilter,
        Self::Dlid,
        Self::Management,
        Self::Grh,
        Self::TVer,
        Self::PKey,
        Self::Enforcement,
    ];

    /// Returns whether a switch or router with these choices may forward a packet that fails this check, marked as bad.
    pub(super) fn lets_forward(self, choices: LinkChoices) -> bool {
        match self {
            Self::Vcrc | Self::Icrc | Self::LVer | Self::PktLen | Self::OverMtu => choices.corrupts_and_forwards,
            Self::TooShort => choices.corrupts_and_forwards && choices.forwards_short_packets,
            _ => false,
        }
    }
}

#[derive(Clone, Copy, Default)]
pub(super) struct Failed(u32);

impl Failed {
    fn add(&mut self, check: Check) {
        self.0 |= 1 << check as u16;
    }

    pub(super) fn iter(self) -> impl Iterator<Item = Check> {
        Check::ALL.into_iter().filter(move |&check| self.has(check))
    }

    fn has(self, check: Check) -> bool {
        self.0 & (1 << check as u16) != 0
    }

    /// Returns the failed check with the highest precedence, which the port reports.
    pub(super) fn first(self, faults: &LinkFaults) -> Option<Check> {
        let early = [
            (LinkDefect::VlRanksBeforeCrc, Check::Vl),
            (LinkDefect::LVerRanksBeforeCrc, Check::LVer),
            (LinkDefect::LengthRanksBeforeCrc, Check::PktLen),
            (LinkDefect::PKeyRanksBeforeCrc, Check::PKey),
            (LinkDefect::VcrcRanksBeforeEbp, Check::Vcrc),
        ];
        let early = early
            .into_iter()
            .find(|&(defect, check)| self.has(check) && faults.has(defect));
        early.map(|(_, check)| check).or_else(|| self.iter().next())
    }
}

/// A packet at a port. `grh` and `bth` are `None` if LRH:LNH does not announce the header or the header is truncated.
pub(super) struct Checks<'a> {
    pub(super) profile: &'a LinkProfile,
    faults: &'a LinkFaults,
    arrival: &'a Arrival<'a>,
    /// All bytes but the VCRC.
    pub(super) body: &'a [u8],
    /// All zeros if the packet is too short for an LRH.
    pub(super) lrh: Lrh,
    pub(super) grh: Option<Grh>,
    pub(super) bth: Option<Bth>,
}

impl<'a> Checks<'a> {
    pub(super) fn new(profile: &'a LinkProfile, faults: &'a LinkFaults, arrival: &'a Arrival<'a>) -> Self {
        let bytes = arrival.bytes;
        let body = &bytes[..bytes.len().saturating_sub(VCRC_LENGTH)];
        let lrh: Lrh = header(body, 0).unwrap_or_default();
        // The ICRC is not part of a header.
        let covered = &body[..body.len().saturating_sub(ICRC_LENGTH)];
        let (grh, bth) = match lrh.lnh() {
            Lnh::IBA_LOCAL => (None, header(covered, Lrh::SIZE)),
            Lnh::IBA_GLOBAL => (header(covered, Lrh::SIZE), header(covered, Lrh::SIZE + Grh::SIZE)),
            _ => (None, None),
        };
        Self {
            profile,
            faults,
            arrival,
            body,
            lrh,
            grh,
            bth,
        }
    }

    pub(super) fn has(&self, defect: LinkDefect) -> bool {
        self.faults.has(defect)
    }

    pub(super) fn lnh(&self) -> Lnh {
        self.lrh.lnh()
    }

    /// Returns whether the packet contains a whole LRH.
    pub(super) fn has_lrh(&self) -> bool {
        self.body.len() >= Lrh::SIZE
    }

    /// Returns whether the packet is raw: without IBA transport headers and without an ICRC.
    pub(super) fn is_raw(&self) -> bool {
        matches!(self.lnh(), Lnh::RAW | Lnh::IPV6)
    }

    /// Returns all failed checks.
    pub(super) fn failed(&self) -> Failed {
        let mut failed = Failed::default();
        let checks = [
            (Check::MarkedBad, self.is_marked_bad()),
            (Check::Delimiter, self.ends_oddly()),
            (Check::Vcrc, self.vcrc_fails()),
            (Check::Icrc, self.icrc_fails()),
            (Check::LVer, self.lver_fails()),
            (Check::PktLen, self.pkt_len_fails()),
            (Check::TooShort, self.is_too_short()),
            (Check::OverMtu, self.is_over_mtu()),
            (Check::Vl, self.vl_fails()),
            (Check::State, self.state_fails()),
            (Check::RawFilter, self.raw_is_filtered()),
            (Check::Dlid, self.dlid_fails()),
            (Check::Management, self.management_fails()),
            (Check::Grh, self.grh_fails()),
            (Check::TVer, self.tver_fails()),
            (Check::PKey, self.p_key_fails()),
            (Check::Enforcement, self.partition_is_foreign()),
        ];
        for (check, fails) in checks {
            if fails {
                failed.add(check);
            }
        }
        failed
    }

    fn is_marked_bad(&self) -> bool {
        self.arrival.delimiter == Delimiter::Ebp && !self.has(LinkDefect::EbpAccepted)
    }

    fn ends_oddly(&self) -> bool {
        self.arrival.delimiter == Delimiter::Other && !self.has(LinkDefect::UnknownDelimiterAccepted)
    }

    fn vcrc_fails(&self) -> bool {
        if self.has(LinkDefect::BadVcrcAccepted) {
            return false;
        }
        let Some((body, seen)) = self.arrival.bytes.split_last_chunk::<VCRC_LENGTH>() else {
            return true;
        };
        let mut right = vcrc(body);
        if self.has(LinkDefect::VcrcByteSwapped) {
            right.reverse();
        }
        if self.has(LinkDefect::VcrcFirstByteOnly) {
            return right[0] != seen[0];
        }
        right != *seen
    }

    fn icrc_fails(&self) -> bool {
        let is_checked = self.profile.is_final() || self.profile.choices.checks_icrc_in_transit;
        let has_one = !self.is_raw() || self.has(LinkDefect::IcrcCheckedOnRaw);
        if !is_checked || !has_one || self.has(LinkDefect::BadIcrcAccepted) {
            return false;
        }
        let Some((covered, seen)) = self.body.split_last_chunk::<ICRC_LENGTH>() else {
            return true;
        };
        let right = icrc(self.lnh(), covered, self.faults);
        if self.has(LinkDefect::IcrcFirstHalfOnly) {
            return right[..2] != seen[..2];
        }
        right != *seen
    }

    fn lver_fails(&self) -> bool {
        let mut version = self.lrh.lver();
        if self.has(LinkDefect::LVerLowBitIgnored) {
            version &= 0b1110;
        }
        if self.has(LinkDefect::LVerHighBitIgnored) {
            version &= 0b0111;
        }
        version != 0 && !self.has(LinkDefect::LVerIgnored)
    }

    fn raw_is_filtered(&self) -> bool {
        let filters = self.profile.filters_raw
            && (self.profile.kind != PortKind::ChannelAdapter || self.has(LinkDefect::AdapterFiltersRaw));
        filters && self.is_raw() && !self.has(LinkDefect::RawFilterIgnored)
    }
}

/// Returns the header at `offset`, or `None` if it is truncated.
fn header<L: Layout>(bytes: &[u8], offset: usize) -> Option<L> {
    bytes.get(offset..offset + L::SIZE).map(L::from_bytes)
}
