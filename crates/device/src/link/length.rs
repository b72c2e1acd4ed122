//! LRH:PktLen, the length of the received packet, and the limits of both (architecture 7.4, 7.7).

use super::checks::Checks;
use super::defect::LinkDefect;

/// Length of the shortest IBA packet, in units of 4 bytes: LRH, BTH and ICRC.
const SHORTEST_IBA: usize = 6;
/// Length of the shortest raw packet, in units of 4 bytes: the LRH and three further units.
const SHORTEST_RAW: usize = 5;
/// Bytes by which a packet may be longer than the MTU, for its headers and its ICRC.
const HEADERS: usize = 124;
/// The MTU that every port supports, in bytes.
const SMALLEST_MTU: u32 = 256;

impl Checks<'_> {
    /// Returns the length that PktLen states, in bytes. PktLen covers the packet from the LRH to the ICRC.
    fn told(&self) -> usize {
        // The bits above PktLen are reserved.
        let reserved = match self.has(LinkDefect::PktLenReservedBits) {
            true => (self.lrh.reserved_32().0 as usize) << 11,
            false => 0,
        };
        4 * (reserved + usize::from(self.lrh.pkt_len()))
    }

    /// Returns whether PktLen differs from the length of the received packet.
    pub(super) fn pkt_len_fails(&self) -> bool {
        let (told, seen) = (self.told(), self.body.len());
        let low_byte = |length: usize| length / 4 % 256;
        let tolerated = (self.has(LinkDefect::PktLenOneMoreAccepted) && told == seen + 4)
            || (self.has(LinkDefect::PktLenOneLessAccepted) && told + 4 == seen)
            || (self.has(LinkDefect::BytesBeyondPktLenIgnored) && told < seen)
            || (self.has(LinkDefect::PktLenLow8Bits) && seen % 4 == 0 && low_byte(told) == low_byte(seen))
            || (self.has(LinkDefect::PktLenOddBytesIgnored) && told == seen / 4 * 4)
            || self.has(LinkDefect::PktLenIgnored);
        told != seen && !tolerated
    }

    /// Returns whether the packet is shorter than the minimum of its kind, IBA or raw, by PktLen or by the received
    /// bytes.
    pub(super) fn is_too_short(&self) -> bool {
        let mut shortest = if self.is_raw() { SHORTEST_RAW } else { SHORTEST_IBA };
        if self.has(LinkDefect::IbaMinimumOfRaw) {
            shortest = SHORTEST_RAW;
        }
        if self.has(LinkDefect::RawMinimumOfIba) {
            shortest = SHORTEST_IBA;
        }
        let ignored = if self.is_raw() {
            self.has(LinkDefect::RawMinimumIgnored)
        } else {
            self.has(LinkDefect::IbaMinimumIgnored)
        };
        !ignored && self.told().min(self.body.len()) < 4 * shortest
    }

    /// Returns whether the packet is longer than MTUCap allows, by PktLen or by the received bytes.
    pub(super) fn is_over_mtu(&self) -> bool {
        let mtu = self.profile.mtu_cap.bytes().unwrap_or(SMALLEST_MTU) as usize;
        let mut longest = mtu + HEADERS;
        if self.has(LinkDefect::MtuOneUnitMore) {
            longest += 4;
        }
        if self.has(LinkDefect::MtuOneUnitLess) {
            longest -= 4;
        }
        if self.has(LinkDefect::MtuCountsHeaders) {
            longest = mtu;
        }
        !self.has(LinkDefect::OverMtuAccepted) && self.told().max(self.body.len()) > longest
    }
}
