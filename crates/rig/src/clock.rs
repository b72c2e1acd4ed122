//! The time of a rig.

use core::time::Duration;

use verbatim_hw::ether::{Stamp, StampSource, now as monotonic};
use verbatim_record::{Span, Time, TimeSource};

/// The time of a rig: it begins when the rig is opened. The only place where the daemon's rigs read a clock, which is
/// CLOCK_MONOTONIC: times of frames and of a local adapter can be put on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Duration);

impl Clock {
    pub(super) fn start() -> Self {
        Self(monotonic())
    }

    pub(super) fn now(self) -> Time {
        self.at(monotonic())
    }

    /// An instant of CLOCK_MONOTONIC; the beginning, if it was before that.
    pub(super) fn at(self, monotonic: Duration) -> Time {
        Time(0).after(monotonic.saturating_sub(self.0))
    }

    /// The same for both ends of a stamp.
    pub(super) fn span(self, stamp: Stamp) -> Span {
        Span::between(self.at(stamp.earliest), self.at(stamp.latest)).with_source(match stamp.source {
            StampSource::Hardware => TimeSource::Hardware,
            StampSource::KernelSoftware => TimeSource::Kernel,
            StampSource::Bracket => TimeSource::OwnClock,
        })
    }

    /// Between an earlier reading and one that is taken now.
    pub(super) fn since(self, before: Time) -> Span {
        Span::between(before, self.now()).with_source(TimeSource::OwnClock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_of_the_monotonic_clock_has_its_place_in_the_rigs_time() {
        let clock = Clock(Duration::from_secs(100));
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
    fn the_clock_goes_on() {
        let clock = Clock::start();
        let first = clock.now();
        while clock.now() == first {}
        assert!(clock.now() > first && clock.now() < Time(60_000_000_000));
    }
}
