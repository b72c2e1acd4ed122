//! The time of a rig.

use core::time::Duration;

use verbatim_hw::ether::{Stamp, StampSource, now as monotonic};
use verbatim_record::{Span, Time, TimeSource};

/// The time of a rig: it begins when the rig is opened. The only place where the daemon's rigs read a clock, which is
/// CLOCK_MONOTONIC: times of frames and of a local adapter can be put on it.
///
/// Where the device's own clock is slower than ours, as that of a simulated core, the rig's time is the device's: every
/// deadline of the tester and every bound of a statement then means what it means to the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    start: Duration,
    /// Our nanoseconds in one of the device's.
    scale: u32,
}

impl Clock {
    pub(super) fn start(scale: u32) -> Self {
        Self {
            start: monotonic(),
            scale: scale.max(1),
        }
    }

    /// CLOCK_MONOTONIC: for what concerns our own host, whatever the device's speed.
    pub(super) fn wall_now() -> Duration {
        monotonic()
    }

    /// How long of our own time a time of the rig lasts.
    pub(super) fn wall(self, of_rig: Duration) -> Duration {
        of_rig.saturating_mul(self.scale)
    }

    /// How long of the rig's time our own time lasts.
    pub(super) fn of_rig(self, wall: Duration) -> Duration {
        wall / self.scale
    }

    /// An instant of the agent's clock, of which nothing is known but its pace: not before and not after this.
    pub(super) fn of_host(self, earliest_ns: u64, latest_ns: u64) -> Span {
        let scale = u64::from(self.scale);
        Span::between(Time(earliest_ns / scale), Time(latest_ns.div_ceil(scale)))
    }

    pub(super) fn now(self) -> Time {
        self.at(monotonic())
    }

    /// An instant of CLOCK_MONOTONIC; the beginning, if it was before that.
    pub(super) fn at(self, monotonic: Duration) -> Time {
        Time(0).after(self.of_rig(monotonic.saturating_sub(self.start)))
    }

    /// The same, the end of the rig's nanosecond in which it lies.
    fn late(self, monotonic: Duration) -> Time {
        let lasted = monotonic.saturating_sub(self.start).as_nanos();
        Time(u64::try_from(lasted.div_ceil(self.scale.into())).unwrap_or(u64::MAX))
    }

    /// The same for both ends of a stamp.
    pub(super) fn span(self, stamp: Stamp) -> Span {
        Span::between(self.at(stamp.earliest), self.late(stamp.latest)).with_source(match stamp.source {
            StampSource::Hardware => TimeSource::Hardware,
            StampSource::KernelSoftware => TimeSource::Kernel,
            StampSource::Bracket => TimeSource::OwnClock,
        })
    }

    /// Between an earlier reading and one that is taken now.
    pub(super) fn since(self, before: Time) -> Span {
        Span::between(before, self.late(monotonic())).with_source(TimeSource::OwnClock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_of_the_monotonic_clock_has_its_place_in_the_rigs_time() {
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
    fn for_a_slow_device_time_is_its_own_and_its_bounds_never_tighten() {
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
    fn the_clock_goes_on() {
        let clock = Clock::start(1);
        let first = clock.now();
        while clock.now() == first {}
        assert!(clock.now() > first && clock.now() < Time(60_000_000_000));
    }
}
