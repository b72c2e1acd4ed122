//! The two checksums of InfiniBand packets. RoCE packets have only the ICRC.
//!
//! The *invariant* checksum (ICRC) stays the same from end to end: its computation assumes ones in each field that a
//! switch or router may change. The *variant* checksum (VCRC) covers all bytes, and each hop recomputes it.
//!
//! Source: architecture 7.8 with its sample packet; a capture of real hardware confirms both checksums. RoCE: annex A16
//! and annex A17; `rxe_icrc.c` of Linux.

use crate::ether::{Ipv4, Ipv6};
use crate::layout::Layout;
use crate::packet::{Bth, Form, Lnh, Lrh};

/// Length of an ICRC in bytes.
pub const ICRC_LENGTH: usize = 4;
/// Length of a VCRC in bytes.
pub const VCRC_LENGTH: usize = 2;

/// Returns the ICRC of a native InfiniBand packet in wire order.
///
/// `covered` spans the first byte of the LRH to the last pad byte. Returns `None` for a raw packet (by LRH:LNH) and for
/// truncated headers.
#[must_use]
pub fn icrc(covered: &[u8]) -> Option<[u8; ICRC_LENGTH]> {
    let form = match Lrh::from_bytes(covered.get(..Lrh::SIZE)?).lnh() {
        Lnh::IBA_LOCAL => Form::InfiniBandLocal,
        Lnh::IBA_GLOBAL => Form::InfiniBandGlobal,
        _ => return None,
    };
    icrc_of(form, covered)
}

/// Maximum number of bytes from the first byte that the ICRC covers to the end of the BTH. For RoCE, this includes
/// an LRH of ones, because the ICRC covers ones in place of the LRH.
const LONGEST_HEAD: usize = Lrh::SIZE + Form::RoceV2Ipv6.route_length() + Bth::SIZE;

/// Returns the ICRC of a packet of any form in wire order.
///
/// `covered` spans the first byte of the LRH, the RoCEv1 GRH or the IP header to the last pad byte. Returns `None` if
/// the headers up to the BTH are truncated.
#[must_use]
pub fn icrc_of(form: Form, covered: &[u8]) -> Option<[u8; ICRC_LENGTH]> {
    let (head, rest) = covered.split_at_checked(form.route_length() + Bth::SIZE)?;
    // RoCE has no LRH; the ICRC covers ones in its place.
    let before = if form.is_infiniband() { 0 } else { Lrh::SIZE };
    let mut ones = [0xFF; LONGEST_HEAD];
    let masked = &mut ones[..before + head.len()];
    masked[before..].copy_from_slice(head);
    match form {
        // VL may change on each hop.
        Form::InfiniBandLocal => masked[0] |= 0xF0,
        Form::InfiniBandGlobal => {
            // A router replaces the LRH.
            masked[..Lrh::SIZE].fill(0xFF);
            mask_ipv6(&mut masked[Lrh::SIZE..]);
        }
        Form::RoceV1 => mask_ipv6(&mut masked[before..]),
        Form::RoceV2Ipv4 => {
            let ip = &mut masked[before..];
            ip[1] = 0xFF; // DSCP, ECN
            ip[8] = 0xFF; // Time to Live
            ip[10..12].fill(0xFF); // Header Checksum
            ip[Ipv4::SIZE + 6..Ipv4::SIZE + 8].fill(0xFF); // UDP's Checksum
        }
        Form::RoceV2Ipv6 => {
            let ip = &mut masked[before..];
            mask_ipv6(ip);
            ip[Ipv6::SIZE + 6..Ipv6::SIZE + 8].fill(0xFF); // UDP's Checksum
        }
    }
    // FECN, BECN and the reserved bits beside them.
    let bth = masked.len() - Bth::SIZE;
    masked[bth + 4] = 0xFF;
    let mut crc = crc32fast::Hasher::new();
    crc.update(masked);
    crc.update(rest);
    Some(crc.finalize().to_le_bytes())
}

/// Fills the variant fields of a GRH or an IPv6 header with ones: traffic class, flow label and hop limit.
fn mask_ipv6(header: &mut [u8]) {
    header[0] |= 0x0F;
    header[1..4].fill(0xFF);
    header[7] = 0xFF;
}

/// Returns the VCRC of a packet in wire order.
///
/// `covered` spans the first byte of the LRH to the last byte before the VCRC.
#[must_use]
pub fn vcrc(covered: &[u8]) -> [u8; VCRC_LENGTH] {
    let register = covered.iter().fold(0xFFFF, |crc: u16, &byte| {
        (crc >> 8) ^ VCRC_TABLE[usize::from(crc.to_le_bytes()[0] ^ byte)]
    });
    (!register).to_le_bytes()
}

/// x^16 + x^12 + x^3 + x + 1, bit-reversed, because the least significant bit of each byte comes first.
const VCRC_POLYNOMIAL: u16 = 0xD008;

const VCRC_TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        #[allow(clippy::cast_possible_truncation)] // at most 255
        let mut crc = byte as u16;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 != 0 {
                (crc >> 1) ^ VCRC_POLYNOMIAL
            } else {
                crc >> 1
            };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The architecture's sample packet: RC RDMA WRITE Only with 14 bytes of payload and 2 bytes of padding.
    const LOCAL: [u8; 52] = [
        0x70, 0x12, 0x37, 0x5C, 0x00, 0x0E, 0x17, 0xD2, // LRH
        0x0A, 0x20, 0x24, 0x87, 0x00, 0x87, 0xB1, 0xB3, 0x00, 0x0D, 0xEC, 0x2A, // BTH
        0x01, 0x71, 0x0A, 0x1C, 0x01, 0x5D, 0x40, 0x02, // RETH:VA
        0x38, 0xF2, 0x7A, 0x05, 0x00, 0x00, 0x00, 0x0E, // RETH:R_Key, DMALen
        0xBB, 0x88, 0x4D, 0x85, 0xFD, 0x5C, 0xFB, 0xA4, // payload
        0x72, 0x8B, 0xC0, 0x69, 0x0E, 0xD4, 0x00, 0x00, // payload, padding
    ];

    /// Returns the sample packet with a GRH.
    fn global() -> Vec<u8> {
        let mut packet = vec![0x70, 0x13, 0x37, 0x5C, 0x00, 0x18, 0x17, 0xD2];
        packet.extend([0x60, 0, 0, 0, 0, 0x32, 0, 0x10]);
        packet.extend([0, 0, 0, 0, 0, 0, 0x01, 0x25, 0, 0, 0, 0, 0, 0, 0, 0x26]);
        packet.extend([0, 0, 0, 0, 0, 0, 0x01, 0x17, 0, 0, 0, 0, 0, 0, 0, 0x96]);
        packet.extend(&LOCAL[8..]);
        packet
    }

    /// Divides one bit at a time by the polynomial in the architecture's notation.
    fn vcrc_by_long_division(covered: &[u8]) -> [u8; 2] {
        let mut register: u16 = 0xFFFF;
        for byte in covered {
            for bit in 0..8 {
                let feedback = (register >> 15) ^ u16::from((byte >> bit) & 1);
                register = (register << 1) ^ if feedback == 1 { 0x100B } else { 0 };
            }
        }
        (!register).reverse_bits().to_le_bytes()
    }

    fn icrc_by_long_division(masked: &[u8]) -> [u8; 4] {
        let mut register: u32 = 0xFFFF_FFFF;
        for byte in masked {
            for bit in 0..8 {
                let feedback = (register >> 31) ^ u32::from((byte >> bit) & 1);
                register = (register << 1) ^ if feedback == 1 { 0x04C1_1DB7 } else { 0 };
            }
        }
        (!register).reverse_bits().to_le_bytes()
    }

    #[test]
    fn matches_icrc_of_sample_packet() {
        assert_eq!(icrc(&LOCAL), Some([0x96, 0x25, 0xB7, 0x5A]));
        // The expected VCRC is computed here, not taken from the architecture. Captures of real hardware confirm the
        // polynomial.
        let with_icrc = [&LOCAL[..], &[0x96, 0x25, 0xB7, 0x5A]].concat();
        assert_eq!(vcrc(&with_icrc), [0x45, 0xFA]);
    }

    #[test]
    fn global_icrc_covers_masked_headers() {
        let packet = global();
        let mut masked = packet.clone();
        masked[..8].fill(0xFF);
        masked[8] = 0x6F;
        masked[9..12].fill(0xFF);
        masked[15] = 0xFF;
        masked[52] = 0xFF;
        assert_eq!(icrc(&packet), Some(icrc_by_long_division(&masked)));
        assert_eq!(icrc(&packet), Some([0x14, 0x93, 0xEC, 0x46]));
    }

    #[test]
    fn icrc_ignores_only_variant_bits() {
        let mut local: Vec<usize> = (0..4).collect(); // VL
        local.extend(96..104); // BTH byte 4
        assert_eq!(ignored_bits(&LOCAL, 14), local);

        let mut global_bits: Vec<usize> = (0..64).collect(); // LRH
        global_bits.extend(68..96); // TClass, FlowLabel
        global_bits.extend(120..128); // HopLmt
        global_bits.extend(416..424); // BTH byte 4
        assert_eq!(ignored_bits(&global(), 14), global_bits);
    }

    /// Returns the bits that the ICRC ignores. With a GRH, the ICRC ignores the whole LRH. The LNH bits `lnh..lnh +
    /// 2` are listed without a test, because a change of LNH would make `icrc` parse another kind of packet.
    fn ignored_bits(packet: &[u8], lnh: usize) -> Vec<usize> {
        let sound = icrc(packet);
        let global = packet[1] & 3 == 3;
        (0..packet.len() * 8)
            .filter(|&bit| {
                let mut changed = packet.to_vec();
                changed[bit / 8] ^= 0x80 >> (bit % 8);
                icrc(&changed) == sound || (global && (lnh..lnh + 2).contains(&bit))
            })
            .collect()
    }

    #[test]
    fn raw_or_truncated_packet_has_no_icrc() {
        assert_eq!(icrc(&[]), None);
        assert_eq!(icrc(&LOCAL[..19]), None, "a BTH cut short");
        assert!(icrc(&LOCAL[..20]).is_some());
        assert_eq!(icrc(&global()[..59]), None, "a BTH cut short behind a GRH");
        for lnh in [0, 1] {
            let mut raw = LOCAL;
            raw[1] = (raw[1] & 0xFC) | lnh;
            assert_eq!(icrc(&raw), None, "LNH {lnh}");
        }
    }

    proptest! {
        #[test]
        fn vcrc_table_matches_long_division(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(vcrc(&bytes), vcrc_by_long_division(&bytes));
            let _ = icrc(&bytes);
        }

        #[test]
        fn one_flipped_bit_changes_the_vcrc(
            bytes in proptest::collection::vec(any::<u8>(), 1..300), bit: prop::sample::Index
        ) {
            let mut changed = bytes.clone();
            let bit = bit.index(bytes.len() * 8);
            changed[bit / 8] ^= 1 << (bit % 8);
            prop_assert_ne!(vcrc(&bytes), vcrc(&changed));
        }
    }
}
