//! The agent's clock: CLOCK_MONOTONIC, in nanoseconds.
//!
//! It never jumps, and on Linux it is the clock of `std::time::Instant`, so what a local session says can be compared
//! with what the same process measures. It does not run on another host's time.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use verbatim_proto::agent::Instant;

/// Now, in nanoseconds.
#[must_use]
pub fn now_ns() -> u64 {
    // Linux has this clock always.
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// From then until now.
#[must_use]
pub fn since(earliest_ns: u64) -> Instant {
    Instant {
        earliest_ns,
        latest_ns: now_ns(),
    }
}
