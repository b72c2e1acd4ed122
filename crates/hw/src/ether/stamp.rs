//! When a frame was on the wire: bounds on one clock, from stamps of another.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use super::message::duration;

/// How often a pair of clocks is read; the narrowest bracket counts.
const READINGS: usize = 3;

/// When a frame was on the wire, on CLOCK_MONOTONIC: not before `earliest`, not after `latest`.
///
/// With [`StampSource::Bracket`], a frame that was sent may have left after `latest`, if a queue of the interface held
/// it back for longer than we waited for its stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The lower bound.
    pub earliest: Duration,
    /// The upper bound.
    pub latest: Duration,
    /// Who says so.
    pub source: StampSource,
}

/// Where the bounds of a [`Stamp`] come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampSource {
    /// The kernel's stamp, taken next to the driver.
    KernelSoftware,
    /// The network adapter's stamp.
    Hardware,
    /// No stamp: our own calls before and after.
    Bracket,
}

/// CLOCK_MONOTONIC: the clock of every [`Stamp`], and of `std::time::Instant` on Linux.
#[must_use]
pub fn now() -> Duration {
    // Reading this clock cannot fail: it exists on every Linux.
    read_clock(ClockId::CLOCK_MONOTONIC).unwrap_or_default()
}

/// Reads a clock, as the time since its zero; `None` if it cannot be read.
fn read_clock(clock: ClockId) -> Option<Duration> {
    duration(clock_gettime(clock).ok()?)
}

impl Stamp {
    /// Bounds without a stamp.
    pub(super) fn bracket(earliest: Duration, latest: Duration) -> Stamp {
        Stamp {
            earliest,
            latest: latest.max(earliest),
            source: StampSource::Bracket,
        }
    }

    /// The stamp of a frame that was received: the socket was last seen empty at `empty`, the call that read the frame
    /// began at `began` and ended by `read`; the stamp itself says `bounds`.
    ///
    /// The kernel stamps a frame that it let pass unstamped at the moment when it is read, which is an upper bound and
    /// no more. (It switches stamping on some time after it was asked to.)
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

    /// The narrower of what a stamp says and what is known without (`self`). If they contradict each other, a clock
    /// was set between stamp and conversion: the stamp is dropped.
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

/// One reading of another clock, between two of the monotonic one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) before: Duration,
    pub(super) other: Duration,
    pub(super) after: Duration,
}

impl Reading {
    /// Reads `clock`; the narrowest of a few readings. `None` if it cannot be read.
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

    /// Bounds on the monotonic clock of a `stamp` on the other one. `drift` is how many parts per million the two may
    /// run apart between stamp and reading.
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
