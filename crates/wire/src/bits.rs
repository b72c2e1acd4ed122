//! Reading and writing bit fields of up to 64 bits, most significant bit first.

/// Reads `width` bits that start `offset` bits after the first bit of `bytes`.
///
/// Bit 0 is the most significant bit of the first byte, as in the architecture's figures. Bits beyond the end of
/// `bytes` read as 0.
///
/// # Panics
/// If `width` is 0 or more than 64.
#[must_use]
#[inline]
pub fn get_bits(bytes: &[u8], offset: usize, width: usize) -> u64 {
    assert!((1..=64).contains(&width), "a field has 1 to 64 bits, not {width}");
    let (first, last) = (offset / 8, (offset + width - 1) / 8);
    let mut window: u128 = 0;
    for at in first..=last {
        window = (window << 8) | u128::from(bytes.get(at).copied().unwrap_or(0));
    }
    let below = (last + 1) * 8 - (offset + width);
    let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
    // The mask keeps at most 64 bits, so the cast loses none.
    #[allow(clippy::cast_possible_truncation)]
    let value = (window >> below) as u64;
    value & mask
}

/// Writes the low `width` bits of `value` at `offset` bits after the first bit of `bytes`.
///
/// Ignores the higher bits of `value` and drops bits beyond the end of `bytes`.
///
/// # Panics
/// If `width` is 0 or more than 64.
pub fn set_bits(bytes: &mut [u8], offset: usize, width: usize, value: u64) {
    assert!((1..=64).contains(&width), "a field has 1 to 64 bits, not {width}");
    let (first, last) = (offset / 8, (offset + width - 1) / 8);
    let below = (last + 1) * 8 - (offset + width);
    let mask: u128 = if width == 64 {
        u128::from(u64::MAX)
    } else {
        (1 << width) - 1
    };
    let mut window = (u128::from(value) & mask) << below;
    let mut keep = !(mask << below);
    for at in (first..=last).rev() {
        if let Some(byte) = bytes.get_mut(at) {
            *byte = (*byte & (keep & 0xFF) as u8) | (window & 0xFF) as u8;
        }
        window >>= 8;
        keep >>= 8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_most_significant_bit_first() {
        let bytes = [0b1010_0101, 0x0F, 0xF0];
        assert_eq!(get_bits(&bytes, 0, 4), 0b1010);
        assert_eq!(get_bits(&bytes, 4, 8), 0x50);
        assert_eq!(get_bits(&bytes, 8, 16), 0x0FF0);
        assert_eq!(get_bits(&bytes, 20, 8), 0, "beyond the end reads as 0");
    }

    proptest! {
        #[test]
        fn set_bits_changes_only_its_field(
            before: [u8; 24], offset in 0usize..128, width in 1usize..=64, value: u64
        ) {
            let mut bytes = before;
            set_bits(&mut bytes, offset, width, value);
            let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
            prop_assert_eq!(get_bits(&bytes, offset, width), value & mask);
            for bit in (0..192).filter(|bit| !(offset..offset + width).contains(bit)) {
                prop_assert_eq!(get_bits(&bytes, bit, 1), get_bits(&before, bit, 1));
            }
        }
    }
}
