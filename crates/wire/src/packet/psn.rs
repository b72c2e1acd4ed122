//! Packet sequence numbers: 24 bits that count round and round.

use crate::value::hex;

hex!(
    /// A packet sequence number: 24 bits, after 0xFFFFFF comes 0.
    ///
    /// `Psn(n)` keeps what it is given; [`Psn::new`] and all arithmetic stay within 24 bits. The derived order is that of
    /// the numbers, for use as a key: which of two came first is for [`Psn::since`] to say.
    Psn(u32), 8
);

impl Psn {
    /// How many there are.
    pub const COUNT: u32 = 1 << 24;

    /// The low 24 bits of `number`.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number % Self::COUNT)
    }

    /// The one `count` later.
    #[must_use]
    pub const fn plus(self, count: u32) -> Self {
        Self::new(self.0.wrapping_add(count))
    }

    /// The one `count` earlier.
    #[must_use]
    pub const fn minus(self, count: u32) -> Self {
        Self::new(self.0.wrapping_sub(count))
    }

    /// The next one.
    #[must_use]
    pub const fn next(self) -> Self {
        self.plus(1)
    }

    /// How many steps lead from `earlier` to this one, 0 to 2^24 - 1.
    ///
    /// By the rule of reliable services, 1 to 2^23 - 1 steps mean later, more mean earlier.
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
    fn zero_follows_the_last_number() {
        assert_eq!(Psn(0xFF_FFFF).next(), Psn(0));
        assert_eq!(Psn(0).minus(1), Psn(0xFF_FFFF));
        assert_eq!(Psn(3).since(Psn(0xFF_FFFE)), 5);
        assert_eq!(Psn(0xFF_FFFE).since(Psn(3)), Psn::COUNT - 5);
        assert_eq!(Psn::new(0x0100_0007).to_string(), "0x000007");
    }

    proptest! {
        #[test]
        fn what_is_added_has_passed_and_can_be_taken_back(from: u32, count in 0..Psn::COUNT) {
            let from = Psn::new(from);
            prop_assert!(from.0 < Psn::COUNT);
            prop_assert_eq!(from.plus(count).since(from), count);
            prop_assert_eq!(from.plus(count).minus(count), from);
            prop_assert_eq!(from.plus(u32::MAX), from.minus(1));
        }
    }
}
