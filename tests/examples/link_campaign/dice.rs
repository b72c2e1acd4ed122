//! Random numbers from a seed: the same on every machine and in every thread.

/// A stream of numbers.
#[derive(Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    /// The stream of one case of a campaign.
    pub(crate) fn of(seed: u64, case: u64) -> Self {
        let mut dice = Self(seed ^ case.wrapping_mul(0xD1B5_4A32_D192_ED03));
        dice.next();
        dice
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        for factor in [0xFF51_AFD7_ED55_8CCD, 0xC4CE_B9FE_1A85_EC53] {
            mixed = (mixed ^ (mixed >> 32)).wrapping_mul(factor);
        }
        mixed ^ (mixed >> 32)
    }

    /// 0 to `bound` - 1; a `bound` of 0 is taken as 1.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 16) as usize % bound.max(1)
    }

    pub(crate) fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[4]
    }

    pub(crate) fn short(&mut self) -> u16 {
        let bytes = self.next().to_le_bytes();
        u16::from_le_bytes([bytes[4], bytes[5]])
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}
