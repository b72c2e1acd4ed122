//! Code that campaigns share: random numbers from a seed, and the arguments that `cargo xtask` passes.

use anyhow::Context;

/// A stream of pseudo-random numbers, the same on every machine and in every thread. Campaigns print the seed, so that
/// a user can repeat the campaign.
#[derive(Debug)]
pub struct Dice(u64);

impl Dice {
    /// Returns the stream of one case of a campaign.
    #[must_use]
    pub fn of(seed: u64, case: u64) -> Self {
        let mut dice = Self(seed ^ case.wrapping_mul(0xD1B5_4A32_D192_ED03));
        dice.draw();
        dice
    }

    /// Returns any 64-bit number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        for factor in [0xFF51_AFD7_ED55_8CCD, 0xC4CE_B9FE_1A85_EC53] {
            mixed = (mixed ^ (mixed >> 32)).wrapping_mul(factor);
        }
        mixed ^ (mixed >> 32)
    }

    /// Returns a number from 0 to `bound` - 1; treats a `bound` of 0 as 1.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.draw() >> 16) as usize % bound.max(1)
    }

    /// Returns true with a probability of `chance` percent.
    pub fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    /// Returns any octet.
    pub fn byte(&mut self) -> u8 {
        self.draw().to_le_bytes()[4]
    }

    /// Returns any 16 bits.
    pub fn short(&mut self) -> u16 {
        let bytes = self.draw().to_le_bytes();
        u16::from_le_bytes([bytes[4], bytes[5]])
    }

    /// Returns a random element of a nonempty slice.
    ///
    /// # Panics
    /// When the slice is empty.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// Returns the argument after `name` on this process's command line. Takes the last occurrence, so that a user's option
/// overrides the option that started the campaign.
#[must_use]
pub fn argument(name: &str) -> Option<String> {
    let arguments: Vec<String> = std::env::args().collect();
    let place = arguments.iter().rposition(|argument| argument == name)?;
    arguments.get(place + 1).cloned()
}

/// Returns the number after `name` on this process's command line.
///
/// # Errors
/// When the argument is missing or not a number.
pub fn number(name: &str) -> anyhow::Result<u64> {
    let text = argument(name).with_context(|| format!("{name} N is missing"))?;
    text.parse()
        .with_context(|| format!("{name}: expected a number, seen {text:?}"))
}
