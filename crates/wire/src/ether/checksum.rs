//! The checksum of IPv4, UDP and ICMPv6.
//!
//! Source: RFC 1071; the pseudo header: RFC 8200 section 8.1.

use core::net::Ipv6Addr;

use super::IpProtocol;

/// Returns the internet checksum of the concatenated parts. A packet carries the checksum in big-endian order.
///
/// To compute a checksum, set the checksum field to 0. To check a packet, leave the field as received: the result is 0
/// if the field is right.
#[must_use]
pub fn internet_checksum(parts: &[&[u8]]) -> u16 {
    let mut sum: u64 = 0;
    let mut odd = false;
    for byte in parts.iter().copied().flatten() {
        sum += if odd { u64::from(*byte) } else { u64::from(*byte) << 8 };
        odd = !odd;
    }
    while sum > 0xFFFF {
        sum = (sum >> 16) + (sum & 0xFFFF);
    }
    #[allow(clippy::cast_possible_truncation)] // folded to 16 bits
    let folded = sum as u16;
    !folded
}

/// Returns the checksum of UDP or ICMPv6 over IPv6. `message` is the header and all bytes after it.
///
/// To compute a checksum, set the checksum field to 0. To check a message, leave the field as received: the result is 0
/// if the field is right.
///
/// A UDP sender transmits a computed 0 as 0xFFFF, because 0 means that there is no checksum. The caller makes this
/// replacement.
#[must_use]
pub fn pseudo_header_checksum(src: Ipv6Addr, dst: Ipv6Addr, protocol: IpProtocol, message: &[u8]) -> u16 {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes();
    internet_checksum(&[&src.octets(), &dst.octets(), &length, &[0, 0, 0, protocol.0], message])
}
