//! What campaigns share: random numbers from a seed, and the arguments that `cargo xtask` gives them.

use anyhow::Context;

/// A stream of random numbers: the same on every machine and in every thread. The seed is printed, so that a campaign can be
/// repeated.
#[derive(Debug)]
pub struct Dice(u64);

impl Dice {
    /// The stream of one case of a campaign.
    #[must_use]
    pub fn of(seed: u64, case: u64) -> Self {
        let mut dice = Self(seed ^ case.wrapping_mul(0xD1B5_4A32_D192_ED03));
        dice.draw();
        dice
    }

    /// Any number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        for factor in [0xFF51_AFD7_ED55_8CCD, 0xC4CE_B9FE_1A85_EC53] {
            mixed = (mixed ^ (mixed >> 32)).wrapping_mul(factor);
        }
        mixed ^ (mixed >> 32)
    }

    /// 0 to `bound` - 1; a `bound` of 0 is taken as 1.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.draw() >> 16) as usize % bound.max(1)
    }

    /// True in `chance` of a hundred.
    pub fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    /// Any octet.
    pub fn byte(&mut self) -> u8 {
        self.draw().to_le_bytes()[4]
    }

    /// Any 16 bits.
    pub fn short(&mut self) -> u16 {
        let bytes = self.draw().to_le_bytes();
        u16::from_le_bytes([bytes[4], bytes[5]])
    }

    /// One of these, of which there is one at least.
    ///
    /// # Panics
    /// When there is none.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// What stands behind `name` on this process's command line: the last one, so that what people give holds over what the
/// campaign's start says.
#[must_use]
pub fn argument(name: &str) -> Option<String> {
    let arguments: Vec<String> = std::env::args().collect();
    let place = arguments.iter().rposition(|argument| argument == name)?;
    arguments.get(place + 1).cloned()
}

/// The number behind `name`.
///
/// # Errors
/// When it is missing, or no number.
pub fn number(name: &str) -> anyhow::Result<u64> {
    let text = argument(name).with_context(|| format!("{name} N is missing"))?;
    text.parse()
        .with_context(|| format!("{name}: a number was expected, seen {text:?}"))
}
