//! The agent's clock: CLOCK_MONOTONIC, in nanoseconds.
//!
//! It never jumps, and on Linux it is the clock of `std::time::Instant`, so what a local session says can be compared
//! with what the same process measures. It does not run on another host's time.

use rustix::time::{ClockId, clock_gettime};
use verbatim_proto::agent::Instant;

/// Now, in nanoseconds.
#[must_use]
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(now.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}

/// From then until now.
#[must_use]
pub fn since(earliest_ns: u64) -> Instant {
    Instant {
        earliest_ns,
        latest_ns: now_ns(),
    }
}
