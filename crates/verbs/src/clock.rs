//! The agent's clock: CLOCK_MONOTONIC, in nanoseconds.
//!
//! The clock never jumps. On Linux it is the clock of `std::time::Instant`. The times of a local session can
//! therefore be compared with those of the same process, but not with the times of another host.

use verbatim_proto::agent::Instant;

/// Returns the present time in nanoseconds.
#[must_use]
pub fn now_ns() -> u64 {
    u64::try_from(verbatim_hw::ether::now().as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the interval from `earliest_ns` until now.
#[must_use]
pub fn since(earliest_ns: u64) -> Instant {
    Instant {
        earliest_ns,
        latest_ns: now_ns(),
    }
}
