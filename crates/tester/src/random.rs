//! Random numbers that depend only on the seed, the test and the name of the stream.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use sha2::{Digest, Sha256};

/// A stream of random numbers. Streams with the same seed, test and name are equal; other streams are independent.
#[derive(Clone, Debug)]
pub struct Stream(ChaCha8Rng);

impl Stream {
    /// Makes the stream for a seed, a test and a stream name.
    #[must_use]
    pub fn new(seed: u64, test: &str, name: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update(seed.to_le_bytes());
        hash.update([u8::try_from(test.len()).unwrap_or(u8::MAX)]);
        hash.update(test);
        hash.update(name);
        Self(ChaCha8Rng::from_seed(hash.finalize().into()))
    }

    /// Returns 64 random bits.
    #[must_use]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number from `low` to `high`, both included.
    ///
    /// # Panics
    /// When `low` exceeds `high`.
    #[must_use]
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "no number lies between {low} and {high}");
        // The bias of a remainder is below 2^-32 for the small ranges of tests.
        low + self.bits() % (high - low + 1).max(1)
    }

    /// Returns a random byte.
    #[must_use]
    pub fn byte(&mut self) -> u8 {
        self.bits().to_le_bytes()[0]
    }

    /// Returns a nonzero random number of 64 bits, for example for a key.
    #[must_use]
    pub fn nonzero(&mut self) -> u64 {
        self.bits().max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_depend_on_seed_test_and_name() {
        let draw = |seed, test, name| Stream::new(seed, test, name).bits();
        assert_eq!(draw(1, "a", "b"), draw(1, "a", "b"));
        assert_ne!(draw(1, "a", "b"), draw(2, "a", "b"));
        assert_ne!(draw(1, "ab", ""), draw(1, "a", "b"));
        assert!((5..=9).contains(&Stream::new(3, "t", "s").between(5, 9)));
        // This number is fixed: with another number, records of the same seed would change.
        assert_eq!(Stream::new(0, "t", "s").bits(), 1_610_935_394_489_481_103);
    }
}
