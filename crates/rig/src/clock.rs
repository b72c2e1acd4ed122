//! The clock of a rig.

use core::time::Duration;

use verbatim_hw::ether::{Stamp, StampSource, now as monotonic};
use verbatim_record::{Span, Time, TimeSource};

/// The clock of a rig. The clock starts when the rig is opened and counts CLOCK_MONOTONIC. Timestamps of frames and
/// of a local adapter can therefore be converted to the rig's time.
///
/// A device may run slower than real time, as a simulated core does. The rig's time is then the device's time:
/// every deadline of the tester and every limit of a statement applies to the device's own pace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    start: Duration,
    /// Nanoseconds of the host per nanosecond of the device.
    scale: u32,
}

impl Clock {
    pub(super) fn start(scale: u32) -> Self {
        Self {
            start: monotonic(),
            scale: scale.max(1),
        }
    }

    /// Returns the time of CLOCK_MONOTONIC, unscaled, for waits that concern only this host.
    pub(super) fn wall_now() -> Duration {
        monotonic()
    }

    /// Converts a duration of the rig's time to host time.
    pub(super) fn wall(self, of_rig: Duration) -> Duration {
        of_rig.saturating_mul(self.scale)
    }

    /// Converts a duration of host time to the rig's time.
    pub(super) fn of_rig(self, wall: Duration) -> Duration {
        wall / self.scale
    }

    /// Converts an interval of the agent's clock: divides its ends by the scale, and rounds them outwards. The
    /// agent's clock has the rate of this host's clock, but another origin.
    pub(super) fn of_host(self, earliest_ns: u64, latest_ns: u64) -> Span {
        let scale = u64::from(self.scale);
        Span::between(Time(earliest_ns / scale), Time(latest_ns.div_ceil(scale)))
    }

    pub(super) fn now(self) -> Time {
        self.at(monotonic())
    }

    /// Converts an instant of CLOCK_MONOTONIC, rounded down; an instant before the rig's start becomes 0.
    pub(super) fn at(self, monotonic: Duration) -> Time {
        Time(0).after(self.of_rig(monotonic.saturating_sub(self.start)))
    }

    /// Like [`Self::at`], rounded up to the next nanosecond of the rig.
    fn late(self, monotonic: Duration) -> Time {
        let lasted = monotonic.saturating_sub(self.start).as_nanos();
        Time(u64::try_from(lasted.div_ceil(self.scale.into())).unwrap_or(u64::MAX))
    }

    /// Converts a stamp, with the earliest time rounded down and the latest rounded up.
    pub(super) fn span(self, stamp: Stamp) -> Span {
        Span::between(self.at(stamp.earliest), self.late(stamp.latest)).with_source(match stamp.source {
            StampSource::Hardware => TimeSource::Hardware,
            StampSource::KernelSoftware => TimeSource::Kernel,
            StampSource::Bracket => TimeSource::OwnClock,
        })
    }

    /// Returns the span from `before` to now.
    pub(super) fn since(self, before: Time) -> Span {
        Span::between(before, self.late(monotonic())).with_source(TimeSource::OwnClock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_monotonic_stamps() {
        let clock = Clock {
            start: Duration::from_secs(100),
            scale: 1,
        };
        let late = Duration::from_secs(100) + Duration::from_nanos(7);
        assert_eq!(clock.at(late), Time(7));
        assert_eq!(clock.at(Duration::from_secs(99)), Time(0));
        for (source, taken) in [
            (StampSource::Hardware, TimeSource::Hardware),
            (StampSource::KernelSoftware, TimeSource::Kernel),
            (StampSource::Bracket, TimeSource::OwnClock),
        ] {
            let stamp = Stamp {
                earliest: Duration::from_secs(99),
                latest: late,
                source,
            };
            let span = Span::between(Time(0), Time(7)).with_source(taken);
            assert_eq!(clock.span(stamp), span);
        }
    }

    #[test]
    fn slow_device_scales_time_and_rounds_outwards() {
        let clock = Clock {
            start: Duration::from_secs(100),
            scale: 10_000,
        };
        let at = |ns: u64| Duration::from_secs(100) + Duration::from_nanos(ns);
        let stamp = Stamp {
            earliest: at(29_999),
            latest: at(30_001),
            source: StampSource::Bracket,
        };
        let span = clock.span(stamp);
        assert_eq!((span.earliest, span.latest), (Time(2), Time(4)));
        assert_eq!(clock.wall(Duration::from_millis(1)), Duration::from_secs(10));
        assert_eq!(clock.of_rig(Duration::from_secs(10)), Duration::from_millis(1));
        let told = clock.of_host(29_999, 30_001);
        assert_eq!((told.earliest, told.latest), (Time(2), Time(4)));
    }

    #[test]
    fn clock_advances() {
        let clock = Clock::start(1);
        let first = clock.now();
        while clock.now() == first {}
        assert!(clock.now() > first && clock.now() < Time(60_000_000_000));
    }
}
