//! An Ethernet segment in simulated time: what frames may suffer on their way, by a seed.

use core::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// What frames suffer on their way. None of it by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Disturbance {
    /// Every frame takes up to this much longer; frames overtake one another by it.
    pub delay: Duration,
    /// Of a thousand frames, how many are lost.
    pub lost: u16,
    /// Of a thousand frames, how many come twice.
    pub doubled: u16,
    /// Of a thousand frames, how many come with one bit changed.
    pub damaged: u16,
    /// The draw.
    pub seed: u64,
}

/// Decides what becomes of each frame.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    disturbance: Disturbance,
    random: ChaCha8Rng,
}

impl Segment {
    pub(crate) fn new(disturbance: Disturbance) -> Self {
        Self {
            disturbance,
            random: ChaCha8Rng::seed_from_u64(disturbance.seed),
        }
    }

    /// The copies of a frame that arrive, each after a delay of its own.
    pub(crate) fn carry(&mut self, frame: Vec<u8>) -> Vec<(Duration, Vec<u8>)> {
        let Disturbance {
            lost, doubled, damaged, ..
        } = self.disturbance;
        if self.disturbance == Disturbance::default() {
            return vec![(Duration::ZERO, frame)];
        }
        if self.of_thousand(lost) {
            return Vec::new();
        }
        let copies = if self.of_thousand(doubled) { 2 } else { 1 };
        let mut frame = frame;
        if self.of_thousand(damaged) && !frame.is_empty() {
            let bit = self.random.next_u64() as usize % (frame.len() * 8);
            frame[bit / 8] ^= 1 << (bit % 8);
        }
        (0..copies).map(|_| (self.delay(), frame.clone())).collect()
    }

    fn of_thousand(&mut self, count: u16) -> bool {
        count > 0 && self.random.next_u64() % 1000 < count.into()
    }

    fn delay(&mut self) -> Duration {
        let most = u64::try_from(self.disturbance.delay.as_nanos()).unwrap_or(u64::MAX - 1);
        Duration::from_nanos(self.random.next_u64() % (most + 1))
    }
}
