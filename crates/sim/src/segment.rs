//! The disturbance of frames and MADs in transit in simulated time, drawn from a seed.

use core::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use verbatim_wire::packet::{Medium, Packet};

/// The delay of a late response in a frame. By then, the requester has retried.
const LATE_FRAME: Duration = Duration::from_millis(700);
/// The delay of a late response in a MAD. By then, the tester has proven silence.
const LATE_MAD: Duration = Duration::from_secs(20);

/// The disturbance of frames and MADs in transit. The default has none. Native packets are never disturbed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Disturbance {
    /// The largest random delay of a frame. Frames may overtake one another.
    pub delay: Duration,
    /// The least time between two frames of the same station.
    pub spacing: Duration,
    /// The number of lost frames and MADs per thousand. At least eight others pass between two losses, so three
    /// tries of a request are never all lost.
    pub lost: u16,
    /// The number of duplicated frames per thousand.
    pub doubled: u16,
    /// The number of frames per thousand with one flipped bit.
    pub damaged: u16,
    /// The longest time that the tester's Ethernet port may hold back a received frame, as an adapter's queues do.
    /// Frames may overtake one another, and each frame's time span includes the delay.
    pub held: Duration,
    /// The number of late responses per thousand. A late response in a frame delays the device's later frames.
    pub late: u16,
    /// The seed of the random draws.
    pub seed: u64,
}

/// Draws the disturbance of each frame and MAD.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    disturbance: Disturbance,
    random: ChaCha8Rng,
    /// The number of frames and MADs since the last loss.
    carried: u32,
}

/// The least number of frames and MADs between two losses. Three tries of a request and their responses are fewer.
const CARRIED: u32 = 8;

impl Segment {
    pub(crate) fn new(disturbance: Disturbance) -> Self {
        Self {
            disturbance,
            random: ChaCha8Rng::seed_from_u64(disturbance.seed),
            carried: CARRIED,
        }
    }

    /// Returns the copies of a frame that arrive, each with its own delay.
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

    /// Draws whether a frame or MAD is lost.
    pub(crate) fn loses(&mut self) -> bool {
        let lost = self.carried >= CARRIED && self.of_thousand(self.disturbance.lost);
        self.carried = if lost { 0 } else { self.carried.saturating_add(1) };
        lost
    }

    /// Draws whether a trap is lost. Traps do not count towards the distance between losses, because many may arrive
    /// between two requests.
    pub(crate) fn loses_trap(&mut self) -> bool {
        self.carried >= CARRIED && self.of_thousand(self.disturbance.lost)
    }

    /// Draws the delay of a response in a MAD. A late response counts as a loss: of three tries, at least one is
    /// neither lost nor late.
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

    /// Draws the delay of the device's frame. Only frames with a response are late.
    pub(crate) fn late_frame(&mut self, frame: &[u8]) -> Duration {
        let is_answer = || Packet::parse(Medium::Ethernet, frame).is_ok_and(|packet| packet.opcode().is_response());
        if self.disturbance.late == 0 || !is_answer() {
            return Duration::ZERO;
        }
        self.late(LATE_FRAME)
    }

    /// Returns the least time between two frames of a station.
    pub(crate) fn spacing(&self) -> Duration {
        self.disturbance.spacing
    }

    /// Draws how long the tester's port holds back a frame.
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
