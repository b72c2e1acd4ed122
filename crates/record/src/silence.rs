//! The rule of silence: how long a tester must wait before "no answer" is a fact.
//!
//! The longer of the port's own RespTimeValue and the default of 2^20, the way there and back at
//! SubnetTimeOut each, and what our own host may hold up a MAD.

use core::time::Duration;

use verbatim_wire::packet::AckTimeout;
use verbatim_wire::{RespTime, SubnetTimeout};

/// RespTimeValue and SubnetTimeOut before the port told its own.
pub const DEFAULT: u8 = 20;

/// How long after the last instant at which the request may have left silence is proven.
#[must_use]
pub fn lasts(resp_time: RespTime, subnet_timeout: SubnetTimeout, host_bound: Duration) -> Duration {
    let answer = resp_time.duration().max(RespTime(DEFAULT).duration());
    answer + 2 * subnet_timeout.duration() + host_bound
}

/// How long a reliable connection must stay silent, for a QP with this ACK timeout and these retries, after an RNR NAK
/// that asked for this interval.
#[must_use]
pub fn rc_lasts(rnr_interval: Duration, timeout: AckTimeout, retry_cnt: u8) -> Duration {
    let tries = u32::from(retry_cnt) + 1;
    let by_timeout = timeout.duration().map_or(Duration::ZERO, |once| 4 * once * tries);
    Duration::from_secs(2).max(2 * rnr_interval).max(by_timeout)
}

/// How long a device may take to answer a request, by its Local CA ACK Delay, and an eighth more for the way; 0 where
/// it tells none.
#[must_use]
pub fn answer_time(local_ca_ack_delay: u32) -> Duration {
    let code = u8::try_from(local_ca_ack_delay).unwrap_or(u8::MAX).min(31);
    AckTimeout(code)
        .duration()
        .map_or(Duration::ZERO, |once| once + once / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_may_take_as_long_to_answer_as_it_says() {
        assert_eq!(answer_time(0), Duration::ZERO);
        assert_eq!(answer_time(18), Duration::from_nanos((4096 << 18) * 9 / 8));
        assert_eq!(answer_time(999), answer_time(31));
    }

    #[test]
    fn a_short_resp_time_value_does_not_shorten_the_wait_for_silence() {
        let wait = |resp| lasts(RespTime(resp), SubnetTimeout(18), Duration::ZERO);
        assert_eq!(wait(8), wait(20));
        assert!(wait(21) > wait(20));
        assert_eq!(wait(8), Duration::from_nanos(4096 * (1 << 20) + 2 * 4096 * (1 << 18)));
    }
}
