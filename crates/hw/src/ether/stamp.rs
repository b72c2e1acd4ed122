//! Time bounds of a frame on the monotonic clock, from stamps of another clock.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use super::message::duration;

/// Number of readings of a pair of clocks; the narrowest reading is used.
const READINGS: usize = 3;

/// Time when a frame was on the wire, on CLOCK_MONOTONIC: not before `earliest`, not after `latest`.
///
/// With [`StampSource::Bracket`], a sent frame may have left after `latest`. This happens if a queue of the interface
/// delayed the frame for longer than the wait for its stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The lower bound.
    pub earliest: Duration,
    /// The upper bound.
    pub latest: Duration,
    /// Source of the bounds.
    pub source: StampSource,
}

/// Source of the bounds of a [`Stamp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampSource {
    /// The kernel's stamp, taken next to the driver.
    KernelSoftware,
    /// The network adapter's stamp.
    Hardware,
    /// No stamp: the bounds are times before and after the socket calls.
    Bracket,
}

/// Returns the present time of CLOCK_MONOTONIC, the clock of every [`Stamp`] and of `std::time::Instant` on Linux.
#[must_use]
pub fn now() -> Duration {
    // This read cannot fail: every Linux has this clock.
    read_clock(ClockId::CLOCK_MONOTONIC).unwrap_or_default()
}

/// Returns the time of a clock since its epoch, or `None` if the clock cannot be read.
fn read_clock(clock: ClockId) -> Option<Duration> {
    duration(clock_gettime(clock).ok()?)
}

impl Stamp {
    /// Makes bounds without a stamp.
    pub(super) fn bracket(earliest: Duration, latest: Duration) -> Stamp {
        Stamp {
            earliest,
            latest: latest.max(earliest),
            source: StampSource::Bracket,
        }
    }

    /// Makes the stamp of a received frame. The socket was last seen empty at `empty`. The call that read the
    /// frame began at `began` and ended by `read`. `bounds` come from the converted stamp.
    ///
    /// The kernel enables stamping some time after the request for stamps. A frame that arrives before that time
    /// gets its stamp only when it is read. Its stamp is therefore only an upper bound.
    pub(super) fn received(
        (empty, began, read): (Duration, Duration, Duration),
        bounds: (Duration, Duration),
        source: StampSource,
    ) -> Stamp {
        if source == StampSource::KernelSoftware && bounds.1 >= began {
            return Stamp::bracket(empty, bounds.1.min(read));
        }
        Stamp::bracket(empty, read).narrowed(bounds, source)
    }

    /// Intersects the bounds of a stamp with the bounds known without it (`self`). If they contradict each other, a
    /// clock was set between stamp and conversion, and the stamp is discarded.
    pub(super) fn narrowed(self, (earliest, latest): (Duration, Duration), source: StampSource) -> Stamp {
        let (earliest, latest) = (earliest.max(self.earliest), latest.min(self.latest));
        if earliest > latest {
            return self;
        }
        Stamp {
            earliest,
            latest,
            source,
        }
    }
}

/// A reading of another clock between two readings of the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) before: Duration,
    pub(super) other: Duration,
    pub(super) after: Duration,
}

impl Reading {
    /// Reads `clock` a few times and returns the narrowest reading. Returns `None` if the clock cannot be read.
    pub(super) fn take(clock: ClockId) -> Option<Reading> {
        let read = || {
            let before = now();
            let other = read_clock(clock)?;
            let after = now();
            Some(Reading { before, other, after })
        };
        (0..READINGS)
            .filter_map(|_| read())
            .min_by_key(|reading| reading.after.saturating_sub(reading.before))
    }

    /// Converts a `stamp` of the other clock to bounds on the monotonic clock. `drift` is the largest difference of the
    /// clocks' rates between stamp and reading, in parts per million.
    pub(super) fn convert(&self, stamp: Duration, drift: u32) -> (Duration, Duration) {
        let age = self.other.abs_diff(stamp);
        let slack = age.mul_f64(f64::from(drift) / 1e6);
        let shift = |bound: Duration| match stamp.checked_sub(self.other) {
            Some(ahead) => bound.saturating_add(ahead),
            None => bound.saturating_sub(age),
        };
        (
            shift(self.before).saturating_sub(slack),
            shift(self.after).saturating_add(slack),
        )
    }
}
