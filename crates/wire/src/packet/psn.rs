//! Packet sequence numbers (PSNs): 24 bits with wraparound.

use crate::value::hex;

hex!(
    /// A packet sequence number: 24 bits; 0 follows 0xFFFFFF.
    ///
    /// `Psn(n)` stores `n` unchanged; [`Psn::new`] and all arithmetic stay within 24 bits. The derived order is
    /// numeric, for use as a map key. To find out which of two PSNs is later, use [`Psn::since`].
    Psn(u32), 8
);

impl Psn {
    /// The number of PSNs, 2^24.
    pub const COUNT: u32 = 1 << 24;

    /// Returns the PSN with the low 24 bits of `number`.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number % Self::COUNT)
    }

    /// Returns the PSN `count` steps later.
    #[must_use]
    pub const fn plus(self, count: u32) -> Self {
        Self::new(self.0.wrapping_add(count))
    }

    /// Returns the PSN `count` steps earlier.
    #[must_use]
    pub const fn minus(self, count: u32) -> Self {
        Self::new(self.0.wrapping_sub(count))
    }

    /// Returns the next PSN.
    #[must_use]
    pub const fn next(self) -> Self {
        self.plus(1)
    }

    /// Returns the number of steps from `earlier` to this PSN, 0 to 2^24 - 1.
    ///
    /// In the reliable services, 1 to 2^23 - 1 steps mean that this PSN is later; more steps mean that it is earlier.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0) % Self::COUNT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn psn_wraps_to_zero() {
        assert_eq!(Psn(0xFF_FFFF).next(), Psn(0));
        assert_eq!(Psn(0).minus(1), Psn(0xFF_FFFF));
        assert_eq!(Psn(3).since(Psn(0xFF_FFFE)), 5);
        assert_eq!(Psn(0xFF_FFFE).since(Psn(3)), Psn::COUNT - 5);
        assert_eq!(Psn::new(0x0100_0007).to_string(), "0x000007");
    }

    proptest! {
        #[test]
        fn minus_inverts_plus(from: u32, count in 0..Psn::COUNT) {
            let from = Psn::new(from);
            prop_assert!(from.0 < Psn::COUNT);
            prop_assert_eq!(from.plus(count).since(from), count);
            prop_assert_eq!(from.plus(count).minus(count), from);
            prop_assert_eq!(from.plus(u32::MAX), from.minus(1));
        }
    }
}
