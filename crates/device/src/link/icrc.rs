//! Computes the ICRC for the receiver: first over the masked headers, then over the other bytes.
//!
//! This implementation is independent of the ICRC of `verbatim_wire`, which the tests use to build packets. Source:
//! architecture 7.8.1.

use verbatim_wire::crc::ICRC_LENGTH;
use verbatim_wire::{Bth, Grh, Layout, Lnh, Lrh};

use super::defect::{LinkDefect, LinkFaults};

/// Size in bytes of the longest headers with a masked field.
const LONGEST_HEAD: usize = Lrh::SIZE + Grh::SIZE + Bth::SIZE;

/// Returns the ICRC over `covered`, from the LRH to the last pad byte. In a truncated header only the present bytes are
/// masked.
pub(super) fn icrc(lnh: Lnh, covered: &[u8], faults: &LinkFaults) -> [u8; ICRC_LENGTH] {
    let mut ones = [0; LONGEST_HEAD];
    let bth = if lnh == Lnh::IBA_GLOBAL {
        if !faults.has(LinkDefect::IcrcCoversLrhOfGlobal) {
            ones[..Lrh::SIZE].fill(0xFF);
        }
        let grh = &mut ones[Lrh::SIZE..Lrh::SIZE + Grh::SIZE];
        if !faults.has(LinkDefect::IcrcCoversFlow) {
            grh[..4].copy_from_slice(&[0x0F, 0xFF, 0xFF, 0xFF]); // TClass, FlowLabel
        }
        if !faults.has(LinkDefect::IcrcCoversHopLimit) {
            grh[7] = 0xFF;
        }
        Lrh::SIZE + Grh::SIZE
    } else {
        if !faults.has(LinkDefect::IcrcCoversVl) {
            ones[0] = 0xF0;
        }
        if faults.has(LinkDefect::IcrcLeavesOutLrh) {
            ones[..Lrh::SIZE].fill(0xFF);
        }
        Lrh::SIZE
    };
    if !faults.has(LinkDefect::IcrcCoversCongestion) {
        ones[bth + 4] = 0xFF; // FECN, BECN, reserved
    }
    let (head, rest) = covered.split_at(covered.len().min(bth + Bth::SIZE));
    let mut register = u32::MAX;
    for (byte, mask) in head.iter().zip(ones) {
        register = step(register, byte | mask);
    }
    for &byte in rest {
        register = step(register, byte);
    }
    (!register).to_le_bytes()
}

/// Updates the CRC register with one byte.
fn step(register: u32, byte: u8) -> u32 {
    (register >> 8) ^ REMAINDERS[usize::from(register.to_le_bytes()[0] ^ byte)]
}

/// The generator 0x04C11DB7, bit-reversed, because the least significant bit of each byte comes first.
const GENERATOR: u32 = 0x04C1_1DB7_u32.reverse_bits();

/// The remainder of each byte value.
const REMAINDERS: [u32; 256] = {
    let mut remainders = [0; 256];
    let mut byte: u32 = 0;
    while byte < 256 {
        let mut left = byte;
        let mut bit = 0;
        while bit < 8 {
            let carry = left & 1;
            left >>= 1;
            if carry == 1 {
                left ^= GENERATOR;
            }
            bit += 1;
        }
        remainders[byte as usize] = left;
        byte += 1;
    }
    remainders
};
