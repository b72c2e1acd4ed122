//! What frames and MADs may suffer on their way in simulated time, by a seed.

use core::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use verbatim_wire::packet::{Medium, Packet};

/// By how much an answer in a frame is late: the tester has asked again by then.
const LATE_FRAME: Duration = Duration::from_millis(700);
/// By how much an answer in a MAD is late: silence was proven before.
const LATE_MAD: Duration = Duration::from_secs(20);

/// What frames and MADs suffer on their way. None of it by default. Native packets suffer nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Disturbance {
    /// Every frame takes up to this much longer; frames overtake one another by it.
    pub delay: Duration,
    /// How much later than the one before a frame of the same station leaves, at least.
    pub spacing: Duration,
    /// Of a thousand frames and MADs, how many are lost: one at a time, so that what is asked for three times is not lost
    /// three times.
    pub lost: u16,
    /// Of a thousand frames, how many come twice.
    pub doubled: u16,
    /// Of a thousand frames, how many come with one bit changed.
    pub damaged: u16,
    /// How long the tester's Ethernet port may hold a frame that came in: frames overtake one another by it, as in the
    /// queues of an adapter, and the span of each covers it.
    pub held: Duration,
    /// Of a thousand answers, how many are late: those in frames hold up what the device sends behind them.
    pub late: u16,
    /// The draw.
    pub seed: u64,
}

/// Decides what becomes of each frame.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    disturbance: Disturbance,
    random: ChaCha8Rng,
    /// How many were carried since the last that was lost.
    carried: u32,
}

/// So many are carried between two that are lost: what three requests in a row and their answers may come to.
const CARRIED: u32 = 8;

impl Segment {
    pub(crate) fn new(disturbance: Disturbance) -> Self {
        Self {
            disturbance,
            random: ChaCha8Rng::seed_from_u64(disturbance.seed),
            carried: CARRIED,
        }
    }

    /// The copies of a frame that arrive, each after a delay of its own.
    pub(crate) fn carry(&mut self, frame: Vec<u8>) -> Vec<(Duration, Vec<u8>)> {
        let Disturbance { doubled, damaged, .. } = self.disturbance;
        if self.disturbance == Disturbance::default() {
            return vec![(Duration::ZERO, frame)];
        }
        if self.loses() {
            return Vec::new();
        }
        let copies = if self.of_thousand(doubled) { 2 } else { 1 };
        let mut frame = frame;
        if self.of_thousand(damaged) && !frame.is_empty() {
            let bit = self.random.next_u64() as usize % (frame.len() * 8);
            frame[bit / 8] ^= 1 << (bit % 8);
        }
        let delay = self.disturbance.delay;
        (0..copies).map(|_| (self.up_to(delay), frame.clone())).collect()
    }

    /// Whether this one is lost.
    pub(crate) fn loses(&mut self) -> bool {
        let lost = self.carried >= CARRIED && self.of_thousand(self.disturbance.lost);
        self.carried = if lost { 0 } else { self.carried.saturating_add(1) };
        lost
    }

    /// Whether a trap is lost: between two requests many may come, and three requests in a row are not lost for that.
    pub(crate) fn loses_trap(&mut self) -> bool {
        self.carried >= CARRIED && self.of_thousand(self.disturbance.lost)
    }

    /// How late a MAD is, an answer. To who asked it is as good as lost: of three answers in a row one is neither.
    pub(crate) fn late_mad(&mut self) -> Duration {
        if self.carried <= CARRIED {
            return Duration::ZERO;
        }
        let late = self.late(LATE_MAD);
        if !late.is_zero() {
            self.carried = 0;
        }
        late
    }

    /// How late a frame of the device is: one that carries no answer never is.
    pub(crate) fn late_frame(&mut self, frame: &[u8]) -> Duration {
        let is_answer = || Packet::parse(Medium::Ethernet, frame).is_ok_and(|packet| packet.opcode().is_response());
        if self.disturbance.late == 0 || !is_answer() {
            return Duration::ZERO;
        }
        self.late(LATE_FRAME)
    }

    /// How much later than the one before a frame of a station leaves.
    pub(crate) fn spacing(&self) -> Duration {
        self.disturbance.spacing
    }

    /// How long the tester's port holds a frame.
    pub(crate) fn hold(&mut self) -> Duration {
        self.up_to(self.disturbance.held)
    }

    fn late(&mut self, by: Duration) -> Duration {
        if self.of_thousand(self.disturbance.late) {
            by
        } else {
            Duration::ZERO
        }
    }

    fn of_thousand(&mut self, count: u16) -> bool {
        count > 0 && self.random.next_u64() % 1000 < count.into()
    }

    fn up_to(&mut self, most: Duration) -> Duration {
        if most.is_zero() {
            return most;
        }
        let most = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX - 1);
        Duration::from_nanos(self.random.next_u64() % (most + 1))
    }
}
